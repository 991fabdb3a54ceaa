"""The private names of Keras's models and layers that tf_lso needs.

No public names do the same. tests/test_private_names.py fails if Keras moves one of them.
"""

# Attributes that contain the variables that a layer itself made, in Keras 3 and in Keras 2.
_OWN = (
    *("_trainable_variables", "_non_trainable_variables"),
    *("_trainable_weights", "_non_trainable_weights"),
)


def all_layers(model):
    """Return the list of a model and all its layers, at any depth."""
    if not hasattr(model, "_flatten_layers"):
        raise TypeError(
            f"'model' must be a model or layer of Keras, but got: {model!r}."
        )
    return list(model._flatten_layers())


def own_variables(layer):
    """Return the list of the variables that a layer itself made."""
    lists = (getattr(layer, name, None) for name in _OWN)
    return [variable for listed in lists for variable in listed or []]


def random_generator(layer):
    """Return the generator of a layer of Keras 2 such as Dropout, or None.

    Keras 2 does not track this generator.
    """
    return getattr(layer, "_random_generator", None)
