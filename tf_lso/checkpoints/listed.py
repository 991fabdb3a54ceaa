"""Slots of files that list them without names, by their order only."""

from tf_lso.checkpoints.source import Slot
from tf_lso.optimizers import table


def by_slot(state, optimizer, targets, count):
    """Return {name of a slot in OptimizerV2: list of `Slot`} of a file.

    Args:
      state: `OptimizerState`.
      optimizer: `OptimizerTargets` of the same class.
      targets: {(slot, variable): Target}, the slots of `optimizer`.
      count: int, the number of variables that the optimizer updates.
    """
    slots_of = {a: s for s, names in optimizer.table.items() for a in names.split("|")}
    found = {slots_of.get(name, name): slots for name, slots in state.slots.items()}
    if state.listed:
        found |= _of_the_order(state.listed, optimizer, targets, count)
    return found


def _of_the_order(entries, optimizer, targets, count):
    names = _names(entries, optimizer, targets, count)
    slots = {name: [] for name in names}
    for name, entry in zip(names, entries):
        slots[name].append(Slot(entry, None, len(slots[name])))
    return slots


def _names(entries, optimizer, targets, count):
    """Return the slot's name for each entry; an empty list if their number is wrong."""
    present = {slot for slot, _ in targets}
    groups = (tuple(table.AVERAGE), *table.of(optimizer.class_names).order)
    names = []
    for group in groups:
        made = [slot for slot in group if slot in present]
        names += made * count
    return names if len(names) == len(entries) else []
