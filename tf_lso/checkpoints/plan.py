"""Plan a restore before anything is written."""

import dataclasses
import functools
import math

import numpy as np

from tf_lso.checkpoints import matching
from tf_lso.checkpoints.restore_report import RestoreReport
from tf_lso.checkpoints.source import CheckpointError
from tf_lso.frameworks import optimizer_table as table

# The name of a slot, and that of the argument that creates it.
[(_ACCUMULATED, (_ACCUMULATION, _))] = table.ACCUMULATION.items()
_NO_GRADIENT = (
    "initial value: the file has no slots for this variable, which had no gradient"
)
_UNTRAINED = "initial value: the file was saved before the first step"
_DECAY = ": pass learning_rate=InverseTimeDecay(learning_rate, 1, {:g})"
_NO_STATE = (
    "The file has no state of an optimizer: it was saved before the first step, or without "
    "its optimizer. Leave out optimizer= to restore the model alone."
)
_IDLE = (
    " The newer SGD of Keras 2 has slots even without momentum. If the saved "
    "optimizer had no momentum, skip them: "
    "tf_lso.checkpoints.restore(path, model=model, optimizer=optimizer, partial=True)."
)


class Plan:
    """Decides and reports what a restore of a file will do.

    `model` is a `ModelTargets`, and `optimizer` is an `OptimizerTargets` or None.
    """

    def __init__(self, source, model, optimizer, mapping=None):
        self.source = source
        self.report = report = RestoreReport(source.path, source.layout)
        # Pairs of functions: one reads a value, and one assigns it.
        self._steps = []
        self._matched = matching.match_model(source, model, mapping)
        for key, target in self._matched.items():
            self._move(source.variables[key], target)
        for target in model.targets:
            if target not in self._matched.values():
                self._move(None, target)
        if optimizer is not None:
            self._plan_optimizer(source.optimizer, optimizer)
        used = {row[0] for row in (*report.restored, *report.converted, *report.wrong)}
        report.unused += [key for key in source.keys if key not in used]

    def apply(self):
        """Assign the values. All are read first, so a damaged file changes no variable."""
        values = [read() for read, _ in self._steps]
        for (_, assign), value in zip(self._steps, values):
            assign(value)

    def _move(self, entry, target, factor=1):
        """Plan to assign a tensor, or report why not. `entry` is None if the file lacks it."""
        report, name = self.report, target.name
        if entry is None:
            report.missing.append(name)
        elif what := target.problem(entry):
            report.wrong.append((entry.key, name, what))
        else:
            read = functools.partial(self.source.read, entry)
            scaled = read if factor == 1 else lambda: read() * factor
            self._steps.append((scaled, target.assign))
            if factor != 1:
                report.converted.append((entry.key, name, f"multiplied by {factor}"))
            elif entry.dtype == target.dtype:
                report.restored.append((entry.key, name))
            else:
                how = f"{entry.dtype} to {target.dtype}"
                report.converted.append((entry.key, name, how))

    def _plan_optimizer(self, state, optimizer):
        if state is None:
            self.report.remedy = _NO_STATE
            for target in (optimizer.iterations, *optimizer.own):
                self._move(None, target)
            return
        _rename_slots(state, optimizer)
        _check_numbers(self.source)
        found = matching.match_optimizer(self.source, optimizer, self._matched)
        self._plan_iterations(state, optimizer, found)
        self._plan_slots(state, optimizer, found)
        for name, entry in state.hyperparameters.items():
            self._set(name, entry, optimizer)
        if "learning_rate" not in state.hyperparameters:
            why = "it is not in the file: it was a schedule, or the format has none"
            self.report.kept.append(("optimizer/learning_rate", why))
        for role, target in optimizer.loss_scale.items():
            if state.scale is None and state.count is None:
                self.report.kept.append((target.name, "the file has no loss scale"))
            else:
                self._move(getattr(state, role), target)

    def _plan_iterations(self, state, optimizer, found):
        # With gradient accumulation, Keras 3 counts batches, and otherwise steps.
        batches, saved = optimizer.batches_per_step, state.config.get(_ACCUMULATION)
        is_accumulated = any(target.slot == _ACCUMULATED for target in found)
        if is_accumulated and (saved or batches) != batches:
            what = f"{_ACCUMULATION}={saved} in the file, but {batches} here"
            self.report.wrong.append(("config", "optimizer", what))
        is_multiplied = optimizer.divides_batches and not is_accumulated
        factor = batches if is_multiplied else 1
        self._move(state.iterations, optimizer.iterations, factor)

    def _plan_slots(self, state, optimizer, found):
        report, lacking = self.report, set()
        never_made = matching.never_made(self.source, optimizer, self._matched, found)
        may_lack = _may_lack(optimizer)
        for target in optimizer.own:
            if target in found:
                self._move(found[target], target)
            elif target in never_made:
                first = never_made[target]
                value = functools.partial(np.full, target.shape, first)
                self._steps.append((value, target.assign))
                why = _NO_GRADIENT if state.made else _UNTRAINED
                report.kept.append((target.name, why))
            elif target.slot in may_lack:
                report.kept.append((target.name, may_lack[target.slot]))
            else:
                self._move(None, target)
                lacking.add(target.slot)
        # The newer SGD of tf_keras creates and saves its slots even without momentum.
        is_idle = optimizer.is_sgd and state.config.get("momentum") == 0
        unmatched = [] if is_idle else matching.unmatched(state, found)
        for entry in unmatched:
            what = f"this {optimizer.class_names[0]} has no variable for it"
            report.wrong.append((entry.key, "optimizer", what))
        self._compare_arguments(state, optimizer, lacking, unmatched)

    def _compare_arguments(self, state, optimizer, lacking, unmatched):
        """Report if the saved optimizer was created with other arguments than `optimizer`.

        Different arguments may create the same number of slots.
        """
        others = False
        for slot, (argument, _) in table.MADE_BY.items():
            has = slot in optimizer.slots
            value = state.config.get(argument, has)
            is_idle = (
                optimizer.is_sgd and slot == "momentum" and state.family != "keras3"
            )
            is_judged = slot in optimizer.optional and not is_idle
            if is_judged and bool(value) != has:
                what = f"{argument}={value} in the file, but not in this optimizer"
                self.report.wrong.append(("config", "optimizer", what))
                others = True
        more = {entry.slot for entry in unmatched}
        differs = (more | lacking) & optimizer.optional
        names_one = any(state.config.get(name) for name, _ in table.MADE_BY.values())
        if differs or others or ((unmatched or lacking) and names_one):
            slots = optimizer.slots - lacking | more
            self.report.remedy = how_to_make(self.source, optimizer, slots)

    def _set(self, name, entry, optimizer):
        """Plan to set the hyperparameter `name` to the saved value, or report why not."""
        report, target = self.report, f"optimizer/{name}"
        value, now = self.source.number(entry), optimizer.hyperparameter(name)
        is_same = now is not None and np.float32(now) == np.float32(value)
        lacks_decay = now is None and name == "decay"
        # In old files of Nadam, `decay` is the decay of the momentum and not of the learning
        # rate.
        is_nadam = lacks_decay and "Nadam" in optimizer.class_names
        if is_same or (lacks_decay and optimizer.decays_by(value)):
            report.restored.append((entry.key, target))
        elif now is None and (name == "learning_rate" or is_nadam):
            report.kept.append((target, "the optimizer has a schedule"))
        elif now is None:
            what = f"{value:g}, and this optimizer has no {name}"
            what += _DECAY.format(value) if lacks_decay else ""
            report.wrong.append((entry.key, target, what))
        elif now == 0 != value and name in optimizer.optional - optimizer.slots:
            what = f"{value:g}, but this optimizer was created without it, and has no slots"
            report.wrong.append((entry.key, target, what))
            report.remedy = how_to_make(
                self.source, optimizer, optimizer.slots | {name}
            )
        else:
            assign = functools.partial(setattr, optimizer.inner, name)
            self._steps.append((functools.partial(_shortest, value), assign))
            how = f"{now:g} becomes {_shortest(value):g}"
            report.converted.append((entry.key, target, how))


def _may_lack(optimizer):
    """Return a dict {name of a slot that a file may lack: the reason}."""
    found = {_ACCUMULATED: "the file has no accumulated gradients"}
    has_momentum = "momentum" in optimizer.optional
    if has_momentum and optimizer.hyperparameter("momentum") == 0:
        # Unlike tf_keras, TensorFlow 2.9 and 2.10 create no slot if the momentum is 0.
        found["momentum"] = "the momentum is 0"
    return found


def _check_numbers(source):
    state = source.optimizer
    for entry in (state.iterations, state.scale, state.count):
        value = 1.0 if entry is None else source.number(entry)
        is_scale = entry is state.scale
        if not math.isfinite(value) or value < 0 or (is_scale and value == 0):
            what = ("count", "loss scale")[is_scale]
            raise CheckpointError(
                f"{source.path}: the {what} at the key {entry.key} is {value}. The file is "
                "damaged, or the program had already failed when it wrote it. Use an older "
                "file."
            )


def _rename_slots(state, optimizer):
    """Give the slots in `state` the names that `optimizer` uses.

    Also move hyperparameters that were saved as variables to `state.hyperparameters`.
    """
    slot_of = table.slot_of_attributes(optimizer.inner)
    for entry in [e for e in state.made if e.of is None]:
        is_number = optimizer.hyperparameter(entry.slot) is not None
        if is_number and entry.slot not in optimizer.slots:
            state.made.remove(entry)
            state.hyperparameters[entry.slot] = entry
    renamed = ((e, slot_of.get(e.slot, e.slot)) for e in state.made)
    state.made = [dataclasses.replace(entry, slot=slot) for entry, slot in renamed]


def how_to_make(source, optimizer, slots):
    """Return a sentence that says how to create the saved optimizer, which had `slots`."""
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
    return f"Create the optimizer as it was when it was saved: {made}.{idle}"


def _shortest(number):
    """Return the shortest float with the same float32 value, or a bool unchanged."""
    return number if isinstance(number, bool) else float(str(np.float32(number)))
