"""How to make an optimizer that a file fits."""

import numpy as np

from tf_lso import optimizer_table as table

_IDLE = (
    " The newer SGD of Keras 2 has slots without momentum too, and this file does not say "
    "which it was. If it had none, leave them: tf_lso.checkpoints.restore(path, model="
    "model, optimizer=optimizer, partial=True)."
)


def how_to_make(source, optimizer, slots):
    """Return how to make the optimizer as it was when it was saved, a sentence.

    Args:
      source: the `Source`.
      optimizer: the `OptimizerTargets`.
      slots: set of the names of slots that the file has.
    """
    state, made_by = source.optimizer, table.MADE_BY
    arguments = {n: state.config[n] for n, _ in made_by.values() if state.config.get(n)}
    if not state.config:
        arguments = dict(pair for slot, pair in made_by.items() if slot in slots)
    values = {n: optimizer.hyperparameter(n) for n in ("learning_rate", "momentum")}
    values |= {name: source.number(e) for name, e in state.hyperparameters.items()}
    if "momentum" in arguments:
        arguments["momentum"] = values["momentum"] or arguments["momentum"]
    rate = state.config.get("learning_rate", values["learning_rate"])
    first = [f"{shortest(rate)}"] if isinstance(rate, (int, float)) else []
    shown = [*first, *(f"{name}={shortest(v)}" for name, v in arguments.items())]
    name = state.class_name or optimizer.class_names[0]
    may_be_idle = (name, state.family) == ("SGD", "new") and not state.config
    return (
        f"Make the optimizer as it was when it was saved: {name}({', '.join(shown)})."
    ) + (_IDLE if may_be_idle and "momentum" in arguments else "")


def other_arguments(state, optimizer):
    """Return {argument: value} of what a file says of slots that this optimizer has not.

    Other arguments may make as many slots, as centered and momentum do.
    """
    if (
        "SGD" in optimizer.class_names
    ):  # that of tf_keras has its slots without momentum
        return {}
    return {
        argument: state.config[argument]
        for slot, (argument, _) in table.MADE_BY.items()
        if slot in optimizer.table and argument in state.config
        if bool(state.config[argument]) != (slot in optimizer.slots)
    }


def shortest(number):
    """Return the shortest number of the same float32 value: 0.9, not 0.8999999762."""
    return number if isinstance(number, bool) else float(str(np.float32(number)))
