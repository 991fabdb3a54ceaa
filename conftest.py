"""What the examples in the package's docstrings may use without importing it."""

import pytest


@pytest.fixture(autouse=True)
def names_for_doctests(request, doctest_namespace):
    """Provides `tf`, `keras`, `np` and `tf_lso` to doctests, and to nothing else.

    Only doctests pay for the import of TensorFlow, so that the tests that do without
    it stay fast.
    """
    if not isinstance(request.node, pytest.DoctestItem):
        return
    import numpy as np
    import tensorflow as tf
    from tensorflow import keras

    import tf_lso

    doctest_namespace.update(np=np, tf=tf, keras=keras, tf_lso=tf_lso)
