"""Plan a restore: what goes where, before anything is written.

`make` compares a `Source` with the targets and returns a `Plan`. `Plan.apply` writes.
"""

import dataclasses
import functools
import math

import numpy as np

from tf_lso import optimizer_table as table
from tf_lso.checkpoints import matching
from tf_lso.checkpoints.report import Report
from tf_lso.checkpoints.source import CheckpointError

_NO_GRADIENT = "made anew: the file has no slots of this variable (no gradient)"
_DECAY = ": give it learning_rate=InverseTimeDecay(learning_rate, 1, {:g})"
_IDLE = (
    " The newer SGD of Keras 2 has slots without momentum too. If it had none, leave them: "
    "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer, partial=True)."
)


class Plan:
    """What a restore will do."""

    def __init__(self, source):
        self.source = source
        self.report = Report(source.path, source.layout)
        self.steps = []  # pairs of an `Entry` and a `Target`
        self.settings = []  # functions that set hyperparameters, and slots anew
        self.gaps = ()  # how little fits, to compare

    def apply(self):
        """Read all values before writing any, so that a damaged file changes nothing."""
        values = [self.source.read(entry) for entry, _ in self.steps]
        for (_, target), value in zip(self.steps, values):
            target.variable.assign(value.astype(target.dtype, copy=False))
        for setting in self.settings:
            setting()

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
    """Return the `Plan` for a file, `ModelTargets` and `OptimizerTargets` or None."""
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
        plan.source = _named_as_here(source, optimizer)
        _check_numbers(source)
        plan.move(source.optimizer.iterations, optimizer.iterations)
        _plan_state(plan, matched, optimizer)
        _plan_hyperparameters(plan, optimizer)
        for role, target in optimizer.loss_scale.items():
            if source.optimizer.scale is None and source.optimizer.count is None:
                plan.report.kept.append((target.name, "the file has no loss scale"))
            else:
                plan.move(getattr(source.optimizer, role), target)
    report = plan.report
    used = {row[0] for row in (*report.restored, *report.converted, *report.wrong)}
    report.unused += [key for key in source.keys if key not in used]
    plan.gaps = len(report.missing) + len(report.wrong), len(report.unused)
    return plan


def _check_numbers(source):
    state = source.optimizer
    for entry in (state.iterations, state.scale, state.count):
        value = 1.0 if entry is None else source.number(entry)
        is_scale = entry is state.scale
        if not math.isfinite(value) or value < 0 or (is_scale and value == 0):
            what = ("count", "loss scale")[is_scale]
            raise CheckpointError(
                f"{source.path}: the {what} at the key {entry.key} is {value}. The file is "
                "damaged, or the program that wrote it had failed by then; use an older one."
            )


def _named_as_here(source, optimizer):
    """Return the `Source` with the names of slots that this optimizer has for them."""
    state, slot_of = source.optimizer, table.slot_of_attributes(optimizer.inner)
    free = [e for e in state.made if e.of is None and e.slot not in optimizer.slots]
    settings = [e for e in free if optimizer.hyperparameter(e.slot) is not None]
    rest = [entry for entry in state.made if entry not in settings]
    made = [dataclasses.replace(e, slot=slot_of.get(e.slot, e.slot)) for e in rest]
    hyperparameters = state.hyperparameters | {e.slot: e for e in settings}
    state = dataclasses.replace(state, hyperparameters=hyperparameters, made=made)
    return dataclasses.replace(source, optimizer=state)


def _plan_state(plan, matched, optimizer):
    source, report = plan.source, plan.report
    state = source.optimizer
    found = matching.match_optimizer(source, optimizer, matched)
    anew = matching.made_anew(state, optimizer, matched, found)
    lacking = set()
    for target in optimizer.own:
        if target in found:
            plan.move(found[target], target)
        elif target in anew:
            value = np.full(target.variable.shape, anew[target], target.dtype)
            plan.settings.append(functools.partial(target.variable.assign, value))
            report.kept.append((target.name, _NO_GRADIENT))
        elif target.slot == "momentum" and optimizer.hyperparameter("momentum") == 0:
            # tf_keras makes this slot nevertheless; TensorFlow 2.9 and 2.10 did not.
            report.kept.append((target.name, "the momentum is 0"))
        elif target.slot == "_accumulated_gradients":  # of Keras 3 only
            report.kept.append((target.name, "the file has no accumulated gradients"))
        else:
            plan.move(None, target)
            lacking.add(target.slot)
    # The SGD of tf_keras has and writes its slots without momentum too.
    is_sgd = "SGD" in optimizer.class_names
    is_idle = is_sgd and state.config.get("momentum") == 0
    left = [] if is_idle else matching.left(state, found)
    for entry in left:
        what = f"this {optimizer.class_names[0]} has no variable for it"
        report.wrong.append((entry.key, "optimizer", what))
    others = False  # of which one may make as many slots as another
    for slot, (argument, _) in table.MADE_BY.items():
        has = slot in optimizer.slots
        value = state.config.get(argument, has)
        if slot in optimizer.table and bool(value) != has and not is_sgd:
            what = f"{argument}={value} in the file, but not in this optimizer"
            report.wrong.append(("config", "optimizer", what))
            others = True
    more = {entry.slot for entry in left}
    differs = (more | lacking) & table.MADE_BY.keys()
    told = any(state.config.get(name) for name, _ in table.MADE_BY.values())
    if differs or others or ((left or lacking) and told):
        report.remedy = how_to_make(source, optimizer, optimizer.slots - lacking | more)


def how_to_make(source, optimizer, slots):
    """Return how to make the optimizer as it was when the file with `slots` was saved."""
    state, made_by = source.optimizer, table.MADE_BY
    arguments = {n: state.config[n] for n, _ in made_by.values() if state.config.get(n)}
    if not state.config:
        arguments = dict(pair for slot, pair in made_by.items() if slot in slots)
    values = {n: optimizer.hyperparameter(n) for n in ("learning_rate", "momentum")}
    values |= {name: source.number(e) for name, e in state.hyperparameters.items()}
    if "momentum" in arguments:
        arguments["momentum"] = values["momentum"] or arguments["momentum"]
    rate = state.config.get("learning_rate", values["learning_rate"])
    first = [f"{_shortest(rate)}"] if isinstance(rate, (int, float)) else []
    shown = [*first, *(f"{name}={_shortest(v)}" for name, v in arguments.items())]
    name = state.class_name or optimizer.class_names[0]
    may_be_idle = (name, state.family) == ("SGD", "new") and not state.config
    idle = _IDLE if may_be_idle and "momentum" in arguments else ""
    made = f"{name}({', '.join(shown)})"
    return f"Make the optimizer as it was when it was saved: {made}.{idle}"


def _shortest(number):
    """Return the shortest number of the same float32 value: 0.9, not 0.8999999762."""
    return number if isinstance(number, bool) else float(str(np.float32(number)))


def _plan_hyperparameters(plan, optimizer):
    hyperparameters, report = plan.source.optimizer.hyperparameters, plan.report
    for name, entry in hyperparameters.items():
        value, now = plan.source.number(entry), optimizer.hyperparameter(name)
        target = f"optimizer/{name}"
        is_same = now is not None and np.float32(now) == np.float32(value)
        lacks_decay = now is None and name == "decay"
        # The decay of Nadam was one of the momentum.
        is_nadam = lacks_decay and "Nadam" in optimizer.class_names
        if is_same or (lacks_decay and optimizer.decays_by(value)):
            report.restored.append((entry.key, target))
        elif now is None and (name == "learning_rate" or is_nadam):
            report.kept.append((target, "the optimizer has a schedule"))
        elif now is None:
            what = f"{value:g}, and this optimizer has no {name}"
            what += _DECAY.format(value) if lacks_decay else ""
            report.wrong.append((entry.key, target, what))
        elif name == "momentum" and now == 0 != value and name not in optimizer.slots:
            what = f"{value:g}, but this optimizer was made without: it has no slots"
            report.wrong.append((entry.key, target, what))
            slots = optimizer.slots | {name}
            report.remedy = how_to_make(plan.source, optimizer, slots)
        else:
            number = _shortest(value)
            setting = functools.partial(setattr, optimizer.inner, name, number)
            plan.settings.append(setting)
            how = f"{now:g} becomes {number:g}"
            report.converted.append((entry.key, target, how))
    if "learning_rate" not in hyperparameters:
        why = "the file has none: it was a schedule, or this format keeps none"
        report.kept.append(("optimizer/learning_rate", why))
