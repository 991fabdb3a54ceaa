"""The adapters to optimizer families, which derive from the class `Family`."""

import ast
import inspect
import pathlib

import pytest
import tensorflow as tf

import tf_lso
from tests.families import FAMILIES, PACKAGES, copies, number
from tf_lso.optimizers import families
from tf_lso.optimizers.families import family as family_lib

pytestmark = pytest.mark.core

PACKAGE = pathlib.Path(tf_lso.__file__).parent
ADAPTERS = [
    adapter
    for package in sorted(set(PACKAGES.values()))
    for adapter in families.families_of_package(package)
]
Family = family_lib.Family


def _attributes_in_the_source():
    """Yield (folder, object, attribute) for each `object.attribute` in tf_lso's modules.

    `self._family.slots` yields the object "_family" and the attribute "slots".
    """
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owner = ast.unparse(node.value).rpartition(".")[2]
                yield path.parent.name, owner, node.attr


def test_tf_lso_uses_all_members_of_family_and_no_others():
    methods = {name for name in vars(Family) if not name.startswith("_")}
    attributes = set(Family.__annotations__)
    members = methods | attributes
    # These are not in the class body: attributes that constructors set, and names of the
    # modules `family` and `families`.
    other_names = {"inner", "views", "restored", "Family", "forwarded"}
    other_names.add("load_by_wrapper")
    # `families/__init__.py` uses these through variables with other names.
    used_in_adapters = {"base", "bases", "package"}
    used = set()
    for folder, owner, attribute in _attributes_in_the_source():
        if folder == "families" and owner == "self":
            used_in_adapters.add(attribute)
        elif owner in ("family", "_family", "_family_class"):
            used.add(attribute)
            if folder in ("policies", "checkpoints"):
                other_names.add(attribute)  # here a variable `family` is something else
    assert members - used - used_in_adapters == set()
    assert used - members - other_names == set()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_public_method_of_an_adapter_has_or_inherits_a_docstring(adapter):
    names = [name for name in dir(adapter) if not name.startswith("_")]
    methods = [name for name in names if inspect.isroutine(getattr(adapter, name))]
    assert len(methods) > 15  # the adapters have more than that
    assert [n for n in methods if not inspect.getdoc(getattr(adapter, n))] == []


@pytest.fixture
def x():
    return tf.Variable(4.0, name="x")


@pytest.fixture
def adapter(family, x):
    """An adapter to an Adam that is built for x, without a LossScaleOptimizer."""
    inner = FAMILIES[family].Adam(0.5)
    build = getattr(inner, "build", None) or inner._create_all_weights
    build([x])
    return families.family_of(inner)(inner)


def test_an_adapter_describes_its_optimizer(adapter, family):
    assert adapter.name == family
    assert isinstance(adapter.inner, adapter.base)
    assert adapter.aggregates_in_full
    assert adapter.serialize()["class_name"].endswith("Adam")
    assert float(adapter.decayed_lr(tf.float32)) == 0.5
    assert len(adapter.weights()) == 3  # the counter, m and v


def test_an_adapter_counts_a_skipped_step(adapter, x):
    adapter.count_skipped()
    assert (number(adapter.counter()), float(x)) == (1, 4.0)
    adapter.set_iterations(0)
    assert number(adapter.counter()) == 0


def test_an_adapter_takes_a_step(adapter, x):
    gradients, variables = adapter.aggregate([tf.constant(2.0)], [x])
    adapter.apply(gradients, variables, name="step")
    # The first step of Adam subtracts the learning rate.
    assert float(x) == pytest.approx(3.5, rel=1e-5)
    assert number(adapter.counter()) == 1
    assert set(adapter.slots.get_slot_names()) == {"m", "v"}
    assert number(copies(adapter.slots.get_slot(x, "m"))[0]) == pytest.approx(0.2)
