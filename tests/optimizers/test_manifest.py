"""Which variable of a file belongs to which variable of an optimizer."""

import types

import pytest

from tf_lso.optimizers import manifest_comparison


def compared(saved, own, own_family="keras3"):
    """Return what `variables_in_order` returns for two lists of paths."""
    manifests = (
        types.SimpleNamespace(family=family, paths=paths, keys=None)
        for family, paths in (("keras3", saved), (own_family, own))
    )
    return manifest_comparison.variables_in_order(*manifests)


def test_a_nested_model_that_is_made_again_keeps_its_places():
    """The blocks have equal names below them, and the model has a number the second time."""
    below = [f"bert/layer_._{block}/query/kernel:0" for block in (0, 1)]
    saved = [f"bert_model/{path}" for path in below]
    assert compared(saved, [f"bert_model_2/{path}" for path in below[::-1]]) == [1, 0]


def test_a_second_model_in_a_graph_of_keras2_has_two_numbers():
    saved = ["dense/kernel", "dense_1/kernel"]
    assert compared(saved, ["dense_2/kernel", "dense_1_1/kernel"]) == [0, 1]


@pytest.mark.parametrize(
    ("saved", "own", "message"),
    [
        # The third stage is not the second.
        (["res_3_1/k", "res_3_2/k"], ["res_2_1/k", "res_2_2/k"], "'res_3_1/k'"),
        # Without all numbers the paths are equal, but one name is in both models.
        (["m/d/k", "m/d_1/k"], ["m_1/d_1/k", "m_1/d_2/k"], "'m/d/k'"),
        # Several variables have the same path.
        (["p/k", "p/k"], ["p/k"], r"only the file has \['p/k'\]"),
        (["p/k", "p/k", "q/k"], ["q/k", "p/k", "p/k"], r"\['p/k', 'p/k', 'q/k'\]"),
    ],
)
def test_paths_of_other_variables_are_refused(saved, own, message):
    with pytest.raises(ValueError, match=message):
        compared(saved, own)


def test_layers_of_two_inner_models_with_one_name_are_refused_in_keras_2():
    """Keras 2 leaves out the names of the inner models, so nothing tells the layers apart."""
    saved = ["sequential_1/dense/kernel", "sequential_2/dense/kernel"]
    with pytest.raises(ValueError, match="only the file has"):
        compared(saved, ["dense/kernel", "dense/kernel"], own_family="legacy")
    assert compared(saved[:1], ["dense/kernel"], own_family="legacy") == [0]
