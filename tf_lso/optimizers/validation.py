"""Check the arguments of constructors and of steps. The errors say what to do instead."""

import difflib
import inspect

import tensorflow as tf

from tf_lso.frameworks import keras2_private, keras_versions
from tf_lso.frameworks import optimizer_table as table
from tf_lso.frameworks import variables as variables_lib
from tf_lso.scaling import rule as rule_lib

# In these strategies each replica has a copy of each variable.
_SUPPORTED = (
    tf.distribute.OneDeviceStrategy,
    tf.distribute.MirroredStrategy,
    tf.distribute.MultiWorkerMirroredStrategy,
    tf.compat.v1.distribute.OneDeviceStrategy,
    tf.compat.v1.distribute.MirroredStrategy,
    tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
)


def check_dynamic(dynamic):
    if not isinstance(dynamic, bool):
        scale = repr(dynamic) if isinstance(dynamic, (int, float)) else "..."
        raise TypeError(
            f"'dynamic' must be a bool, but got: {dynamic!r}. For a dynamic scale write "
            "LossScaleOptimizer(optimizer), for a fixed one "
            f"LossScaleOptimizer(optimizer, dynamic=False, initial_scale={scale})."
        )


def check_keras3_arguments(arguments):
    """Raise an error if an argument is unknown to Keras 3 or is not the default."""
    for name, value in arguments.items():
        if name == "loss_scale":
            raise TypeError(
                f"LossScaleOptimizer accepts no 'loss_scale', but got {value!r}. For a "
                "fixed scale write dynamic=False, initial_scale=..."
            )
        if name not in table.KERAS3_DEFAULTS:
            accepted = ["optimizer", "dynamic", *rule_lib.OF_OPTIMIZER.values(), "name"]
            refuse_keyword(name, accepted, table.KERAS3_DEFAULTS)
        if value != table.KERAS3_DEFAULTS[name]:
            raise ValueError(
                f"LossScaleOptimizer does not support {name!r}, but got {value!r}. Set it "
                "on the inner optimizer, where it works."
            )


def refuse_keyword(name, accepted, also_similar=()):
    """Raise TypeError. The message suggests a similar name, or lists all `accepted` names."""
    similar = difflib.get_close_matches(name, [*accepted, *also_similar], n=1)
    remedy = f"It accepts: {', '.join(accepted)}."
    if similar:
        remedy = f"Did you mean {similar[0]!r}?"
    raise TypeError(
        f"LossScaleOptimizer got an unexpected keyword argument {name!r}. {remedy}"
    )


def scales_the_loss(optimizer):
    return any("LossScaleOptimizer" in cls.__name__ for cls in type(optimizer).__mro__)


def check_reduces(*optimizers):
    """Raise TypeError if Horovod made the class of one of the Keras 3 optimizers."""
    for optimizer in optimizers:
        if keras2_private.is_made_by_horovod(optimizer):
            raise TypeError(
                f"The optimizer {type(optimizer).__name__} is made by Horovod's "
                "DistributedOptimizer, which is for Keras 2. Under Keras 3 each process "
                "would silently train for itself. Run the program with `tf-lso run "
                "--like 2.4`, or write a loop with hvd.DistributedGradientTape. See "
                "`tf-lso help horovod`"
            )


def check_free(inner):
    """Raise an error if an optimizer scales the loss itself or is already wrapped."""
    if scales_the_loss(inner):
        raise TypeError(
            "'optimizer' must not be a LossScaleOptimizer, since the loss would be scaled "
            f"twice, but got: {inner!r}. Wrap a copy of its `inner_optimizer`."
        )
    if keras2_private.is_marked(inner):
        raise ValueError(
            f"'optimizer' is already wrapped by a LossScaleOptimizer: {inner!r}. Make a "
            "new one: type(optimizer).from_config(optimizer.get_config())."
        )


def is_of_tf_lso(method):
    """Return True if tf_lso defines `method`, and False if a user's subclass defines it."""
    return getattr(method, "__module__", "").split(".")[0] == "tf_lso"


def as_list(name, iterable):
    try:
        return list(iterable)
    except TypeError as error:
        raise TypeError(f"{name!r} must be iterable, but got: {iterable!r}.") from error


def unzip(grads_and_vars):
    """Split (gradient, variable) pairs into a list of gradients and a list of variables."""
    pairs = as_list("grads_and_vars", grads_and_vars)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                "'grads_and_vars' must contain (gradient, variable) pairs, but got the "
                f"element {pair!r}. Pass `zip(gradients, variables)`."
            )
    return [gradient for gradient, _ in pairs], [variable for _, variable in pairs]


def check_strategy():
    strategy = tf.distribute.get_strategy()
    if tf.distribute.has_strategy() and not isinstance(strategy, _SUPPORTED):
        raise ValueError(
            "Loss scaling is not supported with the tf.distribute.Strategy: "
            f"{type(strategy).__name__}. Use MirroredStrategy on one machine and "
            "MultiWorkerMirroredStrategy on several, or bfloat16 without loss scaling."
        )


def check_context():
    """Raise ValueError in a cross-replica context or under an unsupported strategy."""
    if tf.distribute.in_cross_replica_context():
        raise ValueError(
            "apply_gradients() must be called in a replica context: in a function that "
            "`tf.distribute.Strategy.run` runs."
        )
    check_strategy()


def check_gradients(gradients):
    for gradient in gradients:
        if isinstance(gradient, (list, tuple, dict, str, bytes)):
            remedy = "Pass one flat list, such as tf.nest.flatten(gradients)."
            last = gradient[-1] if isinstance(gradient, tuple) and gradient else None
            if isinstance(last, tf.Variable):
                remedy = (
                    "Pass gradients without their variables. _aggregate_gradients() "
                    "returns pairs since TensorFlow 2.4: run a program of 2.2 or 2.3 with "
                    "`tf-lso run --like 2.3`, or replace its lines from the scaled loss "
                    "on by minimize(loss, variables, tape=tape)."
                )
            raise TypeError(
                "Gradients must be tensors, tf.IndexedSlices or None, but got "
                f"{gradient!r} of type {type(gradient).__name__} in 'grads'. {remedy}"
            )


def check_tape(loss, tape):
    if not callable(loss) and tape is None:
        raise ValueError(
            "`tape` is required when a tensor is passed as the loss: pass the "
            f"tf.GradientTape that recorded it, or a callable. Got loss={loss!r}."
        )


def check_variables(variables):
    """Raise an error unless all elements are variables that belong to the strategy."""
    kinds = (tf.Variable, tf.distribute.DistributedValues)
    for variable in variables:
        if not isinstance(variables_lib.raw(variable), kinds):
            raise TypeError(
                "Gradients can only be applied to variables, such as "
                f"model.trainable_variables, but got {variable!r} of type "
                f"{type(variable).__name__}."
            )
    check_scope(variables)


def check_scope(variables):
    """Raise ValueError if variables for several replicas were created outside the scope."""
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return
    is_inside = strategy.extended.variable_created_in_scope
    strays = [v for v in variables if not is_inside(variables_lib.raw(v))]
    if strays:
        names = list(map(variables_lib.name_of, strays))
        raise ValueError(
            f"The variables {names} were created outside the scope of the strategy "
            f"{type(strategy).__name__}. Create the model, and build the optimizer, in "
            "`with strategy.scope():`. See `tf-lso help scope`"
        )


def check_known(variables, known, key, remedy):
    """Raise ValueError unless the optimizer was built for all variables of a step.

    If the optimizer was built for a variable, `known` contains `key(variable)`. The message
    suggests a call of `build` or `remedy`.
    """
    unknown = [variables_lib.name_of(v) for v in variables if key(v) not in known]
    if unknown:
        raise ValueError(
            f"Unknown variables: {unknown}. Call optimizer.build(all_variables) before the "
            f"first step, or {remedy}."
        )


def check_replicas(optimizer):
    """Raise ValueError if an option of a Keras 3 optimizer fails on several replicas."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    # Gradient accumulation fails on several replicas (keras#20582).
    remedies = {
        "gradient_accumulation_steps": "Accumulate in the training loop. "
        "See `tf-lso help accumulation`",
        "ema_overwrite_frequency": "Set it to None, and call finalize_variable_values() in "
        "strategy.scope() when you want the averages.",
    }
    for name, remedy in remedies.items():
        value = getattr(optimizer, name)
        is_used = value and (optimizer.use_ema or not name.startswith("ema"))
        if is_used and replicas > 1:
            raise ValueError(
                f"{name}={value} of the inner optimizer does not work under a strategy of "
                f"{replicas} replicas, because Keras 3 itself fails. {remedy}"
            )


def check_inner_arguments(inner, args, kwargs):
    """Raise TypeError if the inner optimizer's `apply_gradients` rejects an argument.

    `args` are the arguments after the (gradient, variable) pairs. The caller has removed the
    name of the operations from `args` and `kwargs`.
    """
    if not args and not kwargs:
        return
    try:
        # Keras's own `apply_gradients` silently ignores some unknown arguments.
        if keras_versions.is_of_one(inner.apply_gradients):
            raise TypeError("no further arguments")
        signature = inspect.signature(inner.apply_gradients)
        if args and list(signature.parameters)[1:2] == ["name"]:
            raise TypeError("'name' must be a str or None")
        signature.bind([], *args, **kwargs)
    except TypeError as error:
        shown = [*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())]
        raise TypeError(
            f"apply_gradients() of {type(inner).__name__}, the inner optimizer, does not "
            f"accept {', '.join(shown)}: {error}. Leave it out, or add the parameter there."
        ) from error
