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
from tf_lso.checkpoints import layouts, matching, optimizer_matching, remedy
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.model_targets import problem
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.source import Entry, Source

# Hyperparameters that today's optimizers lack -> the value that has no effect.
_NEUTRAL = {"decay": 0.0, "beta": 0.0}

_NO_GRADIENT = (
    "made anew: the file has no slots of this variable, as without a gradient"
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
        what = problem(entry, target)
        if what:
            self.report.wrong.append((entry.key, target.name, what))
            return
        self.steps.append((entry, target))
        if entry.dtype != target.dtype:
            how = f"{entry.dtype} to {target.dtype}"
            self.report.converted.append((entry.key, target.name, how))
        else:
            self.report.restored.append((entry.key, target.name))


def make(source, model, optimizer, mapping=None):
    """Return the `Plan` to restore a file into `ModelTargets` and `OptimizerTargets`.

    The optimizer is built, or None. `matching.match` explains the mapping.
    """
    own = [] if optimizer is None else optimizer.state(model)
    if not (optimizer is None or source.optimizer is None):
        source = optimizer_matching.named_as_here(source, optimizer, own)
    plan = Plan(source, Report(source.path, source.layout))
    matched = matching.match(source, model, mapping)
    for index, target in matched.items():
        plan.move(source.variables[index].entry, target)
    reached = {id(target) for target in matched.values()}
    plan.report.missing += [t.name for t in model.targets if id(t) not in reached]
    if optimizer is not None and source.optimizer is None:
        targets = [optimizer.iterations, *(one.target for one in own)]
        plan.report.missing += [target.name for target in targets]
    elif optimizer is not None:
        _check_count(source, source.optimizer.iterations)
        plan.move(source.optimizer.iterations, optimizer.iterations)
        optimizer_matching.check_class(source, optimizer)
        match = optimizer_matching.match(source, model, optimizer, matched, own)
        _plan_state(plan, match, optimizer, own)
        _plan_hyperparameters(plan, optimizer, own)
        _plan_loss_scale(plan, optimizer)
    report = plan.report
    used = {row[0] for row in (*report.restored, *report.converted, *report.wrong)}
    report.unused += [key for key in source.keys if key not in used]
    return plan


def _plan_state(plan, match, optimizer, own):
    """Plan all variables that the optimizer made, and all that the file has of them."""
    state = plan.source.optimizer
    lacking = set()
    for index, one in enumerate(own):
        if index in match.entries:
            plan.move(match.entries[index], one.target)
        elif index in match.anew:
            value = match.anew[index]
            plan.settings.append(functools.partial(_fill, one.target, value))
            plan.report.kept.append((one.target.name, _NO_GRADIENT))
        elif (why := _kept(one, optimizer)) is not None:
            plan.report.kept.append((one.target.name, why))
        else:
            plan.move(None, one.target)
            lacking.add(one.name)
    left = match.left
    if "SGD" in optimizer.class_names and state.config.get("momentum") == 0:
        left = []  # tf_keras makes and writes its slots nevertheless; they mean nothing
    for entry in left:
        what = f"this {optimizer.class_names[0]} has no variable for it"
        plan.report.wrong.append((entry.key, "optimizer", what))
    others = remedy.other_arguments(state, optimizer, own)
    for argument, value in others.items():
        what = f"{argument}={value} in the file, and this optimizer was made otherwise"
        plan.report.wrong.append(("config", "optimizer", what))
    slot_of = {e.entry.key: name for name, es in state.slots.items() for e in es}
    more = {slot_of.get(entry.key) for entry in left}
    differs = (more | lacking) & table.MADE_BY.keys()
    told = any(state.config.get(name) for name, _ in table.MADE_BY.values())
    if differs or others or ((left or lacking) and told):
        slots = {one.name for one in own} - lacking | more
        plan.report.remedy = remedy.how_to_make(plan.source, optimizer, slots)


def _fill(target, value):
    target.variable.assign(np.full(target.shape, value, target.dtype))


def _kept(one, optimizer):
    """Return why a variable may keep its value if a file lacks it, or None."""
    if one.name == "momentum" and optimizer.hyperparameter("momentum") == 0:
        # tf_keras makes this slot nevertheless; TensorFlow 2.9 and 2.10 did not.
        return "the momentum is 0"
    if one.name == layouts.ACCUMULATED:
        return "the file has no accumulated gradients"
    return None


def _plan_hyperparameters(plan, optimizer, own):
    state = plan.source.optimizer
    slots = {one.name for one in own}
    for name, entry in state.hyperparameters.items():
        value = plan.source.number(entry)
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
            plan.report.remedy = remedy.how_to_make(
                plan.source, optimizer, slots | {name}
            )
        elif np.float32(now) == np.float32(value):
            plan.report.restored.append((entry.key, target))
        else:
            number = remedy.shortest(value)
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


def _plan_loss_scale(plan, optimizer):
    state = plan.source.optimizer
    entries = {"scale": state.scale, "count": state.count}
    if state.scale is not None:
        value = plan.source.number(state.scale)
        if not (math.isfinite(value) and value > 0):
            raise CheckpointError(
                f"{plan.source.path}: the loss scale at the key {state.scale.key} is "
                f"{value}, which is no positive finite number. The file is damaged, or "
                "the program that wrote it had failed by then; use an older one."
            )
    _check_count(plan.source, state.count)
    for role, target in optimizer.loss_scale.items():
        if state.scale is None and state.count is None:
            plan.report.kept.append((target.name, "the file has no loss scale"))
        else:
            plan.move(entries[role], target)


def _check_count(source, entry):
    if entry is not None and source.number(entry) < 0:
        raise CheckpointError(
            f"{source.path}: the count at the key {entry.key} is negative. The file "
            "is damaged."
        )
