"""Which variable of a file belongs to which variable of an optimizer."""

import types

from tf_lso.optimizers import manifest


def test_a_nested_model_that_is_made_again_keeps_its_places():
    """The blocks have equal names below them, and the model has a number the second time."""
    below = [f"bert/layer_._{block}/query/kernel:0" for block in (0, 1)]
    saved = types.SimpleNamespace(paths=[f"bert_model/{path}" for path in below])
    own = types.SimpleNamespace(paths=[f"bert_model_2/{path}" for path in below[::-1]])
    assert manifest.variables_in_order(saved, own) == dict(
        zip(own.paths, saved.paths[::-1])
    )
