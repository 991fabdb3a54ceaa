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
from tf_lso.optimizers import binding

RECORD = json.loads((pathlib.Path(__file__).parent / "record/api.json").read_text())
NAMES = [(namespace, name) for namespace in RECORD for name in RECORD[namespace]]
# Versions in the record. `TODAY` stands for Keras 3, and `TF_KERAS` for tf_keras.
TODAY = "2.21.0"
TF_KERAS = "2.21-tf_keras"
# The record of Keras 3 is of the release that came with TensorFlow 2.21. Other releases have
# other members.
IS_RECORDED_KERAS = tf.__version__.startswith("2.21.") and hasattr(
    keras.DTypePolicy, "quantization_mode"
)


def mirror(namespace):
    """Return the module of tf_lso for an old module such as "tf.train.experimental"."""
    return importlib.import_module(namespace.replace("tf", "tf_lso", 1))


def reached(dotted):
    """Return the object that a dotted name of tf_lso leads to, by attributes only."""
    return operator.attrgetter(dotted.partition(".")[2])(tf_lso)


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_a_name_exists_by_import_and_by_attribute(namespace, name):
    value = getattr(mirror(namespace), name)
    assert reached(f"{namespace}.{name}".replace("tf", "tf_lso", 1)) is value
    assert value.__doc__


@pytest.mark.parametrize("namespace", RECORD)
def test_a_mirror_has_the_real_names_and_no_others(namespace):
    submodules = {"experimental"}
    assert set(mirror(namespace).__all__) - submodules == set(RECORD[namespace])
    assert mirror(namespace).__all__ == sorted(mirror(namespace).__all__)


def versions_of(entry):
    """Return the sorted versions (major, minor) that had a name, without today's tf_keras."""
    found = set()
    for versions in entry["signatures"].values():
        for version in versions:
            if version != TF_KERAS:
                major, minor, *_ = version.split(".")
                found.add((int(major), int(minor)))
    return sorted(found)


@pytest.mark.parametrize(("namespace", "name"), NAMES)
def test_the_table_has_the_versions_that_had_the_name(namespace, name):
    use = names.NAMESPACES[namespace.removeprefix("tf.")][name]
    versions = versions_of(RECORD[namespace][name])
    # The table has texts such as "2.4-2.15", "2.4" for a single version, and "2.16-" for a name
    # that only Keras 3 has.
    first, dash, last = use.versions.partition("-")
    if dash and not last:
        assert versions == [(2, 21)]
        return
    assert (use.today == names.MISSING) == ((2, 21) not in versions)
    if last != "2.21":
        # A text such as "2.4-2.15" is about Keras 2. `use.today` says what Keras 3 has.
        versions = [version for version in versions if version != (2, 21)]
    assert "{}.{}".format(*versions[0]) == first
    assert "{}.{}".format(*versions[-1]) == (last or first)


def parsed(signature):
    """Return a dict from the parameters of a recorded signature to their defaults.

    The default of a parameter without default is `inspect.Parameter.empty`.
    """
    text = re.sub(r"<[^>]*>", "None", signature)  # defaults such as "<object ...>"
    function = ast.parse(f"def f{text}: pass").body[0].args
    names = [argument.arg for argument in function.posonlyargs + function.args]
    parameters = dict.fromkeys(names, inspect.Parameter.empty)
    defaults = [ast.literal_eval(default) for default in function.defaults]
    if defaults:  # the defaults belong to the last parameters
        parameters.update(zip(names[-len(defaults) :], defaults, strict=True))
    return {
        name: default
        for name, default in parameters.items()
        if name not in ("self", "cls")
    }


# Differences on purpose. `RENAMED` maps the name of a class and a recorded parameter to the
# parameter in tf_lso. `OTHER_DEFAULTS` maps the name of a class, a recorded parameter and its
# default to the default in tf_lso.
RENAMED = {("LossScaleOptimizer", "inner_optimizer"): "optimizer"}
OTHER_DEFAULTS = {
    # The default has this name since TensorFlow 2.4. tf_lso accepts both names.
    ("Policy", "loss_scale", "USE_DEFAULT"): "auto",
    ("Policy", "name", inspect.Parameter.empty): None,  # Keras 3's own class
    # tf_lso accepts `optimizer` as well as `inner_optimizer`, so neither is required by itself.
    ("LossScaleOptimizer", "inner_optimizer", inspect.Parameter.empty): binding.MISSING,
}
# Keras 3 has another order of arguments, which tf_lso cannot tell from the legacy order. So
# tf_lso accepts the arguments of Keras 3 by keyword only.
BY_KEYWORD = {"initial_scale": 2.0**15, "dynamic_growth_steps": 2000, "name": None}

SIGNATURES = []
for namespace, name in NAMES:
    for signature, versions in RECORD[namespace][name]["signatures"].items():
        says_nothing = signature == "(self, /, *args, **kwargs)"
        is_of_other_keras3 = versions == [TODAY] and not IS_RECORDED_KERAS
        if not says_nothing and not is_of_other_keras3:
            SIGNATURES.append((namespace, name, signature, versions))


@pytest.mark.parametrize(("namespace", "name", "signature", "versions"), SIGNATURES)
def test_a_signature_is_the_real_one(namespace, name, signature, versions):
    function = getattr(mirror(namespace), name)
    if name == "LossScaleOptimizer" and versions == [TODAY]:
        inner = keras.optimizers.SGD()
        optimizer = function(inner_optimizer=inner, **BY_KEYWORD)
        assert optimizer.inner_optimizer is inner
        return
    real = parsed(signature)
    parameters = inspect.signature(function).parameters
    kind = inspect.Parameter
    positional = [
        parameter.name
        for parameter in parameters.values()
        if parameter.kind is kind.POSITIONAL_OR_KEYWORD
    ]
    expected = [RENAMED.get((name, parameter), parameter) for parameter in real]
    assert positional[: len(expected)] == expected
    for parameter, default in real.items():
        other_default = OTHER_DEFAULTS.get((name, parameter, default), default)
        renamed = RENAMED.get((name, parameter), parameter)
        assert parameters[renamed].default in (default, other_default)
    # Parameters that tf_lso adds must be optional.
    for parameter in list(parameters.values())[len(expected) :]:
        is_variadic = parameter.kind in (kind.VAR_KEYWORD, kind.VAR_POSITIONAL)
        assert parameter.default is not kind.empty or is_variadic


def make_all(cls, name, arguments):
    """Return instances of a class of a mirror, as pairs (family, instance).

    Args:
      cls: the class.
      name: the name of the class in the record. The record has members only of classes.
      arguments: list of further arguments of LossScaleOptimizer.
    """
    if name == "LossScaleOptimizer":
        return [
            ("keras3", cls(keras.optimizers.SGD(), *arguments)),
            ("legacy", cls(keras2.optimizers.legacy.SGD(), *arguments)),
            ("new", cls(keras2.optimizers.SGD(), *arguments)),
        ]
    if name == "MixedPrecisionLossScaleOptimizer":
        inner = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        return [("", cls(inner, 8))]
    if name in ("Policy", "DTypePolicy"):
        return [("", cls("mixed_float16"))]
    if name == "LossScale":  # an abstract class
        return [("", tf_lso.DynamicLossScale())]
    if name == "FixedLossScale":
        return [("", cls(8))]
    assert name == "DynamicLossScale"
    return [("", cls())]


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        (namespace, name)
        for namespace, name in NAMES
        if RECORD[namespace][name]["members"]
    ],
)
def test_a_class_has_the_real_members(namespace, name):
    cls = getattr(mirror(namespace), name)
    arguments = [8] if namespace.endswith("experimental") else []
    for family, instance in make_all(cls, name, arguments):
        ignores_today = family in ("legacy", "new") or not IS_RECORDED_KERAS
        for member, kinds in RECORD[namespace][name]["members"].items():
            versions = set().union(*kinds.values())
            if ignores_today and versions <= {TODAY}:
                continue  # only Keras 3 has this member
            assert hasattr(instance, member) or hasattr(type(instance), member), member


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
        ("explain", "Did you mean 'tf_lso.debugging.explain'?"),
        (
            "train.experimental.LossScaleOptimizer",
            "tf_lso.keras.mixed_precision.experimental.LossScaleOptimizer",
        ),
        ("kears", "keras"),
        ("mixed_precision.experimental.Zzz", "FixedLossScale"),
    ],
)
def test_the_error_of_an_unknown_name_suggests_another_name(dotted, words):
    with pytest.raises(AttributeError) as caught:
        reached(f"tf_lso.{dotted}")
    assert dotted.rpartition(".")[2] in str(caught.value)
    assert words in str(caught.value)


def test_hasattr_and_getattr_with_a_default_accept_an_unknown_name():
    assert not hasattr(tf_lso.keras.mixed_precision, "zzz")
    assert getattr(tf_lso.keras, "zzz", 3) == 3
