"""Plan a restore: what goes where, before anything is written.

`make` compares a `Source` with the targets and returns a `Plan`. `Plan.apply` writes.
"""

import dataclasses
import functools
import math

import numpy as np

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import layouts, matching, remedy
from tf_lso.checkpoints.errors import CheckpointError
from tf_lso.checkpoints.report import Report

# Hyperparameters that today's optimizers lack -> the value that has no effect.
_NEUTRAL = {"decay": 0.0, "beta": 0.0}

_NO_GRADIENT = (
    "made anew: the file has no slots of this variable, as without a gradient"
)


class Plan:
    """What a restore will do."""

    def __init__(self, source):
        self.source = source
        self.report = Report(source.path, source.layout)
        self.steps = []  # pairs of an `Entry` and a `Target`
        self.settings = []  # functions that set hyperparameters, and slots anew

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

    def rank(self):
        """Return how little fits: the numbers of gaps and of unused keys, a tuple."""
        report = self.report
        return len(report.missing) + len(report.wrong), len(report.unused)

    def moves(self):
        """Return which key goes to which variable, a frozenset of pairs."""
        return frozenset((entry.key, target.name) for entry, target in self.steps)

    def move(self, entry, target):
        """Note that `entry`, None if the file has none, goes to `target`, or not."""
        report, name = self.report, target.name
        if entry is None:
            report.missing.append(name)
        elif what := target.problem(entry):
            report.wrong.append((entry.key, name, what))
        else:
            self.steps.append((entry, target))
            if entry.dtype == target.dtype:
                report.restored.append((entry.key, name))
            else:
                how = f"{entry.dtype} to {target.dtype}"
                report.converted.append((entry.key, name, how))


def make(source, model, optimizer, mapping=None):
    """Return the `Plan` to restore a file into `ModelTargets` and `OptimizerTargets`.

    The optimizer is built, or None. `matching.match_model` explains the mapping.
    """
    plan = Plan(source)
    matched = matching.match_model(source, model, mapping)
    for key, target in matched.items():
        plan.move(source.variables[key], target)
    missing = [t for t in model.targets if t not in matched.values()]
    if optimizer is not None and source.optimizer is None:
        missing += [optimizer.iterations, *optimizer.own]
    for target in missing:
        plan.move(None, target)
    if optimizer is not None and source.optimizer is not None:
        source = plan.source = _named_as_here(source, optimizer)
        plan.move(_count(source, source.optimizer.iterations), optimizer.iterations)
        match = matching.match_optimizer(source, optimizer, matched)
        _plan_state(plan, match, optimizer)
        _plan_hyperparameters(plan, optimizer)
        _plan_loss_scale(plan, optimizer)
    report = plan.report
    used = {row[0] for row in (*report.restored, *report.converted, *report.wrong)}
    report.unused += [key for key in source.keys if key not in used]
    return plan


def _named_as_here(source, optimizer):
    """Return a copy of a `Source` with the names that this optimizer uses.

    Slots get the names of OptimizerV2, and what is a hyperparameter of a user's own class
    becomes one.
    """
    state = source.optimizer
    settings = {
        entry.slot: entry
        for entry in state.made
        if entry.of is None and entry.slot not in optimizer.slots
        if optimizer.hyperparameter(entry.slot) is not None
    }
    slot_of = table.slot_of_attributes(optimizer.inner)
    state = dataclasses.replace(
        state,
        hyperparameters={**state.hyperparameters, **settings},
        made=[
            dataclasses.replace(entry, slot=slot_of.get(entry.slot, entry.slot))
            for entry in state.made
            if settings.get(entry.slot) is not entry
        ],
    )
    return dataclasses.replace(source, optimizer=state)


def _plan_state(plan, match, optimizer):
    """Plan all variables that the optimizer made, and all that the file has of them."""
    state, report = plan.source.optimizer, plan.report
    lacking = set()
    for target in optimizer.own:
        if target in match.entries:
            plan.move(match.entries[target], target)
        elif target in match.anew:
            plan.settings.append(functools.partial(_fill, target, match.anew[target]))
            report.kept.append((target.name, _NO_GRADIENT))
        elif target.slot == "momentum" and optimizer.hyperparameter("momentum") == 0:
            # tf_keras makes this slot nevertheless; TensorFlow 2.9 and 2.10 did not.
            report.kept.append((target.name, "the momentum is 0"))
        elif target.slot == layouts.ACCUMULATED:
            report.kept.append((target.name, "the file has no accumulated gradients"))
        else:
            plan.move(None, target)
            lacking.add(target.slot)
    left = match.left
    if "SGD" in optimizer.class_names and state.config.get("momentum") == 0:
        left = []  # tf_keras makes and writes its slots nevertheless; they mean nothing
    for entry in left:
        what = f"this {optimizer.class_names[0]} has no variable for it"
        report.wrong.append((entry.key, "optimizer", what))
    others = remedy.other_arguments(state, optimizer)
    for argument, value in others.items():
        what = f"{argument}={value} in the file, and this optimizer was made otherwise"
        report.wrong.append(("config", "optimizer", what))
    more = {entry.slot for entry in left}
    differs = (more | lacking) & table.MADE_BY.keys()
    told = any(state.config.get(name) for name, _ in table.MADE_BY.values())
    if differs or others or ((left or lacking) and told):
        slots = optimizer.slots - lacking | more
        report.remedy = remedy.how_to_make(plan.source, optimizer, slots)


def _fill(target, value):
    target.variable.assign(np.full(target.shape, value, target.dtype))


def _plan_hyperparameters(plan, optimizer):
    hyperparameters, report = plan.source.optimizer.hyperparameters, plan.report
    for name, entry in hyperparameters.items():
        value, now = plan.source.number(entry), optimizer.hyperparameter(name)
        target = f"optimizer/{name}"
        if now is None and value == _NEUTRAL.get(name):
            report.converted.append((entry.key, target, "0: nothing to do"))
        elif now is None and name == "learning_rate":
            report.kept.append((target, "the optimizer has a schedule"))
        elif now is None and name == "decay" and optimizer.decays_by(value):
            report.restored.append((entry.key, target))
        elif now is None and name == "decay" and "Nadam" in optimizer.class_names:
            # This decay is not of the learning rate, but of the momentum.
            report.kept.append((target, "today's Nadam has a schedule of its own"))
        elif now is None:
            report.wrong.append((entry.key, target, _no_such(name, value)))
        elif name == "momentum" and now == 0 != value and name not in optimizer.slots:
            what = f"{value:g}, but this optimizer was made without: it has no slots"
            report.wrong.append((entry.key, target, what))
            slots = optimizer.slots | {name}
            report.remedy = remedy.how_to_make(plan.source, optimizer, slots)
        elif np.float32(now) == np.float32(value):
            report.restored.append((entry.key, target))
        else:
            number = remedy.shortest(value)
            plan.settings.append(
                functools.partial(setattr, optimizer.inner, name, number)
            )
            how = f"{now:g} becomes {number:g}"
            report.converted.append((entry.key, target, how))
    if "learning_rate" not in hyperparameters:
        why = "the file has none: it was a schedule, or this format keeps none"
        report.kept.append(("optimizer/learning_rate", why))


def _no_such(name, value):
    if name == "decay":
        return (
            f"{value:g}, and this optimizer has no decay: give it learning_rate="
            f"InverseTimeDecay(learning_rate, 1, {value:g})"
        )
    return f"{value:g}, and this optimizer has no such hyperparameter"


def _plan_loss_scale(plan, optimizer):
    state = plan.source.optimizer
    if state.scale is not None:
        value = plan.source.number(state.scale)
        if not (math.isfinite(value) and value > 0):
            raise CheckpointError(
                f"{plan.source.path}: the loss scale at the key {state.scale.key} is "
                f"{value}, which is no positive finite number. The file is damaged, or "
                "the program that wrote it had failed by then; use an older one."
            )
    entries = {"scale": state.scale, "count": _count(plan.source, state.count)}
    for role, target in optimizer.loss_scale.items():
        if state.scale is None and state.count is None:
            plan.report.kept.append((target.name, "the file has no loss scale"))
        else:
            plan.move(entries[role], target)


def _count(source, entry):
    """Return an entry that is a count, or None; raise if its value is negative."""
    if entry is not None and source.number(entry) < 0:
        raise CheckpointError(
            f"{source.path}: the count at the key {entry.key} is negative. The file "
            "is damaged."
        )
    return entry
