"""Where dtype policies are otherwise than a recorded version's, and why."""

import functools

from tests.golden.comparing import as_in
from tests.golden.differences import (
    UNTIL_2_3,
    UNTIL_2_4,
    Difference,
    gives,
    raises,
)

_difference = functools.partial(Difference, "policies")
_as_in = functools.partial(as_in, section="policies")

OF_2_4_TO_2_8 = ("2.4.4", "2.8.4")
KERAS3 = ("keras3",)

# --- The rows of compat_docs/reference/differences.md, by how they begin.

CASTS = "`Policy.should_cast_variables`"
NAME = "The name of the policy's class"
GLOBAL = "`global_policy` and `get_layer_policy` of the experimental API"
DEFAULT = '`loss_scale="auto"` and `"USE_DEFAULT"` of the experimental `Policy`'
INFER = "The policies `infer` and `_infer`"
LAYER = "`layer.compute_dtype`, `variable_dtype` and `dtype_policy`"
LAYER_POLICY = "`get_layer_policy` in TensorFlow 2.0 and 2.1"
OF_NAME = "A layer whose `dtype` is the name of a mixed policy"
CONFIG = "The dtype in the config of a layer"
EQUAL = '`Policy("float32") == Policy("float32")`, on Keras 3'
HASH = "`hash(policy)`, on Keras 3"
NO_NAME = "`Policy(None)`, on Keras 3"
BFLOAT16 = "Training under `mixed_bfloat16` in TensorFlow 2.0 and 2.1"
FIRST_NEW = "The newer optimizers in TensorFlow 2.9 to 2.11"
CLIPPING = "An inner optimizer that clips, in TensorFlow 2.0 to 2.3"
ONE_CLASS = "The name of the class"


def _each_policy(change):
    """Each policy in the result is `change(policy)`."""

    def changed(content, case):
        if isinstance(content, list):
            return [changed(element, case) for element in content]
        if not isinstance(content, dict):
            return content
        content = {key: changed(value, case) for key, value in content.items()}
        return change(content) if "should_cast_variables" in content else content

    return changed


def _casts(policy):
    if "error" in (policy["loss_scale"] or {}):
        return policy  # a stable one
    casts = policy["compute_dtype"] != policy["variable_dtype"]
    return {**policy, "should_cast_variables": casts}


def _renamed(content, case):
    if isinstance(content, dict):
        return {key: _renamed(value, case) for key, value in content.items()}
    if isinstance(content, list):
        return [_renamed(element, case) for element in content]
    if isinstance(content, str):
        return content.replace("PolicyV1", "Policy")
    return content


def _dtype_policy(content, case):
    """Keras 3's own class in place of the stable one."""
    if isinstance(content, dict):
        return {
            key: "DTypePolicy" if key == "type" else _dtype_policy(value, case)
            for key, value in content.items()
        }
    if isinstance(content, str):
        return content.replace("<Policy ", "<DTypePolicy ")
    return content


def _in_the_layer(name, type_):
    """What the layer of that policy has since 2.4."""
    half = "float16" if "float16" in name else "float32"
    return {
        "compute_dtype": {"ok": half},
        "variable_dtype": {"ok": name if name == "float16" else "float32"},
        "dtype_policy": {"ok": {"name": name, "type": type_}},
    }


def _layer_attributes(recorded, case):
    return gives(**_in_the_layer(case["attribute"], "Policy"))(recorded, case)


def _policy_config(class_name, module, registered_name):
    """A policy in a config: its class and where to find it."""

    def expected(recorded, case):
        name = case["attribute"].replace("dtype=Policy", "mixed_float16")
        config = {
            "class_name": class_name,
            "config": {"name": name},
            "module": module,
            "registered_name": registered_name,
        }
        if isinstance(recorded["ok"], list):
            return {"ok": [*recorded["ok"][:2], config]}
        return gives(**{"get_config.dtype": config})(recorded, case)

    return expected


def _with(name, loss_scale=None):
    """The experimental policy."""
    scale = "None" if loss_scale is None else loss_scale["repr"]
    compute = name.removeprefix("mixed_")
    mixed = name.startswith("mixed")
    return {
        "compute_dtype": compute,
        "variable_dtype": "float32" if mixed else compute,
        "name": name,
        "should_cast_variables": mixed,
        "loss_scale": loss_scale,
        "config": {"ok": {"name": name}},
        "repr": {"ok": f'<Policy "{name}", loss_scale={scale}>'},
        "type": "Policy",
    }


_DYNAMIC = {
    "py": "DynamicLossScale",
    "repr": "DynamicLossScale(current_loss_scale=32768.0, num_good_steps=0, "
    "initial_loss_scale=32768.0, increment_period=2000, multiplier=2.0)",
}


def _with_default(recorded, case):
    name = case["case"].split("'")[1]
    return {"ok": _with(name, _DYNAMIC if name == "mixed_float16" else None)}


def _of_the_layer(recorded, case):
    name = case["attribute"]
    scale = _DYNAMIC if name == "mixed_float16" else None
    return gives(get_layer_policy=_with(name, scale))(recorded, case)


def _one_class(recorded, case):
    if "LossScaleOptimizer" not in recorded.get("ok", {}).get("optimizer_type", ""):
        return recorded
    return gives(optimizer_type="LossScaleOptimizer")(recorded, case)


def _at(*names):
    """The calls of the experimental `Policy` with such a loss scale."""
    policies = ("float32", "mixed_bfloat16", "mixed_float16")
    return tuple(f"Policy('{p}',loss_scale={n})" for p in policies for n in names)


_BY_NAME = ("mixed_float16", "mixed_float16+str", "mixed_float16+already_lso")
_UNTIL_2_11 = ("2.4.4", "2.8.4", "2.9.3", "2.10.1", "2.11.1")
_OWN = "dtype=Policy"
_NAMES = ("bfloat16", "float16", "float32", "float64", "int8")
_OF_KERAS = (
    *(f"Policy('{name}')" for name in (*_NAMES, "mixed_float16", "mixed_bfloat16")),
    *("from_config", "from_config_ls", "global_default"),
    *("set(None)", "set(Policy)", "set(mixed_float16)", "layers"),
)
_LAYERS = ("float32", "float16", "mixed_float16")
_WRAPPED = tuple(
    f"{policy}{more}"
    for policy in ("P(float32,8)", "P(mixed_float16,8)", "P(mixed_float16,Dyn)")
    for more in ("", "+clipnorm")
)

DIFFERENCES = [
    # --- Policies.
    _difference(
        {},
        "it has what that of 2.0 to 2.3 had",
        _each_policy(_casts),
        versions=OF_2_4_TO_2_8,
        row=CASTS,
    ),
    _difference(
        {},
        "one class",
        _renamed,
        versions=OF_2_4_TO_2_8,
        row=NAME,
    ),
    _difference(
        {"api": "stable", "case": _OF_KERAS},
        "it is Keras 3's own",
        _dtype_policy,
        families=KERAS3,
        row=NAME,
    ),
    _difference(
        {"api": "stable", "case": "Policy<policy>"},
        "it is Keras 3's own",
        _dtype_policy,
        message='DTypePolicy "float32"',
        families=KERAS3,
        row=NAME,
    ),
    _difference(
        {"api": "experimental", "case": _at("auto")},
        "both names of the default",
        _with_default,
        versions=UNTIL_2_3,
        row=DEFAULT,
    ),
    _difference(
        {"api": "experimental", "case": _at("USE_DEFAULT")},
        "both names of the default",
        _with_default,
        versions=OF_2_4_TO_2_8,
        row=DEFAULT,
    ),
    _difference(
        {
            "api": "experimental",
            "case": ("global_default", "set(None)", "set(mixed_float16)"),
        },
        "with the loss scale, as until 2.3",
        _as_in("2.3.4"),
        versions=OF_2_4_TO_2_8,
        row=GLOBAL,
    ),
    _difference(
        {"api": "experimental", "case": "set(policy_other_kind)"},
        "with the loss scale",
        gives(**{"global": _with("mixed_float16", _DYNAMIC), "same_object": False}),
        versions=OF_2_4_TO_2_8,
        row=GLOBAL,
    ),
    _difference(
        {"case": ("Policy('_infer')", "Policy('infer')")},
        "Keras 3 has none",
        raises("ValueError"),
        message="infer",
        families=KERAS3,
        row=INFER,
    ),
    _difference(
        {"api": "experimental", "case": "Policy('infer')"},
        "tf_keras has none",
        raises("ValueError"),
        message="infer",
        families=("new",),
        versions=("2.1.4",),
        row=INFER,
    ),
    _difference(
        {"api": "experimental", "case": "Policy('_infer')"},
        "tf_keras has it",
        _as_in("2.3.4"),
        families=("new",),
        versions=("2.1.4",),
        row=INFER,
    ),
    _difference(
        {"api": "experimental", "case": "set(infer)"},
        "it is the default dtype's policy",
        _as_in("2.3.4", of={"case": "set(None)"}),
        row=INFER,
    ),
    _difference(
        {"case": "eq"},
        "Keras 3 compares names",
        lambda recorded, case: {"ok": [True, False, False, True]},
        families=KERAS3,
        row=EQUAL,
    ),
    _difference(
        {"api": "stable", "case": "hash"},
        "Keras 3 compares names",
        raises("TypeError"),
        message="unhashable",
        families=KERAS3,
        row=HASH,
    ),
    _difference(
        {"api": "stable", "case": "Policy<None>"},
        "Keras 3 takes it",
        _as_in("2.15.1", of={"case": "Policy('float32')"}),
        families=KERAS3,
        row=NO_NAME,
    ),
    _difference(
        {"api": "stable", "case": "Policy<None>"},
        "Keras 3 takes it",
        _dtype_policy,
        families=KERAS3,
        row=NAME,
    ),
    # --- Layers.
    _difference(
        {"api": "experimental", "case": "layers", "attribute": _LAYERS},
        "with the loss scale, as in 2.3",
        _of_the_layer,
        versions=OF_2_4_TO_2_8,
        row=GLOBAL,
    ),
    _difference(
        {"api": "experimental", "case": "layers", "attribute": _LAYERS},
        "there, as since 2.2",
        _of_the_layer,
        versions=("2.1.4",),
        row=LAYER_POLICY,
    ),
    _difference(
        {"api": "experimental", "case": "layers", "attribute": _LAYERS},
        "as since 2.4",
        _layer_attributes,
        versions=UNTIL_2_3,
        row=LAYER,
    ),
    _difference(
        {"case": "layers", "attribute": "dtype=str"},
        "as in 2.8",
        lambda recorded, case: {"ok": {"ok": "float16"}},
        versions=UNTIL_2_4,
        row=OF_NAME,
    ),
    _difference(
        {"api": "experimental", "case": "layers", "attribute": (*_LAYERS, _OWN)},
        "Keras writes the class",
        _policy_config(
            "Policy", "tf_lso.keras.mixed_precision.experimental", "tf_lso>Policy"
        ),
        row=CONFIG,
    ),
    _difference(
        {"api": "stable", "case": "layers", "attribute": (*_LAYERS, _OWN)},
        "Keras 3 writes the class",
        _policy_config("DTypePolicy", "keras", None),
        families=KERAS3,
        row=CONFIG,
    ),
    _difference(
        {"api": "stable", "case": "layers", "attribute": ("mixed_float16", _OWN)},
        "as since 2.13",
        _policy_config("Policy", "keras.mixed_precision", None),
        families=("new",),
        versions=_UNTIL_2_11,
        row=CONFIG,
    ),
    # --- compile.
    _difference(
        {"case": "compile", "attribute": (*_WRAPPED, *_BY_NAME)},
        "one class",
        _one_class,
        row=ONE_CLASS,
    ),
    _difference(
        {"case": "compile", "attribute": "P(mixed_float16,8)+clipnorm"},
        "clipping follows unscaling",
        _as_in("2.8.4"),
        versions=UNTIL_2_3,
        row=CLIPPING,
    ),
    _difference(
        {"case": "compile", "attribute": "P(mixed_float16,8)+clipnorm"},
        "one class",
        _one_class,
        versions=UNTIL_2_3,
        row=ONE_CLASS,
    ),
    _difference(
        {"case": "compile", "attribute": "mixed_bfloat16"},
        "CPUs can compute in it now",
        _as_in("2.8.4"),
        versions=("2.1.4",),
        row=BFLOAT16,
    ),
    _difference(
        {"case": "compile", "family": "new"},
        "as since 2.10",
        _as_in("2.10.1"),
        versions=("2.9.3",),
        row=FIRST_NEW,
    ),
    _difference(
        {"case": "compile", "family": "new", "attribute": _BY_NAME},
        "one class",
        _one_class,
        versions=("2.9.3",),
        row=ONE_CLASS,
    ),
]
