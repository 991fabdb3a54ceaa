"""Access to private names of Keras's models and layers."""

# The first row is for Keras 3, and the second for Keras 2.
_OWN = (
    *("_trainable_variables", "_non_trainable_variables"),
    *("_trainable_weights", "_non_trainable_weights"),
)


def all_layers(model):
    """Return a list of the model itself and all its layers, including nested layers."""
    if not hasattr(model, "_flatten_layers"):
        raise TypeError(
            f"'model' must be a model or layer of Keras, but got: {model!r}."
        )
    return list(model._flatten_layers())


def own_variables(layer):
    lists = (getattr(layer, name, None) for name in _OWN)
    return [variable for listed in lists for variable in listed or []]


def random_generator(layer):
    """Return a Keras 2 layer's random generator, which the layer does not track, or None."""
    return getattr(layer, "_random_generator", None)
