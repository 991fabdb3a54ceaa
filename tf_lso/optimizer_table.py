"""What is known of each class of optimizer, one row for each. Without TensorFlow.

If TensorFlow 2.0-2.15 did not have it, `slots` is enough. tests/optimizers/test_slots.py
builds each.
"""

import dataclasses

# Other names of hyperparameters in TensorFlow 2.0-2.15.
ALIASES = {"lr": "learning_rate"}


@dataclasses.dataclass(frozen=True)
class Facts:
    """The row of one class.

    Attributes:
      slots: slot name of TensorFlow 2.0-2.15 -> attribute of the optimizers since 2.11
        that holds the list of variables; `a|b` if Keras 3 has `a` and tf_keras `b`.
      hyperparameters: the names that the OptimizerV2 of that class, if there was one,
        passed to `_set_hyper`.
      namespaces: the modules below `tf.keras.optimizers` of TensorFlow 2.0-2.15 that had
        the class; "" is that module itself.
      variable_names: name of a slot in variables of the newer optimizers of Keras 2 ->
        its name in OptimizerV2, if the names differ.
    """

    slots: dict[str, str]
    hyperparameters: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    variable_names: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def order(self) -> list[list[str]]:
        """The groups in which the newer optimizers of Keras 2 made their slots.

        They made those of the first group for each variable, then those of the next.
        """
        always = [slot for slot in self.slots if slot not in _OPTIONAL]
        return [always, *([slot] for slot in self.slots if slot in _OPTIONAL)]


_OPTIONAL = ("momentum", "mg", "vhat")  # slots that exist with an argument only
_ALL = ("", "legacy", "experimental")
_NEWER = ("", "experimental")
_MOMENTS = {"m": "_momentums", "v": "_velocities"}
_AMSGRAD = {**_MOMENTS, "vhat": "_velocity_hats"}
_RATES = ("learning_rate", "decay")
_BETAS = (*_RATES, "beta_1", "beta_2")
_PENALTIES = ("l1_regularization_strength", "l2_regularization_strength")

OPTIMIZERS = {
    "SGD": Facts(
        {"momentum": "momentums"},
        (*_RATES, "momentum"),
        _ALL,
        {"m": "momentum", "momentum": "momentum"},
    ),
    "RMSprop": Facts(
        {"rms": "_velocities", "momentum": "_momentums", "mg": "_average_gradients"},
        (*_RATES, "rho", "momentum"),
        _ALL,
        {"velocity": "rms", "average_gradient": "mg"},
    ),
    "Adam": Facts(_AMSGRAD, _BETAS, _ALL),
    "AdamW": Facts(_AMSGRAD, namespaces=_NEWER),
    "Adamax": Facts({"m": "_m", "v": "_u"}, _BETAS, _ALL, {"u": "v"}),
    "Nadam": Facts(_MOMENTS, _BETAS, _ALL),
    "Adagrad": Facts({"accumulator": "_accumulators"}, _RATES, _ALL),
    "Adadelta": Facts(
        {"accum_grad": "_accumulated_grads", "accum_var": "_accumulated_delta_vars"},
        (*_RATES, "rho"),
        _ALL,
        {"accumulated_grad": "accum_grad", "accumulated_delta_var": "accum_var"},
    ),
    "Ftrl": Facts(
        {"accumulator": "_accumulators", "linear": "_linears"},
        (*_RATES, "beta", "learning_rate_power", *_PENALTIES),
        _ALL,
    ),
    "Lion": Facts({"m": "_momentums|momentums"}, namespaces=("",)),
    "Lamb": Facts(_MOMENTS),
    "Adafactor": Facts({"r": "_r", "c": "_c", "v": "_v"}, namespaces=_NEWER),
}

# The slot that every class has with `use_ema`, as in `Facts.slots`.
AVERAGE = {"average": "_model_variables_moving_average"}

# Attribute of Keras 3 that holds a list of slots -> the end of the slots' names.
ENDS = {
    "_m": "momentum",
    "_u": "norm",
    "_momentums": "momentum",
    "momentums": "momentum",
    "_velocities": "velocity",
    "_velocity_hats": "velocity_hat",
    "_average_gradients": "average_gradient",
    "_accumulators": "accumulator",
    "_linears": "linear",
    "_accumulated_grads": "accumulated_grad",
    "_accumulated_delta_vars": "accumulated_delta_var",
    "_model_variables_moving_average": "average",
}

# The classes that programs of TensorFlow 2.0-2.15 could use.
OLD = tuple(name for name, facts in OPTIMIZERS.items() if facts.namespaces)


def of(classes: list[str]) -> Facts:
    """Return the row of the first of the classes that has one, else an empty one."""
    return next((OPTIMIZERS[n] for n in classes if n in OPTIMIZERS), Facts({}))


def in_namespace(namespace: str) -> tuple[str, ...]:
    """Return the classes in a namespace of TensorFlow 2.9-2.15."""
    return tuple(n for n, facts in OPTIMIZERS.items() if namespace in facts.namespaces)
