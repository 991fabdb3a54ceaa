"""Where tf_lso gives another result than a recorded version did, and why: a table.

`test_replays.py` computes from the recorded result what tf_lso must give, and fails
both where tf_lso gives anything else and where an entry changes nothing.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from tests.golden import replays

UNTIL_2_3 = ("2.1.4", "2.3.4")
UNTIL_2_4 = ("2.1.4", "2.3.4", "2.4.4")
FIRST_NEW = ("2.9.3", "2.10.1")
KERAS3_AND_NEW = ("new", "keras3")


class _Anything:
    """Equal to everything: what a changed step count or missing slot changes too."""

    def __eq__(self, other):
        return True

    def __repr__(self):
        return "ANYTHING"


ANYTHING = _Anything()


@dataclasses.dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
      section: the section of the record.
      names: the names of the case; a tuple holds alternatives.
      reason: why.
      expected: function of the recorded result and the case's names that returns what
        tf_lso gives instead.
      message: pattern that tf_lso's message matches, where it raises.
      families: the optimizer families it was replayed on, all if empty.
      versions: the versions that differ, all if empty.
      row: how the row of compat_docs/reference/differences.md begins that tells users of it.
    """

    section: str
    names: dict
    reason: str
    expected: Callable
    message: str | None = None
    families: tuple = ()
    versions: tuple = ()
    row: str | None = None

    def holds(self, section, case, family, version):
        """Whether a replay of `case` against `version` shows this difference."""
        return (
            self.section == section
            and (not self.families or family in self.families)
            and (not self.versions or version in self.versions)
            and all(
                case.get(name) in (value if isinstance(value, tuple) else (value,))
                for name, value in self.names.items()
            )
        )


# --- What tf_lso gives, from what was recorded.


def raises(error):
    """It raises `error`."""
    return lambda recorded, case: {"error": error}


def gives(**entries):
    """These entries of the result are others."""
    return lambda recorded, case: {"ok": {**recorded["ok"], **entries}}


def state(**entries):
    """These entries of the state in the result are others."""
    return lambda recorded, case: gives(state={**recorded["ok"]["state"], **entries})(
        recorded, case
    )


def rows(change):
    """Each row, a state, is `change(index, row)`."""
    return lambda recorded, case: {
        "ok": [change(index, row) for index, row in enumerate(recorded["ok"])]
    }


def minimized(value, slot=None):
    """A step of `minimize` from 1 to `value`, where the record has an error."""
    return lambda recorded, case: {"ok": {"ret": None, "state": _after(value, slot)}}


def _after(value, slot=None):
    return {
        "vars": [value],
        "loss_scale": 4.0,
        "counter": 1,
        "iterations": 1,
        "slots": {} if slot is None else {"m/Variable": slot},
    }


def tensor(value, dtype="float32", shape=()):
    """An encoded tensor."""
    return {"dtype": dtype, "shape": list(shape), "v": value}


def quotient(recorded, case):
    """The quotients rounded once; the record is off by at most two roundings."""
    (values,) = (np.asarray(g) for g in replays.GRADIENTS[case["case"]]())
    wide = np.result_type(values, np.float32)
    exact = (values.astype(wide) / wide.type(case["scale"])).astype(values.dtype)
    off = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-24}
    np.testing.assert_allclose(
        np.asarray(recorded["ok"][0]["v"]), exact, rtol=off[values.dtype.name]
    )
    return {"ok": [tensor(exact.tolist(), values.dtype.name, values.shape)]}


# --- The table.


def _sparse_now(recorded, case):
    """Slices unscaled as slices; 2.1 made them dense."""
    dtype = "float16" if case["case"] == "slices_f16" else "float32"
    has_shape = case["case"] != "slices_no_dense_shape"
    values = (np.float32([1.0, 2.0]) / np.float32(case["scale"])).astype(dtype)
    slices = {
        "dense_shape": tensor([4], "int32", [1]) if has_shape else None,
        "indices": tensor([0, 2], "int32", [2]),
        "values": tensor(values.tolist(), dtype, [2]),
    }
    return {"ok": [{"IndexedSlices": slices}]}


def _skipped_step_counts(index, row):
    return {**row, "iterations": index + 1}


def _steps_count(recorded, case):
    steps = [[*row[:3], index] for index, row in enumerate(recorded["ok"]["rows"])]
    return gives(rows=[recorded["ok"]["rows"][0], *steps[1:]])(recorded, case)


APPLIED = "in a function a step returns whether it was applied, a tensor"
_A_BOOL = {"dtype": "bool", "shape": [], "symbolic": True}

DIFFERENCES = [
    # --- scaled_loss
    Difference(
        "scaled_loss",
        {"case": ("py_float", "py_int", "none", "list", "callable_pyfloat")},
        "TypeError that names the argument, not AttributeError of its dtype",
        raises("TypeError"),
        message="'loss' must be a tensor",
    ),
    Difference(
        "scaled_loss",
        {"case": "callable_reads_scale_when"},
        "the scale is read when the loss is computed, as since 2.4",
        gives(after_scale_halved=4.0),
        versions=UNTIL_2_3,
    ),
    # --- unscaled_gradients
    Difference(
        "unscaled_gradients",
        {"case": "pyfloat"},
        "numbers are converted to tensors",
        lambda recorded, case: {
            "ok": [tensor(float(np.float32(6.0) / np.float32(case["scale"])))]
        },
    ),
    Difference(
        "unscaled_gradients",
        {"case": ("nested", "dict")},
        "TypeError that names the element, not AttributeError of its dtype",
        raises("TypeError"),
        message="Gradients must be tensors, .* but got .* of type (list|str)",
    ),
    Difference(
        "unscaled_gradients",
        {"case": "int32", "scale": (3.0, 4.0)},
        "an integer is divided, not multiplied by int(1 / scale), which is 0",
        lambda recorded, case: {"ok": [tensor(int(6 // case["scale"]), "int32")]},
    ),
    Difference(
        "unscaled_gradients",
        {"case": ("f64", "awkward_f32", "awkward_f16"), "scale": 3.0},
        "one division in float32 or wider, not a product with a rounded reciprocal",
        quotient,
    ),
    Difference(
        "unscaled_gradients",
        {"case": ("f16", "f64", "awkward_f32"), "scale": 10.0},
        "one division in float32 or wider, not a product with a rounded reciprocal",
        quotient,
    ),
    Difference(
        "unscaled_gradients",
        {"case": ("slices_f32", "slices_f16", "slices_no_dense_shape")},
        "slices stay sparse, as since 2.3",
        _sparse_now,
        versions=("2.1.4",),
    ),
    # --- sparse_and_half
    Difference(
        "sparse_and_half",
        {"case": ("sparse", "half", "some_none")},
        "a skipped step counts in `iterations`, as since 2.3",
        rows(_skipped_step_counts),
        versions=("2.1.4",),
    ),
    Difference(
        "sparse_and_half",
        {"case": ("sparse", "half", "some_none"), "inner": "Adam"},
        "so Adam's bias correction is another after a skipped step",
        rows(
            lambda index, row: (
                {**row, "vars": ANYTHING, "slots": ANYTHING} if index > 1 else row
            )
        ),
        versions=("2.1.4",),
    ),
    Difference(
        "sparse_and_half",
        {"case": "sparse"},
        "slices stay sparse, as since 2.3",
        rows(lambda index, row: {**row, "grad_type": "IndexedSlices"}),
        versions=("2.1.4",),
    ),
    Difference(
        "sparse_and_half",
        {"case": "sparse"},
        "that version's optimizers took rows of one index for gradients of their own",
        rows(lambda index, row: {**row, "vars": ANYTHING, "slots": ANYTHING}),
        families=KERAS3_AND_NEW,
        versions=("2.9.3",),
    ),
    Difference(
        "sparse_and_half",
        {"case": "all_none"},
        "a refused step does not move the scale, as since 2.5",
        state(loss_scale=4.0, counter=0),
        versions=UNTIL_2_4,
    ),
    Difference(
        "sparse_and_half",
        {"case": "all_none"},
        "a refused step makes no slots",
        state(slots={}),
        families=("new",),
        versions=("2.15.1", "2.21-tf_keras"),
    ),
    Difference(
        "sparse_and_half",
        {"case": "empty"},
        "an empty list is no step: it does not move the scale",
        state(loss_scale=4.0),
        families=("legacy",),
    ),
    Difference(
        "sparse_and_half",
        {"case": "empty"},
        "an empty list is no step: it does not move the scale",
        state(loss_scale=4.0),
        families=KERAS3_AND_NEW,
        versions=("2.9.3", "2.10.1", "2.11.1"),
    ),
    Difference(
        "sparse_and_half",
        {"case": "empty"},
        "an empty list is no step, and no error",
        gives(calls=[{"ok": None}] * 2),
        families=KERAS3_AND_NEW,
        versions=("2.9.3", "2.15.1", "2.21-tf_keras"),
    ),
    Difference(
        "sparse_and_half",
        {"case": "name_kwarg"},
        "every family takes `name` and both arguments that switch aggregation off, and "
        "refuses unknown ones",
        lambda recorded, case: {
            "ok": {
                "calls": [*[{"ok": None}] * 4, {"error": "TypeError"}],
                "state": {
                    "loss_scale": 16.0,
                    "counter": 0,
                    "iterations": 4,
                    "vars": ANYTHING,
                    "slots": ANYTHING,
                },
            }
        },
    ),
    # --- minimize_variants
    Difference(
        "minimize_variants",
        {"case": "c_function"},
        APPLIED,
        gives(trace=[_A_BOOL] * 2),
        families=("legacy", "new"),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_function"},
        APPLIED + "; Keras 3 creates variables at a first trace that is also the last",
        gives(trace=[_A_BOOL]),
        families=("keras3",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_get_updates_fn"},
        APPLIED,
        gives(trace=[[_A_BOOL]] * 2),
        families=("legacy",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_get_updates_fn"},
        APPLIED,
        gives(trace=[[_A_BOOL]]),
        families=("keras3",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_compute_gradients"},
        "both names exist on every family",
        lambda recorded, case: {
            "ok": {
                name: {"ok": [{"tuple": [tensor(2.0), tensor(1.0)]}]}
                for name in ("_compute_gradients", "compute_gradients")
            }
        },
    ),
    Difference(
        "minimize_variants",
        {"case": "c_get_gradients"},
        "get_gradients is for graphs, and says so",
        gives(eager={"error": "RuntimeError"}),
        families=("legacy", "keras3"),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_get_gradients"},
        "get_gradients exists on every family; it is for graphs, and says so",
        lambda recorded, case: {"ok": {"eager": {"error": "RuntimeError"}}},
        families=("new",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_get_gradients_fn"},
        "get_gradients exists on every family",
        lambda recorded, case: {
            "ok": {
                "value": tensor(2.0),
                "trace": [[{"dtype": "float32", "shape": [], "symbolic": True}]],
            }
        },
        families=("new",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_get_updates_fn"},
        "get_updates exists on every family",
        lambda recorded, case: {
            "ok": {
                "state": _after(0.800000011920929, -0.20000000298023224),
                "trace": [[_A_BOOL]] * 2,
            }
        },
        families=("new",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_single"},
        "minimize takes a single variable on every family",
        minimized(0.800000011920929, -0.20000000298023224),
        families=("new",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_grad_loss"},
        "minimize takes grad_loss on every family",
        minimized(0.3999999761581421, -0.6000000238418579),
        families=("new",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_callable_vars"},
        "minimize takes a callable that returns variables, as since 2.11",
        minimized(0.800000011920929, -0.20000000298023224),
        families=("new",),
        versions=FIRST_NEW,
    ),
    Difference(
        "minimize_variants",
        {"case": ("c_list", "c_tensor_tape", "c_f16_loss", "c_function")},
        "SGD makes slots also without momentum, as since 2.11",
        state(slots=ANYTHING),
        families=("new",),
        versions=FIRST_NEW,
    ),
    Difference(
        "minimize_variants",
        {"case": "c_nan"},
        "a skipped first step makes slots, as since 2.14",
        state(slots={"m/Variable": 0.0}),
        families=("new",),
        versions=(*FIRST_NEW, "2.11.1"),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_unconnected"},
        "a refused step makes no slots",
        state(slots={}),
        families=("new",),
        versions=("2.15.1", "2.21-tf_keras"),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_unconnected"},
        "a refused step does not move the scale, as since 2.5",
        state(counter=0),
        versions=UNTIL_2_4,
    ),
    Difference(
        "minimize_variants",
        {"case": "c_nan"},
        "a skipped step counts in `iterations`, as since 2.3",
        state(iterations=1),
        versions=("2.1.4",),
    ),
    Difference(
        "minimize_variants",
        {"case": "c_tensor_no_tape"},
        "ValueError that asks for the tape, as since 2.4",
        raises("ValueError"),
        message="`tape` is required",
        versions=UNTIL_2_3,
    ),
    Difference(
        "minimize_variants",
        {"case": "c_tensor_tape"},
        "minimize takes a tape, as since 2.4",
        minimized(0.800000011920929),
        versions=UNTIL_2_3,
    ),
    # --- floor_and_overflow
    Difference(
        "floor_and_overflow",
        {"scale": ("0.0", "-4.0", "inf", "nan")},
        "a scale must be positive and finite",
        raises("ValueError"),
        message="'initial_scale' must be a positive and finite float32",
    ),
    Difference(
        "floor_and_overflow",
        {"growth": ("0", "-3")},
        "growth steps must be positive",
        raises("ValueError"),
        message="'dynamic_growth_steps' must be",
    ),
    Difference(
        "floor_and_overflow",
        {"growth": "2.9"},
        "growth steps must be whole",
        raises("ValueError"),
        message="'dynamic_growth_steps' must be a positive whole number",
    ),
    Difference(
        "floor_and_overflow",
        {
            "pattern": (
                "nnngggggn",
                "nnggnn",
                "nng",
                "n",
                "gngg",
                "ggnnnn",
                "gggngg",
                "gn",
                "ggn",
                "ggngggngi",
            )
        },
        "a skipped step counts in `iterations`, as since 2.3",
        _steps_count,
        versions=("2.1.4",),
    ),
    # --- extras
    Difference(
        "extras",
        {"case": "gradient_transformers"},
        "optimizers take transformers, as since 2.4",
        lambda recorded, case: {
            "ok": {"rows": ANYTHING, "seen_by_transformer": [[1.0], [1.0]]}
        },
        versions=UNTIL_2_3,
    ),
    Difference(
        "extras",
        {"case": "gradient_aggregator"},
        "optimizers take an aggregator, as since 2.4",
        lambda recorded, case: {
            "ok": {"rows": ANYTHING, "seen_by_aggregator": [[1.0]]}
        },
        versions=UNTIL_2_3,
    ),
]


def of(section, case, family, version):
    """The differences of a replay from what `version` gave."""
    return [d for d in DIFFERENCES if d.holds(section, case, family, version)]
