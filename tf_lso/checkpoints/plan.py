"""Plan a restore: what goes where, before anything is written.

`make` compares a `Source` with the targets and returns a `Plan`. `Plan.apply` writes.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts, matching
from tf_lso.checkpoints import names as names_lib
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.source import Entry, Slot, Source

# Hyperparameters that today's optimizers lack -> the value that has no effect.
_NEUTRAL = {"decay": 0.0, "beta": 0.0}

_NO_GRADIENT = (
    "made anew: the file has no slots of this variable, as without a gradient"
)

_IDLE = (
    " The newer SGD of Keras 2 has slots without momentum too, and this file does not say "
    "which it was. If it had none, leave them: tf_lso.checkpoints.restore(path, model="
    "model, optimizer=optimizer, partial=True)."
)


@dataclasses.dataclass
class Plan:
    """What a restore will do."""

    source: Source
    report: Report
    steps: list[tuple[Entry, Any]] = dataclasses.field(default_factory=list)  # Targets
    # They set hyperparameters.
    settings: list[Callable[[], object]] = dataclasses.field(default_factory=list)

    def apply(self):
        """Read all values before writing any, so that a damaged file changes nothing."""
        values = [self._value(*step) for step in self.steps]
        for (_, target), value in zip(self.steps, values):
            target.variable.assign(value)
        for setting in self.settings:
            setting()

    def _value(self, entry, target):
        value = np.asarray(self.source.read(entry))
        if value.shape != target.shape:
            raise CheckpointError(
                f"{self.source.path}: the key {entry.key} has the shape {value.shape}, "
                f"but said {target.shape}. The file is damaged."
            )
        return value.astype(target.dtype, copy=False)

    def moves(self):
        """Return which key goes to which variable, a frozenset of pairs."""
        return frozenset((entry.key, target.name) for entry, target in self.steps)

    # --- What `make` notes.

    def move(self, entry, target):
        """Note that `entry`, None if the file has none, goes to `target`, or not."""
        if entry is None:
            self.report.missing.append(target.name)
            return
        problem = _problem(entry, target)
        if problem:
            self.report.wrong.append((entry.key, target.name, problem))
            return
        self.steps.append((entry, target))
        if entry.dtype != target.dtype:
            how = f"{entry.dtype} to {target.dtype}"
            self.report.converted.append((entry.key, target.name, how))
        else:
            self.report.restored.append((entry.key, target.name))

    def scalar(self, entry):
        """Return the number of an entry, a float."""
        value = self.source.read(entry)
        if np.shape(value) != () or np.asarray(value).dtype.kind not in "fiu":
            raise CheckpointError(
                f"{self.source.path}: the key {entry.key} should be one number, but is "
                f"of the shape {np.shape(value)}."
            )
        return float(value)


def _problem(entry, target):
    if entry.shape != target.shape:
        return f"shape {entry.shape}, not {target.shape}"
    dtypes = {entry.dtype, target.dtype}
    if len(dtypes) > 1 and dtypes != {"int32", "int64"}:
        return f"dtype {entry.dtype}, not {target.dtype}"
    return None


def make(source, model, optimizer, mapping=None):
    """Return the `Plan` to restore a file into `ModelTargets` and `OptimizerTargets`.

    The optimizer is built, or None. `matching.match` explains the mapping.
    """
    plan = Plan(source, Report(source.path, source.layout))
    matched = matching.match(source, model, mapping)
    for index, target in matched.items():
        plan.move(source.variables[index].entry, target)
    reached = {id(target) for target in matched.values()}
    plan.report.missing += [t.name for t in model.targets if id(t) not in reached]
    if optimizer is not None:
        _plan_optimizer(plan, source, model, optimizer, matched)
    report = plan.report
    used = {row[0] for row in (*report.restored, *report.converted, *report.wrong)}
    report.unused += [key for key in source.keys if key not in used]
    return plan


def _plan_optimizer(plan, source, model, optimizer, matched):
    state = source.optimizer
    own = optimizer.state(model)
    if state is not None:
        state = _with_hyperparameters(state, optimizer, own)
    if state is None:
        targets = [optimizer.iterations, *(one.target for one in own)]
        plan.report.missing += [target.name for target in targets]
        return
    _check_count(plan, state.iterations)
    plan.move(state.iterations, optimizer.iterations)
    check_class(source, optimizer)
    _plan_state(plan, state, model, optimizer, matched, own)
    _plan_hyperparameters(plan, state, optimizer, own)
    _plan_loss_scale(plan, state, optimizer)


def _with_hyperparameters(state, optimizer, own):
    """Return a copy in which the hyperparameters of a user's own class are such."""
    names = {one.name for one in own}
    moved = {
        name: entry
        for name, entry in state.scalars.items()
        if name not in names and optimizer.hyperparameter(name) is not None
    }
    scalars = {n: e for n, e in state.scalars.items() if n not in moved}
    hyperparameters = {**state.hyperparameters, **moved}
    return dataclasses.replace(state, scalars=scalars, hyperparameters=hyperparameters)


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


def _plan_state(plan, state, model, optimizer, matched, own):
    """Plan all variables that the optimizer made, and all that the file has of them."""
    found = _by_name(state, model, optimizer, matched, own)
    anew = _made_anew(state, optimizer, matched, own, found)
    entries = state.entries()
    taken = {entry.key for entry in found.values()}
    explained = len(found) + len(anew) == len(own)
    if not explained or any(entry.key not in taken for entry in entries):
        by_position = _by_position(plan, state, model, optimizer, matched, own)
        found, anew = (by_position, {}) if by_position else (found, anew)
    lacking = []
    for number, one in enumerate(own):
        why = None if number in found else _kept(one, optimizer)
        if number in anew:
            plan.settings.append(functools.partial(_fill, one.target, anew[number]))
            plan.report.kept.append((one.target.name, _NO_GRADIENT))
        elif why is None:
            plan.move(found.get(number), one.target)
        else:
            plan.report.kept.append((one.target.name, why))
        if number not in found and number not in anew and why is None:
            lacking.append(one.name)
    taken = {entry.key for entry in found.values()}
    left = [entry for entry in entries if entry.key not in taken]
    if "SGD" in optimizer.class_names and state.config.get("momentum") == 0:
        left = []  # tf_keras makes and writes its slots nevertheless; they mean nothing
    for entry in left:
        what = f"this {optimizer.class_names[0]} has no variable for it"
        plan.report.wrong.append((entry.key, "optimizer", what))
    slot_of = {e.entry.key: name for name, es in state.slots.items() for e in es}
    names = table.slot_of_attributes(optimizer.inner)
    more = {names.get(n, n) for n in (slot_of.get(e.key) for e in left)}
    told = any(state.config.get(name) for name, _ in table.MADE_BY.values())
    differs = (more | set(lacking)) & table.MADE_BY.keys()
    others = _other_arguments(state, optimizer, own)
    for argument, value in others.items():
        what = f"{argument}={value} in the file, and this optimizer was made otherwise"
        plan.report.wrong.append(("config", "optimizer", what))
    if differs or others or ((left or lacking) and told):
        slots = {one.name for one in own} - set(lacking) | more
        plan.report.remedy = remedy(state, optimizer, slots, plan.scalar)


def _made_anew(state, optimizer, matched, own, found):
    """Return {index in `own`: first value} of slots that an OptimizerV2 never made.

    It made slots at the first gradient of a variable, so a variable that is in the file
    without any had none: an unused head, or a layer that was frozen. A slot that the file
    has of no variable, or one of several, is not meant.
    """
    if state.family != "legacy":
        return {}
    in_file = set(matched.values())
    names = {own[number].name for number in found}
    with_slots = {own[number].of for number in found}
    values = {
        number: optimizer.first_value(one.name)
        for number, one in enumerate(own)
        if one.of in in_file - with_slots and one.name in names
    }
    return {number: value for number, value in values.items() if value is not None}


def _fill(target, value):
    target.variable.assign(np.full(target.shape, value, target.dtype))


def _other_arguments(state, optimizer, own):
    """Return {argument: value} of what a file says of slots that this optimizer has not.

    Other arguments may make as many slots, as centered and momentum do.
    """
    if (
        "SGD" in optimizer.class_names
    ):  # that of tf_keras has its slots without momentum
        return {}
    names = {one.name for one in own}
    return {
        argument: state.config[argument]
        for slot, (argument, _) in table.MADE_BY.items()
        if slot in optimizer.table and argument in state.config
        if bool(state.config[argument]) != (slot in names)
    }


def _kept(one, optimizer):
    """Return why a variable may keep its value if a file lacks it, or None."""
    if one.name == "momentum" and optimizer.hyperparameter("momentum") == 0:
        # tf_keras makes this slot nevertheless; TensorFlow 2.9 and 2.10 did not.
        return "the momentum is 0"
    if one.name == layouts.ACCUMULATED:
        return "the file has no accumulated gradients"
    return None


def _by_name(state, model, optimizer, matched, own):
    """Return {index in `own`: entry} of what has the same name in the file."""
    order = optimizer.order(model)
    if not order:
        order = [t for t in model.targets if t.variable.trainable]
    alone = _only_scalar(state, own)
    named = {}
    for name, slots in _by_slot(state, optimizer, own, len(order), alone).items():
        for slot in slots:
            target = matched.get(slot.variable)
            if slot.variable is None and slot.position < len(order):
                target = order[slot.position]
            if target is not None:
                named[name, target] = slot.entry
    found = {}
    for number, one in enumerate(own):
        if one.of is None:
            entry = state.scalars.get(one.name, alone)
        else:
            entry = named.get((one.name, one.of))
        if entry is not None:
            found[number] = entry
    return found


def _only_scalar(state, own):
    """Return the one entry without a name that is a number, as Nadam has one, or None."""
    scalars = [entry for entry in state.listed if not (entry.name or entry.shape)]
    wanted = [one for one in own if one.of is None]
    missing = [one for one in wanted if one.name not in state.scalars]
    return scalars[0] if len(scalars) == len(wanted) == len(missing) == 1 else None


def _by_slot(state, optimizer, own, count, alone):
    """Return {name of a slot in OptimizerV2: list of `Slot`} of a file.

    Some files have entries without names. Only their order tells what they are, if their
    number is that of the slots of `own`, of an optimizer of `count` variables. `alone` is
    the one that is no slot.
    """
    slots_of = table.slot_of_attributes(optimizer.inner)
    found = {slots_of.get(name, name): slots for name, slots in state.slots.items()}
    named = {slot.entry.key for slots in state.slots.values() for slot in slots}
    named |= {entry.key for entry in state.scalars.values()}
    rest = [e for e in state.listed if e.key not in named and e is not alone]
    present, listed = {one.name for one in own}, {}
    facts = table.of(optimizer.class_names)
    newer = [tuple(table.AVERAGE), *facts.order]
    legacy = [(slot,) for slot in facts.slots]
    if "linear" in facts.slots:  # Ftrl makes both at once
        legacy = newer
    names, others = (
        [
            slot
            for group in groups
            for slot in [s for s in group if s in present] * count
        ]
        for groups in ((legacy, newer) if state.family == "legacy" else (newer, legacy))
    )
    _refuse_to_guess(state, rest, names, others)
    if len(names) == len(rest):
        for name, entry in zip(names, rest):
            slots = listed.setdefault(name, [])
            slots.append(Slot(entry, None, len(slots)))
    return found | listed


def _refuse_to_guess(state, rest, names, others):
    """Raise if a file without names may be of either family of Keras 2.

    Legacy optimizers list slot by slot, newer ones variable by variable.
    """
    if state.family is not None or len(names) != len(rest) or names == others:
        return
    for order in (names, others):
        shapes = {}
        for name, entry in zip(order, rest):
            shapes.setdefault(name, []).append(entry.shape)
        if len(set(map(tuple, shapes.values()))) > 1:
            return
    raise CheckpointError(
        f"{rest[0].key} and the following do not say of which slots they are: the file may "
        "be of a legacy optimizer of Keras 2 or of a newer one, whose orders differ. Save "
        "the whole model, or a tf.train.Checkpoint, and restore that."
    )


def _by_position(plan, state, model, optimizer, matched, own):
    """Return {index in `own`: entry} if the file lists the same variables in order.

    This is for classes that no table knows. None if the file is of another family, was
    built in another order, or if one shape differs.
    """
    if state.family not in (None, optimizer.family):
        return None
    names = table.slot_of_attributes(optimizer.inner)
    slots = {names.get(name, name) for name in state.slots}
    if (slots ^ {one.name for one in own}) & table.MADE_BY.keys():
        return None  # as many slots of another argument, such as centered for momentum
    built = [matched.get(index) for index in state.order]
    if built and built != optimizer.order(model):
        return None
    pairs = list(zip(state.listed, own))
    if (
        len(pairs) < len(state.listed)
        or any(_problem(entry, one.target) for entry, one in pairs)
        or any(_of_another(plan.source, entry, one, matched) for entry, one in pairs)
    ):
        return None
    found = {number: entry for number, (entry, _) in enumerate(pairs)}
    for number, one in enumerate(own[len(pairs) :], len(pairs)):  # not in such a list
        if one.of is None and one.name in state.scalars:
            found[number] = state.scalars[one.name]
    return found


def _of_another(source, entry, one, matched):
    """Whether the names say that an entry belongs to another variable than `one` does."""
    owner = names_lib.owner(entry.name, source.variables)
    target = matched.get(owner)
    return target is not None and target is not one.of


def remedy(state, optimizer, slots, scalar):
    """Return how to make the optimizer as it was.

    Args:
      state: the `OptimizerState` of the file.
      optimizer: the `OptimizerTargets`.
      slots: set of the names of slots that the file has.
      scalar: function, entry -> its number.
    """
    made_by = table.MADE_BY
    arguments = {n: state.config[n] for n, _ in made_by.values() if state.config.get(n)}
    if not state.config:
        arguments = dict(pair for slot, pair in made_by.items() if slot in slots)
    values = {n: optimizer.hyperparameter(n) for n in ("learning_rate", "momentum")}
    values |= {name: scalar(entry) for name, entry in state.hyperparameters.items()}
    if "momentum" in arguments:
        arguments["momentum"] = values["momentum"] or arguments["momentum"]
    rate = state.config.get("learning_rate", values["learning_rate"])
    first = [f"{_shortest(rate)}"] if isinstance(rate, (int, float)) else []
    shown = [*first, *(f"{name}={_shortest(v)}" for name, v in arguments.items())]
    name = state.class_name or optimizer.class_names[0]
    may_be_idle = (name, state.family) == ("SGD", "new") and not state.config
    return (
        f"Make the optimizer as it was when it was saved: {name}({', '.join(shown)})."
    ) + (_IDLE if may_be_idle and "momentum" in arguments else "")


def _shortest(number):
    """Return the shortest number of the same float32 value: 0.9, not 0.8999999762."""
    return number if isinstance(number, bool) else float(str(np.float32(number)))


def _plan_hyperparameters(plan, state, optimizer, own):
    slots = {one.name for one in own}
    for name, entry in state.hyperparameters.items():
        value = plan.scalar(entry)
        now = optimizer.hyperparameter(name)
        target = f"optimizer/{name}"
        if now is None and value == _NEUTRAL.get(name):
            plan.report.converted.append((entry.key, target, "0: nothing to do"))
        elif now is None and name == "learning_rate":
            plan.report.kept.append((target, "the optimizer has a schedule"))
        elif now is None and name == "decay" and optimizer.decays_by(value):
            plan.report.restored.append((entry.key, target))
        elif now is None and name == "decay" and "Nadam" in optimizer.class_names:
            # This decay is not of the learning rate, but of the momentum.
            plan.report.kept.append((target, "today's Nadam has a schedule of its own"))
        elif now is None:
            plan.report.wrong.append((entry.key, target, _no_such(name, value)))
        elif name == "momentum" and now == 0 != value and name not in slots:
            what = f"{value:g}, but this optimizer was made without: it has no slots"
            plan.report.wrong.append((entry.key, target, what))
            plan.report.remedy = remedy(state, optimizer, slots | {name}, plan.scalar)
        elif np.float32(now) == np.float32(value):
            plan.report.restored.append((entry.key, target))
        else:
            number = _shortest(value)
            set_it = functools.partial(optimizer.set_hyperparameter, name, number)
            plan.settings.append(set_it)
            how = f"{now:g} becomes {number:g}"
            plan.report.converted.append((entry.key, target, how))
    if "learning_rate" not in state.hyperparameters:
        why = "the file has none: it was a schedule, or this format keeps none"
        plan.report.kept.append(("optimizer/learning_rate", why))


def _no_such(name, value):
    if name == "decay":
        return (
            f"{value:g}, and this optimizer has no decay: give it learning_rate="
            f"InverseTimeDecay(learning_rate, 1, {value:g})"
        )
    return f"{value:g}, and this optimizer has no such hyperparameter"


def _plan_loss_scale(plan, state, optimizer):
    entries = {"scale": state.scale, "count": state.count}
    if state.scale is not None:
        value = plan.scalar(state.scale)
        if not (math.isfinite(value) and value > 0):
            raise CheckpointError(
                f"{plan.source.path}: the loss scale at the key {state.scale.key} is "
                f"{value}, which is no positive finite number. The file is damaged, or "
                "the program that wrote it had failed by then; use an older one."
            )
    _check_count(plan, state.count)
    for role, target in optimizer.loss_scale.items():
        if state.scale is None and state.count is None:
            plan.report.kept.append((target.name, "the file has no loss scale"))
        else:
            plan.move(entries[role], target)


def _check_count(plan, entry):
    if entry is not None and plan.scalar(entry) < 0:
        raise CheckpointError(
            f"{plan.source.path}: the count at the key {entry.key} is negative. The file "
            "is damaged."
        )
