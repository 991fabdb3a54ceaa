"""Slots that an argument of an optimizer makes, and files that have others.

A checkpoint of SGD(momentum=0.9) does not fit an SGD that was made without: TensorFlow
would set the momentum and drop its slots, or the other way round.
"""

from tf_lso import optimizer_table as table
from tf_lso import tf_private


def refuse_more_variables(optimizer, own_variables, is_built):
    """Make the list of an optimizer's variables refuse a checkpoint that has more.

    `own_variables` returns the list that TensorFlow restores, element by element. It
    would drop the others in silence. `is_built` says whether the optimizer is.
    """
    listed = own_variables(optimizer)
    if not isinstance(listed, tf_private.trackable()):
        return  # Keras 3.0, whose optimizers no checkpoint takes

    def refusing(lookup, name, *cached):
        found = lookup(name, *cached)
        # Adding a variable looks up the next number. A restore also gives the variables
        # that are there; TensorFlow 2.12 does not.
        more = name.isdigit() and (cached or int(name) > len(listed))
        if found is None and is_built() and more:
            raise ValueError(too_many(optimizer))
        return found

    tf_private.replace_lookup(listed, refusing)


def check_none_wait(optimizer, own_variables):
    """Raise if a checkpoint that was restored before the build has more variables."""
    listed = own_variables(optimizer)
    if isinstance(listed, tf_private.trackable()) and any(
        name.isdigit() for name in tf_private.deferred(listed)
    ):
        raise ValueError(too_many(optimizer))


def too_many(optimizer):
    """Return the message for a checkpoint with more state than an optimizer takes."""
    name = type(optimizer).__name__
    known = table.of([name]).slots | table.AVERAGE
    lacking = [
        s for s in table.MADE_BY if s in known and s not in table.slots_made(optimizer)
    ]
    arguments = [f"{a}={v}" for a, v in (table.MADE_BY[slot] for slot in lacking)]
    examples = " or ".join(f"{name}(..., {argument})" for argument in arguments)
    advice = f", such as {examples}" if examples else ""
    return (
        f"The checkpoint has more variables of the optimizer than this {name} takes. Make "
        f"it with the arguments of the one that was saved{advice}, for the same model "
        "variables."
    )
