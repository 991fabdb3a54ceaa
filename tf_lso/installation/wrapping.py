"""Make `compile` wrap optimizers by tf_lso instead of Keras's own wrapper.

Keras 3 and tf_keras wrap the optimizer of a model whose own policy is mixed_float16 by
their own LossScaleOptimizer. Keras 3's is wrong under distribution. Neither looks at the
policies of the layers, and neither knows the loss scale of an experimental policy.
"""

import functools
import importlib
import inspect
import threading
import weakref
from typing import Any

from tf_lso import log
from tf_lso.installation import ledger as ledger_lib
from tf_lso.scaling import report

_lock = threading.RLock()
_enabled: dict[str, ledger_lib.Ledger] = {}  # name of a Keras -> its patches

_once = report.Once()

# Optimizers that programs asked not to wrap.
_left_bare: weakref.WeakSet[Any] = weakref.WeakSet()

_DEFAULT = "default"


def wrap(optimizer: Any, model: Any) -> Any:
    """Wrap an optimizer if a model needs a loss scale.

    `compile` does this for the one optimizer that it gets. This function is for programs
    that keep their optimizers themselves: custom training loops, models that override
    `compile`, models with several optimizers.

    Args:
      optimizer: an optimizer of Keras 3 or tf_keras, or a LossScaleOptimizer.
      model: the model or layer whose variables the optimizer updates. The result depends
        on the dtypes in which it and its layers compute, and on the loss scales of their
        experimental policies.

    Returns:
      A `LossScaleOptimizer` around `optimizer` if any layer computes in float16. It has
      the policy's loss scale if the policy has one. Otherwise `optimizer` itself: if no
      layer computes in float16, if the policy's loss scale is None, or if `optimizer` is
      wrapped already.

    Raises:
      TypeError: if `optimizer` is no optimizer, or `model` is no model or layer.
      ValueError: if the strategy in scope is not supported.

    Example:
    >>> import tensorflow as tf
    >>> import tf_lso
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(1, dtype="mixed_float16")])
    >>> opt = tf_lso.wrap(tf.keras.optimizers.SGD(0.1), model)
    >>> type(opt).__name__, tf_lso.wrap(opt, model) is opt
    ('LossScaleOptimizer', True)

    Source: an addition. `compile` of TensorFlow 2.1-2.15 did this for models whose own
    policy was mixed_float16.
    """
    from tf_lso import optimizers
    from tf_lso.optimizers import arguments, experimental

    optimizers.face_of(optimizer)  # raises TypeError
    loss_scale = loss_scale_of(model)
    if arguments.scales_the_loss(optimizer):
        if loss_scale not in (None, _DEFAULT):
            _tell_of_two(optimizer, loss_scale)
        return optimizer
    if loss_scale is None:
        return optimizer
    # Remove the mark of an earlier wrapper. As in Keras 3, a model may be compiled again
    # with the same optimizer; each wrapper scales and unscales its own steps.
    vars(optimizer).pop(arguments.MARK, None)
    if loss_scale is _DEFAULT:
        return optimizers.LossScaleOptimizer(optimizer)
    return experimental.LossScaleOptimizer(optimizer, loss_scale)


def loss_scale_of(model):
    """Return the loss scale that a model trains with.

    Args:
      model: a model or layer of Keras 3 or tf_keras.

    Returns:
      None for no loss scale, `_DEFAULT` for a dynamic one, or that of a policy.
    """
    policies = [layer.dtype_policy for layer in float16_layers(model)]
    own = model.dtype_policy
    if getattr(own, "loss_scale", None) is not None or (
        own in policies and hasattr(own, "loss_scale")
    ):
        return own.loss_scale
    scales = [getattr(policy, "loss_scale", _DEFAULT) for policy in policies]
    carried = [scale for scale in scales if scale not in (None, _DEFAULT)]
    return next(iter(carried), _DEFAULT if _DEFAULT in scales else None)


def float16_layers(model):
    """Return the layers that compute in float16, possibly the model itself, a list."""
    # Private, since Keras has no public way to walk through nested layers. TestPrivate of
    # tests/installation/test_wrapping.py fails when it moves.
    if not hasattr(model, "_flatten_layers"):
        raise TypeError(
            f"'model' must be a model or layer of Keras, but got: {model!r}."
        )
    return [
        layer for layer in model._flatten_layers() if layer.compute_dtype == "float16"
    ]


def _tell_of_two(optimizer, loss_scale):
    own = getattr(optimizer, "loss_scale_state", None)
    if own is loss_scale or repr(own) == repr(loss_scale):
        return
    _once.warn(
        f"The optimizer given to compile() has the loss scale {own!r}, which is used, but "
        f"its model's policy has {loss_scale!r}. Give only one of them: an optimizer that "
        "is not wrapped, or a policy with loss_scale=None."
    )


def _compiled(optimizer, model, automatic=True):
    """Return the optimizer to compile a model with; remember those left unwrapped."""
    loss_scale = loss_scale_of(model)
    if loss_scale is None or (loss_scale is _DEFAULT and not automatic):
        _left_bare.add(optimizer)
        return optimizer
    return wrap(optimizer, model)


def tell_of_unscaled(model):
    """Warn of optimizers in a model that train float16 layers without a loss scale.

    Args:
      model: a model that is about to be trained.
    """
    if loss_scale_of(model) is None:
        return
    for name, optimizer in _optimizers_in(model):
        if optimizer not in _left_bare:
            tell_one(optimizer, model, f"{type(model).__name__}.{name.lstrip('_')}")


def tell_one(optimizer, model, name):
    """Warn if an optimizer does not scale the loss although its model needs it.

    Args:
      optimizer: any optimizer.
      model: the model it trains.
      name: str, the optimizer's name in the message.
    """
    from tf_lso.optimizers import arguments

    if loss_scale_of(model) is None or arguments.scales_the_loss(optimizer):
        return
    if getattr(optimizer, "loss_scale_factor", None):  # Keras 3's fixed scale
        return
    layers = [layer.name for layer in float16_layers(model) if layer is not model]
    shown = ", ".join(layers[:3]) + (", ..." if len(layers) > 3 else "")
    _once.warn(
        f"{name} ({type(optimizer).__name__}) scales no loss, but layers that it trains "
        f"may compute in float16 ({shown}), where small gradients become 0. Wrap it: "
        "tf_lso.wrap(optimizer, model), and scale the loss: optimizer.get_scaled_loss, "
        "then get_unscaled_gradients."
    )


def _optimizers_in(model):
    """Yield (attribute name, optimizer) for the optimizers that a model holds."""
    from tf_lso import optimizers

    seen = set()
    for name, value in list(vars(model).items()):
        if name.startswith("_self_"):  # TensorFlow's own list of the attributes
            continue
        if isinstance(value, dict):
            values = value.values()
        else:
            values = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if optimizers.is_optimizer(one) and id(one) not in seen:
                seen.add(id(one))
                yield name, one


def _patch_keras3(keras, ledger):
    (owner,) = [cls for cls in keras.Model.__mro__ if "compile" in vars(cls)][-1:]
    keras_compile = vars(owner)["compile"]

    signature = inspect.signature(keras_compile)

    @functools.wraps(keras_compile)
    def compile(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        arguments = given.arguments
        optimizer = keras.optimizers.get(arguments["optimizer"])
        if optimizer is not None:
            optimizer = _compiled(optimizer, self, arguments["auto_scale_loss"])
        arguments.update(optimizer=optimizer, auto_scale_loss=False)
        return keras_compile(*given.args, **given.kwargs)

    ledger.set_attribute(owner, "compile", compile)


def _patch_tf_keras(tf_keras, ledger):
    # Private, since the public `compile` would wrap again what it gets. TestCompile of
    # tests/policies/test_policies.py fails when it moves.
    import tensorflow as tf

    def chosen(model, optimizer):
        return tf.nest.map_structure(
            lambda one: _compiled(tf_keras.optimizers.get(one), model), optimizer
        )

    owner = tf_keras.Model
    original = vars(owner)["_get_optimizer"]

    @functools.wraps(original)
    def get_optimizer(self, optimizer):
        return chosen(self, optimizer)

    # Models are of this class without eager execution. It is private too.
    # tests/optimizers/test_tensorflow_1.py fails when it moves.
    owner_v1 = importlib.import_module(f"{owner.__module__}_v1").Model
    original_v1 = vars(owner_v1)["_set_optimizer"]

    @functools.wraps(original_v1)
    def set_optimizer(self, optimizer):
        self.optimizer = chosen(self, optimizer)

    ledger.set_attribute(owner, "_get_optimizer", get_optimizer)
    ledger.set_attribute(owner_v1, "_set_optimizer", set_optimizer)


def _patch_training(keras, ledger):
    """Make training check the optimizers when it begins."""
    (owner,) = [c for c in keras.Model.__mro__ if "make_train_function" in vars(c)][:1]
    original = vars(owner)["make_train_function"]

    @functools.wraps(original)
    def make_train_function(self, *args, **kwargs):
        if getattr(self, "train_function", None) is None:  # once after `compile`
            tell_of_unscaled(self)
        return original(self, *args, **kwargs)

    ledger.set_attribute(owner, "make_train_function", make_train_function)


_PATCHES = {"keras": _patch_keras3, "tf_keras": _patch_tf_keras}


def enable(keras):
    """Make `compile` of a Keras wrap by tf_lso.

    Args:
      keras: the module `keras` or `tf_keras`.

    Returns:
      False if this was enabled already.
    """
    with _lock:
        if keras.__name__ in _enabled:
            return False
        ledger = ledger_lib.Ledger()
        _PATCHES[keras.__name__](keras, ledger)
        _patch_training(keras, ledger)
        _enabled[keras.__name__] = ledger
        log.logger().debug(
            "tf_lso wraps optimizers in %s.Model.compile", keras.__name__
        )
        return True


def disable(keras):
    """Make `compile` of a Keras work as before `enable`."""
    with _lock:
        ledger = _enabled.pop(keras.__name__, None)
        if ledger is not None:
            ledger.undo()
