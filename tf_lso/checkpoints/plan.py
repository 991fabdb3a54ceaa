"""Plan a restore: what goes where, before anything is written.

`make` compares a `Source` with the targets and returns a `Plan`. `Plan.apply` writes.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_lso.checkpoints import matching
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.source import Entry, Slot, Source
from tf_lso.optimizers import table

# Hyperparameters that today's optimizers lack -> the value that has no effect.
_NEUTRAL = {"decay": 0.0, "beta": 0.0}


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
    if state is None:
        slots = [target.name for target in optimizer.slots(model.targets).values()]
        plan.report.missing += [optimizer.iterations.name, *slots]
        return
    _check_count(plan, state.iterations)
    plan.move(state.iterations, optimizer.iterations)
    check_class(source, optimizer)
    _plan_slots(plan, state, model, optimizer, matched)
    for name, target in optimizer.scalars.items():
        plan.move(state.scalars.get(name), target)
    _plan_hyperparameters(plan, state, optimizer)
    _plan_loss_scale(plan, state, optimizer)


def check_class(source, optimizer):
    """Raise if the file is from a class of optimizer whose slots mean something else."""
    state = source.optimizer
    name = None if state is None else state.class_name
    if name not in table.OPTIMIZERS or name in optimizer.class_names:
        return
    if table.of([name]).slots | table.AVERAGE != optimizer.table:
        raise CheckpointError(
            f"{source.path}: the optimizer in the file is of the class {name}, but "
            f"'optimizer' is of {optimizer.class_names[0]}. Pass an optimizer of the "
            "class that it was trained with."
        )


def _plan_slots(plan, state, model, optimizer, matched):
    variables = [t for t in model.targets if t.variable.trainable]
    order = optimizer.order or [t.variable for t in variables]
    targets = optimizer.slots(model.targets)
    found = {}
    for name, slots in _by_slot(state, optimizer, targets, len(order)).items():
        for slot in slots:
            target = None
            if slot.variable is not None:
                target = matched.get(slot.variable)
            elif slot.position < len(order):
                target = model.of(order[slot.position])
            if target is not None:
                found[name, id(target.variable)] = slot.entry
    for key, target in targets.items():
        is_new = key not in found and key[0] == "momentum"
        if is_new and optimizer.hyperparameter("momentum") == 0:
            # tf_keras makes this slot nevertheless; TensorFlow 2.9 and 2.10 did not.
            plan.report.kept.append((target.name, "the momentum is 0"))
        else:
            plan.move(found.get(key), target)


def _by_slot(state, optimizer, targets, count):
    """Return {name of a slot in OptimizerV2: list of `Slot`} of a file.

    Some files have entries without names. Only their order tells what they are, if their
    number is that of the slots `targets`, of an optimizer of `count` variables.
    """
    slots_of = {a: s for s, names in optimizer.table.items() for a in names.split("|")}
    found = {slots_of.get(name, name): slots for name, slots in state.slots.items()}
    present, names, listed = {slot for slot, _ in targets}, [], {}
    for group in (tuple(table.AVERAGE), *table.of(optimizer.class_names).order):
        names += [slot for slot in group if slot in present] * count
    if len(names) == len(state.listed):
        for name, entry in zip(names, state.listed):
            own = listed.setdefault(name, [])
            own.append(Slot(entry, None, len(own)))
    return found | listed


def _plan_hyperparameters(plan, state, optimizer):
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
        elif np.float32(now) == np.float32(value):
            plan.report.restored.append((entry.key, target))
        else:
            # The shortest number with this float32 value: 0.9 instead of 0.8999999762.
            number = float(str(np.float32(value)))
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
