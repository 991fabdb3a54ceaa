"""The loss scales beside what they compute: public names, old names, messages."""

import functools

import pytest

import tf_lso
from tests.golden import harness, messages
from tests.golden.test_loss_scales import OURS, replay


def _cases(*names, messages_of_errors=False):
    for case, results in harness.cases("loss_scale_classes", "behaviour"):
        name = case["case"]
        is_message = any("message" in entry["result"] for entry in results)
        if name in names or (messages_of_errors and is_message):
            yield pytest.param(name, [entry["result"] for entry in results], id=name)


@pytest.mark.parametrize(("name", "results"), list(_cases("Dyn_attrs", "Fixed_attrs")))
def test_has_the_public_names(name, results):
    loss_scale = OURS.Dynamic() if name == "Dyn_attrs" else OURS.Fixed(8)
    for result in results:
        assert set(result["ok"]) <= set(dir(loss_scale))


@pytest.mark.parametrize(("name", "results"), list(_cases("aliases")))
def test_has_every_name_that_a_version_had(name, results):
    had = [
        alias for result in results for alias, known in result["ok"].items() if known
    ]
    assert len(set(had)) == 5
    for alias in had:
        parts = alias.split(".")[1:]  # without `tf`
        assert functools.reduce(getattr, parts, tf_lso) is tf_lso.DynamicLossScale


@pytest.mark.parametrize(("name", "results"), list(_cases(messages_of_errors=True)))
def test_messages_are_as_clear(name, results, tmp_path):
    actual = replay(OURS, name, tmp_path)
    for result in results:
        if "message" in result and "error" in actual:
            assert messages.is_as_clear(actual["message"], result["message"])
