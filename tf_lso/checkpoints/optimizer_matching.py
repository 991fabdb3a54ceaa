"""Match what a file has of an optimizer with the variables that an optimizer has.

A slot is found by its name and its model variable. What has no names is found by order.
"""

import dataclasses

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import names as names_lib
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import problem
from tf_lso.checkpoints.source import Entry


@dataclasses.dataclass
class Match:
    """Which entry of a file goes to which variable, by indices in `own`."""

    entries: dict[int, Entry]
    anew: dict[int, float]  # slots that the file need not have: their first value
    left: list[Entry]  # what no variable takes


def check_class(source, optimizer):
    """Raise if the file is from a class of optimizer whose slots mean something else."""
    state = source.optimizer
    name = None if state is None else state.class_name
    if name is None or name in optimizer.class_names:
        return
    slots = table.of([name]).slots
    if not slots or slots | table.AVERAGE != optimizer.table:
        raise CheckpointError(
            f"{source.path}: the optimizer in the file is of the class {name}, but "
            f"'optimizer' is of {optimizer.class_names[0]}. Pass an optimizer of the "
            "class that it was trained with."
        )


def named_as_here(source, optimizer, own):
    """Return a copy of a `Source` with the names that this optimizer uses.

    Slots get the names of OptimizerV2, and what is a hyperparameter of a user's own class
    becomes one.
    """
    state = source.optimizer
    slot_of = table.slot_of_attributes(optimizer.inner)
    names = {one.name for one in own}
    settings = {
        name: entry
        for name, entry in state.scalars.items()
        if name not in names and optimizer.hyperparameter(name) is not None
    }
    state = dataclasses.replace(
        state,
        slots={slot_of.get(name, name): slots for name, slots in state.slots.items()},
        scalars={n: e for n, e in state.scalars.items() if n not in settings},
        hyperparameters={**state.hyperparameters, **settings},
    )
    return dataclasses.replace(source, optimizer=state)


def match(source, model, optimizer, matched, own):
    """Return the `Match` of a file and an optimizer.

    Args:
      source: the `Source`, see `named_as_here`.
      model: the `ModelTargets`.
      optimizer: the `OptimizerTargets`, built.
      matched: the result of `matching.match`.
      own: list of `Own`, the variables of the optimizer.
    """
    state = source.optimizer
    order = optimizer.order(model)
    trainable = order or [t for t in model.targets if t.variable.trainable]
    found = {
        **_without_names(source, optimizer, own, trainable),
        **_by_name(state, own, trainable, matched),
    }
    anew = _made_anew(state, optimizer, matched, own, found)
    left = _left(state, found)
    if left or len(found) + len(anew) < len(own):
        listed = _as_listed(source, optimizer, own, order, matched)
        if listed is not None:
            found, anew, left = listed, {}, _left(state, listed)
    return Match(found, anew, left)


def _left(state, found):
    taken = {entry.key for entry in found.values()}
    return [entry for entry in state.entries() if entry.key not in taken]


def _by_name(state, own, order, matched):
    """Return {index in `own`: entry} of what has the same name in the file."""
    named = {}
    for name, slots in state.slots.items():
        for slot in slots:
            if slot.variable is not None:
                target = matched.get(slot.variable)
            else:
                target = order[slot.position] if slot.position < len(order) else None
            if target is not None:
                named[name, target] = slot.entry
    alone = {(name, None): entry for name, entry in state.scalars.items()}
    found = {i: (named | alone).get((one.name, one.of)) for i, one in enumerate(own)}
    return {index: entry for index, entry in found.items() if entry is not None}


def _without_names(source, optimizer, own, order):
    """Return {index in `own`: entry} of entries without names, whose order is known.

    The newer optimizers of Keras 2 and those of Keras 3 list their slots variable by
    variable, those of OptimizerV2 slot by slot.
    """
    state = source.optimizer
    named = {slot.entry.key for slots in state.slots.values() for slot in slots}
    named |= {entry.key for entry in state.scalars.values()}
    rest = [entry for entry in state.listed if entry.key not in named]
    found = {}
    scalars = [entry for entry in rest if not (entry.name or entry.shape)]
    alone = [index for index, one in enumerate(own) if one.of is None]
    if len(scalars) == len(alone) == 1 and own[alone[0]].name not in state.scalars:
        found = {alone[0]: scalars[0]}  # such as Nadam's product of momentums
        rest.remove(scalars[0])
    facts = table.of(optimizer.class_names)
    newer = [tuple(table.AVERAGE), *facts.order]
    legacy = [(slot,) for slot in facts.slots]
    if "linear" in facts.slots:  # Ftrl makes both at once
        legacy = newer
    orders = []
    for groups in {"legacy": [legacy], None: [newer, legacy]}.get(
        state.family, [newer]
    ):
        listed = _in_order(groups, own, order)
        if len(listed) == len(rest) and listed not in orders:
            orders.append(listed)
    fitting = [
        listed
        for listed in orders
        if not any(problem(entry, own[i].target) for entry, i in zip(rest, listed))
    ]
    if len(fitting) > 1:
        raise CheckpointError(
            f"{source.path}: {rest[0].key} and the following do not say of which slots "
            "they are: the file may be of a legacy optimizer of Keras 2 or of a newer "
            "one, whose orders differ. Save the whole model, or a tf.train.Checkpoint, "
            "and restore that."
        )
    for listed in [*fitting, *orders][:1]:
        found |= zip(listed, rest)
    return found


def _in_order(groups, own, order):
    """Return the indices in `own` of slots that are made group by group."""
    place = {(one.name, one.of): index for index, one in enumerate(own) if one.of}
    keys = [(slot, of) for group in groups for of in order for slot in group]
    return [place[key] for key in keys if key in place]


def _as_listed(source, optimizer, own, order, matched):
    """Return {index in `own`: entry} if the file lists the same variables in order.

    This is for classes that no table knows. None if the file is of another family, was
    built in another order, or if one shape differs.
    """
    state = source.optimizer
    if state.family not in (None, optimizer.family):
        return None
    if (state.slots.keys() ^ {one.name for one in own}) & table.MADE_BY.keys():
        return None  # as many slots of another argument, such as centered for momentum
    built = [matched.get(index) for index in state.order]
    if built and built != order:
        return None
    pairs = list(zip(state.listed, own))
    if len(pairs) < len(state.listed) or any(
        problem(entry, one.target) or _of_another(source, entry, one, matched)
        for entry, one in pairs
    ):
        return None
    found = {index: entry for index, (entry, _) in enumerate(pairs)}
    for index, one in enumerate(own[len(pairs) :], len(pairs)):  # not in such a list
        if one.of is None and one.name in state.scalars:
            found[index] = state.scalars[one.name]
    return found


def _of_another(source, entry, one, matched):
    """Whether the names say that an entry belongs to another variable than `one` does."""
    owner = names_lib.owner(entry.name, source.variables)
    target = matched.get(owner)
    return target is not None and target is not one.of


def _made_anew(state, optimizer, matched, own, found):
    """Return {index in `own`: first value} of slots that an OptimizerV2 never made.

    It made slots at the first gradient of a variable, so a variable that is in the file
    without any had none: an unused head, or a layer that was frozen. A slot that the file
    has of no variable, or one of several, is not meant.
    """
    if state.family != "legacy":
        return {}
    in_file = set(matched.values())
    names = {own[index].name for index in found}
    with_slots = {own[index].of for index in found}
    values = {
        index: optimizer.first_value(one.name)
        for index, one in enumerate(own)
        if one.of in in_file - with_slots and one.name in names
    }
    return {index: value for index, value in values.items() if value is not None}
