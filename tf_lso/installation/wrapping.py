"""`compile` wraps optimizers by tf_lso, in place of Keras's own wrapping.

Keras 3 and tf_keras wrap the optimizer of a mixed_float16 model by their own
LossScaleOptimizer, of which Keras 3's is wrong under distribution, and neither knows the
loss scale of an experimental policy.
"""

import functools
import importlib
import threading

from tf_lso import log
from tf_lso.scaling import report

_lock = threading.RLock()
_enabled = {}  # module name of a Keras -> the function that takes its patch away

_once = report.Once()


def wrapped(optimizer, policy, automatic=True):
    """Return the optimizer that a model with `policy` is to be compiled with.

    Args:
      optimizer: an optimizer instance.
      policy: the model's dtype policy.
      automatic: whether to wrap where the policy has no loss scale of its own, but
        float16 needs one.

    Returns:
      `optimizer`, or a LossScaleOptimizer around it.
    """
    from tf_lso import optimizers
    from tf_lso.optimizers import experimental

    carries = hasattr(policy, "loss_scale")
    scaled = any(
        c.__name__.startswith("LossScaleOptim") for c in type(optimizer).__mro__
    )
    if scaled:
        if carries and policy.loss_scale is not None:
            _tell_of_two(optimizer, policy)
        return optimizer
    if carries:
        if policy.loss_scale is None:
            return optimizer
        return experimental.LossScaleOptimizer(optimizer, policy.loss_scale)
    if automatic and getattr(policy, "name", None) == "mixed_float16":
        return optimizers.LossScaleOptimizer(optimizer)
    return optimizer


def _tell_of_two(optimizer, policy):
    own = getattr(optimizer, "loss_scale_state", None)
    if own is policy.loss_scale or repr(own) == repr(policy.loss_scale):
        return
    _once.warn(
        f"The optimizer given to compile() has the loss scale {own!r}, which is used, but "
        f"its model's policy {policy.name!r} has {policy.loss_scale!r}. Give only one of "
        "them: an optimizer that is not wrapped, or a policy with loss_scale=None."
    )


def _patch_keras3(keras):
    (owner,) = [cls for cls in keras.Model.__mro__ if "compile" in vars(cls)][-1:]
    keras_compile = vars(owner)["compile"]

    @functools.wraps(keras_compile)
    def compile(self, optimizer="rmsprop", *args, auto_scale_loss=True, **kwargs):
        optimizer = keras.optimizers.get(optimizer)
        if optimizer is not None:
            optimizer = wrapped(optimizer, self.dtype_policy, auto_scale_loss)
        return keras_compile(self, optimizer, *args, auto_scale_loss=False, **kwargs)

    owner.compile = compile
    return lambda: _restore(owner, "compile", keras_compile)


def _patch_tf_keras(tf_keras):
    # Private, since `compile` wraps there whatever it was given. TestCompile of
    # tests/policies/test_policies.py fails when it moves.
    import tensorflow as tf

    def chosen(model, optimizer):
        return tf.nest.map_structure(
            lambda one: wrapped(tf_keras.optimizers.get(one), model.dtype_policy),
            optimizer,
        )

    owner = tf_keras.Model
    original = vars(owner)["_get_optimizer"]

    @functools.wraps(original)
    def get_optimizer(self, optimizer):
        return chosen(self, optimizer)

    # What models are made of without eager execution, private as well;
    # tests/optimizers/test_tensorflow_1.py is about it.
    owner_v1 = importlib.import_module(f"{owner.__module__}_v1").Model
    original_v1 = vars(owner_v1)["_set_optimizer"]

    @functools.wraps(original_v1)
    def set_optimizer(self, optimizer):
        self.optimizer = chosen(self, optimizer)

    owner._get_optimizer = get_optimizer
    owner_v1._set_optimizer = set_optimizer

    def restore():
        _restore(owner, "_get_optimizer", original)
        _restore(owner_v1, "_set_optimizer", original_v1)

    return restore


def _restore(owner, name, original):
    setattr(owner, name, original)


_PATCHES = {"keras": _patch_keras3, "tf_keras": _patch_tf_keras}


def enable(keras):
    """Let `compile` of a Keras wrap by tf_lso; once is enough.

    Args:
      keras: the module `keras` or `tf_keras`.

    Returns:
      Whether this call did it.
    """
    with _lock:
        if keras.__name__ in _enabled:
            return False
        _enabled[keras.__name__] = _PATCHES[keras.__name__](keras)
        log.logger().debug(
            "tf_lso wraps optimizers in %s.Model.compile", keras.__name__
        )
        return True


def disable(keras):
    """Leave `compile` of a Keras as it was."""
    with _lock:
        restore = _enabled.pop(keras.__name__, None)
        if restore is not None:
            restore()
