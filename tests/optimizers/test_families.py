"""The adapters to the families: what `family.py` lists is there, used, and works alone."""

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
# `__abstractmethods__` is in no order.
ABSTRACT = sorted(Family.__abstractmethods__)


def test_what_is_listed_is_used_and_what_is_used_is_listed():
    own = {name for name in vars(Family) if not name.startswith("_")}
    listed = own | set(Family.__annotations__)  # methods, and attributes with a default
    # An instance has `inner`, that of Keras 3 `views`, a legacy one `restored`; the module
    # has the other two.
    others = {"inner", "views", "restored", "Family", "forwarded"}
    inside, used = set(), set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            owner = ast.unparse(node.value).rpartition(".")[2]
            if owner == "self" and path.parent.name == "families":
                inside.add(node.attr)
            elif owner in ("family", "_family", "_family_class"):
                used.add(node.attr)
                if path.parent.name in ("policies", "checkpoints"):
                    others.add(node.attr)  # of what is called a family there
    by_binding = {"base", "bases", "package"}  # of `families/__init__.py` too
    assert listed - used - inside - by_binding == set()
    assert used - listed - others == set()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_each_public_member_is_documented_there_or_in_family(adapter):
    members = [name for name in dir(adapter) if not name.startswith("_")]
    methods = [n for n in members if inspect.isroutine(getattr(adapter, n))]
    assert len(methods) > 15
    assert [n for n in methods if not inspect.getdoc(getattr(adapter, n))] == []


@pytest.fixture
def adapter(family):
    """An adapter to a built optimizer, with no wrapper around it, and the variable x."""
    x = tf.Variable(4.0, name="x")
    inner = FAMILIES[family].Adam(0.5)
    build = getattr(inner, "build", None) or inner._create_all_weights
    build([x])
    return families.family_of(inner)(inner), x


def test_it_works_without_a_wrapper(adapter, family):
    one, x = adapter
    assert one.name == family and isinstance(one.inner, one.base)
    assert one.aggregates_in_full
    assert len(one.weights()) == 3  # the counter, m and v
    assert one.serialize()["class_name"].endswith("Adam")
    assert float(one.decayed_lr(tf.float32)) == 0.5
    one.count_skipped()
    assert (number(one.counter()), float(x)) == (1, 4.0)
    one.set_iterations(0)
    gradients, variables = one.aggregate([tf.constant(2.0)], [x])
    one.apply(gradients, variables, name="step")
    assert float(x) == pytest.approx(3.5, rel=1e-5)  # Adam's first step is its rate
    assert number(one.counter()) == 1
    assert set(one.slots.get_slot_names()) == {"m", "v"}
    assert number(copies(one.slots.get_slot(x, "m"))[0]) == pytest.approx(0.2)
