"""What the lists of optimizer variables in .h5, .keras and .weights.h5 files share."""


def class_of(config):
    """Return the class name and config of the optimizer in a compile config, or None, {}.

    For a LossScaleOptimizer they are those of the inner optimizer.
    """
    name, inside, config = None, {}, config or {}
    below = config.get("optimizer_config", config.get("optimizer"))
    while isinstance(below, dict):
        inside = below.get("config")
        if not isinstance(inside, dict):
            return None, {}
        name = below.get("class_name")
        below = inside.get("inner_optimizer", inside.get("optimizer"))
    return (name.split(">")[-1], inside) if isinstance(name, str) else (None, {})


def take_scale(state, entries):
    """Take the scale and the count that tf_lso puts last in files of Keras 2.

    Returns the entries before them: all, if the last two are none.
    """
    tail = entries[-2:]
    shapes = [entry.shape for entry in tail]
    if shapes != [(), ()] or is_count(tail[0]) or not is_count(tail[1]):
        return entries
    state.scale, state.count = tail
    return entries[:-2]


def take_added(state, entries):
    """Take what tf_lso adds to files of Keras 2: of Nadam one more, the scale, the count."""
    for entry in take_scale(state, entries):
        state.scalars["momentum_cache"] = entry


def is_count(entry):
    """Whether an entry holds integers."""
    return entry.dtype.startswith(("int", "uint"))
