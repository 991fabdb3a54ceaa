"""Which variable of a file belongs to which variable of an optimizer."""

import types

from tf_lso.optimizers import manifest


def test_a_nested_model_that_is_made_again_keeps_its_places():
    """The blocks have equal names below them, and the model has a number the second time."""
    below = [f"bert/layer_._{block}/query/kernel:0" for block in (0, 1)]
    saved = [f"bert_model/{path}" for path in below]
    own = [f"bert_model_2/{path}" for path in below[::-1]]
    saved, own = (
        types.SimpleNamespace(family="keras3", paths=p, keys=None) for p in (saved, own)
    )
    assert manifest.variables_in_order(saved, own) == [1, 0]
