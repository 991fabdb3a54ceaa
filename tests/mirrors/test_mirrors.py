"""The mirrors have the names, signatures and members that TensorFlow and Keras had.

A mirror is a module of tf_lso with an old name, such as `tf_lso.keras.mixed_precision`.
`record/api.json` lists what real versions of TensorFlow and Keras had.
"""

import ast
import importlib
import inspect
import json
import operator
import pathlib
import re

import pytest
import tensorflow as tf

import tf_lso
from tests.families import keras, keras2
from tf_lso import names

RECORD = json.loads((pathlib.Path(__file__).parent / "record/api.json").read_text())
NAMES = [(namespace, name) for namespace in RECORD for name in RECORD[namespace]]
TODAY = ["2.21.0"]  # Keras 3
# The record of Keras 3 is of the release that came with TensorFlow 2.21. Other releases have
# other members.
IS_RECORDED_KERAS = tf.__version__.startswith("2.21.") and hasattr(
    keras.DTypePolicy, "quantization_mode"
)
TF_KERAS = "2.21-tf_keras"


def mirror(namespace):
    """Return the module of tf_lso for an old module such as "tf.train.experimental"."""
    return importlib.import_module(namespace.replace("tf", "tf_lso", 1))


def reached(dotted):
    """Return the object that a dotted name of tf_lso leads to, by attributes only."""
    return operator.attrgetter(dotted.partition(".")[2])(tf_lso)


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_a_name_is_there_by_import_and_by_attribute(namespace, name):
    found = getattr(mirror(namespace), name)
    assert reached(f"{namespace}.{name}".replace("tf", "tf_lso", 1)) is found
    assert found.__doc__


@pytest.mark.parametrize("namespace", RECORD)
def test_a_mirror_has_the_real_names_and_no_more(namespace):
    modules = {"experimental"}
    assert set(mirror(namespace).__all__) - modules == set(RECORD[namespace])
    assert mirror(namespace).__all__ == sorted(mirror(namespace).__all__)


def versions_of(entry):
    """Return the sorted versions (major, minor) that had a name, without today's tf_keras."""
    texts = {v for vs in entry["signatures"].values() for v in vs} - {TF_KERAS}
    return sorted(tuple(map(int, text.split(".")[:2])) for text in texts)


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_the_table_has_the_versions_that_had_the_name(namespace, name):
    use = names.NAMESPACES[namespace.removeprefix("tf.")][name]
    versions = versions_of(RECORD[namespace][name])
    first, _, last = use.versions.partition("-")
    if last == "" and "-" in use.versions:
        assert versions == [(2, 21)]  # Keras 3 only
        return
    legacy = [v for v in versions if v != (2, 21) or last == "2.21"]
    assert [f"{a}.{b}" for a, b in (legacy[0], legacy[-1])] == [first, last or first]
    assert (use.today == names.MISSING) == ((2, 21) not in versions)


def parsed(signature):
    """Return a dict from the parameters of a recorded signature to their defaults.

    The default of a parameter without default is `inspect.Parameter.empty`.
    """
    text = re.sub(r"<[^>]*>", "None", signature)
    function = ast.parse(f"def f{text}: pass").body[0].args
    names = [a.arg for a in function.posonlyargs + function.args]
    defaults = [ast.literal_eval(d) for d in function.defaults]
    none = [inspect.Parameter.empty] * (len(names) - len(defaults))
    given = zip(names, none + defaults, strict=True)
    return {name: value for name, value in given if name not in ("self", "cls")}


# Differences on purpose. `RENAMED` maps the name of a class and a recorded parameter to the
# parameter in tf_lso. `OTHER_DEFAULTS` maps the name of a class, a recorded parameter and its
# default to the default in tf_lso.
RENAMED = {("LossScaleOptimizer", "inner_optimizer"): "optimizer"}
OTHER_DEFAULTS = {
    # The default has this name since TensorFlow 2.4. tf_lso accepts both names.
    ("Policy", "loss_scale", "USE_DEFAULT"): "auto",
    ("Policy", "name", inspect.Parameter.empty): None,  # Keras 3's own class
}
# Keras 3 has another order of arguments, which tf_lso cannot tell from the legacy order. So
# tf_lso accepts the arguments of Keras 3 by keyword only.
BY_KEYWORD = {"initial_scale": 2.0**15, "dynamic_growth_steps": 2000, "name": None}
SIGNATURES = [
    (namespace, name, signature, versions)
    for namespace, name in NAMES
    for signature, versions in RECORD[namespace][name]["signatures"].items()
    if signature != "(self, /, *args, **kwargs)"  # says nothing
    and (IS_RECORDED_KERAS or versions != TODAY)
]


@pytest.mark.parametrize(("namespace", "name", "signature", "versions"), SIGNATURES)
def test_a_signature_is_the_real_one(namespace, name, signature, versions):
    real = parsed(signature)
    ours = inspect.signature(getattr(mirror(namespace), name)).parameters
    if name == "LossScaleOptimizer" and versions == TODAY:
        cls, inner = getattr(mirror(namespace), name), keras.optimizers.SGD()
        assert cls(inner_optimizer=inner, **BY_KEYWORD).inner_optimizer is inner
        return
    kind = inspect.Parameter
    order = [p.name for p in ours.values() if p.kind is kind.POSITIONAL_OR_KEYWORD]
    expected = [RENAMED.get((name, parameter), parameter) for parameter in real]
    assert order[: len(expected)] == expected
    for parameter, default in real.items():
        here = ours[RENAMED.get((name, parameter), parameter)].default
        other = OTHER_DEFAULTS.get((name, parameter, default), default)
        assert here in (default, other)
    for parameter in list(ours.values())[len(expected) :]:
        variadic = parameter.kind in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL)
        assert parameter.default is not kind.empty or variadic


MAKERS = {
    "LossScaleOptimizer": {
        "keras3": lambda cls, *a: cls(keras.optimizers.SGD(), *a),
        "legacy": lambda cls, *a: cls(keras2.optimizers.legacy.SGD(), *a),
        "new": lambda cls, *a: cls(keras2.optimizers.SGD(), *a),
    },
    "Policy": {"": lambda cls, *a: cls("mixed_float16")},
    "DTypePolicy": {"": lambda cls, *a: cls("mixed_float16")},
    "LossScale": {"": lambda cls, *a: tf_lso.DynamicLossScale()},
    "FixedLossScale": {"": lambda cls, *a: cls(8)},
    "DynamicLossScale": {"": lambda cls, *a: cls()},
    "MixedPrecisionLossScaleOptimizer": {
        "": lambda cls, *a: cls(tf.compat.v1.train.GradientDescentOptimizer(0.1), 8)
    },
}


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_a_class_has_the_real_members(namespace, name):
    members = RECORD[namespace][name]["members"]
    cls = getattr(mirror(namespace), name)
    arguments = [8] if namespace.endswith("experimental") else []
    for family, make in MAKERS.get(name, {"": None} if members else {}).items():
        made = make(cls, *arguments)
        leave_new = family in ("legacy", "new") or not IS_RECORDED_KERAS
        missing = [
            member
            for member, kinds in members.items()
            if not hasattr(made, member) and not hasattr(type(made), member)
            if not (leave_new and set().union(*kinds.values()) <= set(TODAY))
        ]
        assert missing == []


@pytest.mark.parametrize(
    ("dotted", "words"),
    [
        ("keras.mixed_precision.LossScaleOptimiser", "mean 'LossScaleOptimizer'?"),
        ("keras.mixed_precision.experimental.set_polcy", "set_policy"),
        ("keras.mixed_precision.set_policy", "experimental.set_policy"),
        (
            "keras.mixed_precision.DynamicLossScale",
            "tf_lso.mixed_precision.experimental.DynamicLossScale",
        ),
        ("train.experimantal", "experimental"),
        ("compat.v3", "v"),
        ("LossScaleOptimzer", "LossScaleOptimizer"),
        ("kears", "keras"),
        ("mixed_precision.experimental.Zzz", "FixedLossScale"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(dotted, words):
    with pytest.raises(AttributeError) as caught:
        reached(f"tf_lso.{dotted}")
    assert dotted.rpartition(".")[2] in str(caught.value)
    assert words in str(caught.value)


def test_an_unknown_name_can_be_asked_for():
    assert not hasattr(tf_lso.keras.mixed_precision, "zzz")
    assert getattr(tf_lso.keras, "zzz", 3) == 3
