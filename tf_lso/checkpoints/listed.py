"""Slots of files that list them without names, by their order only."""

from tf_lso.checkpoints.source import Slot
from tf_lso.optimizers import table


def by_slot(state, optimizer, targets, count):
    """Return {name of a slot in OptimizerV2: list of `Slot`} of a file.

    `targets` are the slots of `optimizer`, which updates `count` variables.
    """
    slots_of = {a: s for s, names in optimizer.table.items() for a in names.split("|")}
    found = {slots_of.get(name, name): slots for name, slots in state.slots.items()}
    return found | _of_the_order(state.listed, optimizer, targets, count)


def _of_the_order(entries, optimizer, targets, count):
    """Return the slots of entries without names; none if their number is wrong."""
    present = {slot for slot, _ in targets}
    names, slots = [], {}
    for group in (tuple(table.AVERAGE), *table.of(optimizer.class_names).order):
        names += [slot for slot in group if slot in present] * count
    if len(names) == len(entries):
        for name, entry in zip(names, entries):
            own = slots.setdefault(name, [])
            own.append(Slot(entry, None, len(own)))
    return slots
