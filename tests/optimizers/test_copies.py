"""Deep copies and pickles of optimizers.

`tests/state/test_resume.py` checks that training continues in the same way with a copy or a
pickle. This file tests what a config does not contain, slots of equal shape, and strategies.
"""

import copy
import pickle

import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    FAMILIES,
    KERASES,
    copies,
    here,
    legacy_step,
    number,
    numpy,
    wrapped,
)
from tf_lso.keras.mixed_precision import experimental


def weights_of(optimizer):
    return [weight.tolist() for weight in optimizer.get_weights()]


def pickle_and_unpickle(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


copied_and_pickled = pytest.mark.parametrize(
    "make_copy", [copy.deepcopy, pickle_and_unpickle], ids=["deepcopy", "pickle"]
)


@copied_and_pickled
def test_a_copy_has_the_same_name_and_an_equal_loss_scale(family, make_copy):
    inner = FAMILIES[family].SGD(0.1)
    loss_scale = tf_lso.DynamicLossScale(8.0, 3, 4.0)
    optimizer = experimental.LossScaleOptimizer(inner, loss_scale, name="mine")
    optimizer.learning_rate = 0.25
    copied = make_copy(optimizer)
    assert (copied.name, number(copied.learning_rate)) == ("mine", 0.25)
    assert copied.loss_scale is not optimizer.loss_scale
    assert type(copied.loss_scale) is type(optimizer.loss_scale)
    assert copied.loss_scale.get_config() == optimizer.loss_scale.get_config()


# --- Slots of several variables of the same shape.


def trained_on_two(family):
    """Return an Adam that had other gradients for two variables, and the variables."""
    optimizer = wrapped(family, "Adam")
    first, second = tf.Variable([1.0], name="base"), tf.Variable([1.0], name="head")
    optimizer.build([first, second])
    legacy_step(optimizer, lambda: first**2 + 2 * second**2, [first, second])
    return optimizer, [first, second]


def slots_of(optimizer, variables):
    return [
        numpy(optimizer.get_slot(variable, name)).tolist()
        for variable in variables
        for name in ("m", "v")
    ]


def test_an_unpickled_optimizer_finds_its_slots_by_the_names_of_variables(family):
    optimizer, variables = trained_on_two(family)
    unpickled = pickle_and_unpickle(optimizer)
    unpickled.build(variables[::-1])
    assert slots_of(unpickled, variables) == slots_of(optimizer, variables)


def test_an_unpickled_optimizer_refuses_other_variables(family):
    optimizer, (base, _) = trained_on_two(family)
    unpickled = pickle_and_unpickle(optimizer)
    other = tf.Variable([1.0], name="other")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"only the file has .*head.*other"):
            unpickled.build([base, other])


# --- Strategies.


@copied_and_pickled
@pytest.mark.parametrize("built", [False, True])
def test_a_copy_made_outside_the_scope_trains_on_replicas(
    family, built, make_copy, mirrored2
):
    with mirrored2.scope():
        optimizer, x = wrapped(family, "Adam"), tf.Variable([1.0])

    def state_after_a_step(optimizer):
        x.assign([1.0])
        mirrored2.run(lambda: legacy_step(optimizer, lambda: 2.0 * x, [x]))
        variables = (*optimizer.weights, optimizer.dynamic_counter, x)
        assert all(len(set(map(str, copies(v)))) == 1 for v in variables)
        return [str(numpy(variable)) for variable in variables]

    if built:
        state_after_a_step(optimizer)
    copied = make_copy(optimizer)
    assert state_after_a_step(optimizer) == state_after_a_step(copied)
    if make_copy is copy.deepcopy:
        # An unpickled optimizer does not know the strategy, so replicas share its counters.
        assert all(len(copies(variable)) == 2 for variable in copied.weights)


# --- What a config does not contain.


def halved(grads_and_vars):
    return [(gradient / 2.0, variable) for gradient, variable in grads_and_vars]


def test_a_deep_copy_of_a_legacy_optimizer_has_its_attributes():
    """Python copies legacy optimizers. All others are made from their configs."""
    inner = FAMILIES["legacy"].SGD(1.0, gradient_transformers=[halved])
    inner.notes = {"runs": [1, 2]}
    copied = copy.deepcopy(tf_lso.LossScaleOptimizer(inner))
    x = tf.Variable(0.0)
    copied.apply_gradients([(tf.constant(8.0), x)])
    assert float(x) == -4.0
    assert list(copied.inner_optimizer.notes["runs"]) == [1, 2]


def test_a_setting_that_the_config_lacks_is_not_pickled(family):
    if family == "legacy":
        setting = "gradient_transformers"
        inner = FAMILIES[family].SGD(1.0, gradient_transformers=[halved])
    else:
        setting = "exclude_from_weight_decay"
        inner = FAMILIES[family].AdamW(0.5, weight_decay=0.5)
        inner.exclude_from_weight_decay(var_names=["bias"])
    optimizer = tf_lso.LossScaleOptimizer(inner)
    with pytest.raises(ValueError, match=f"cannot be copied, .*contain its {setting}"):
        pickle.dumps(optimizer)


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_an_optimizer_that_its_config_cannot_make_is_not_copied(family):
    class WithoutGetConfig(FAMILIES[family].SGD):
        def __init__(self, rate, power, **kwargs):
            super().__init__(rate, **kwargs)

    optimizer = tf_lso.LossScaleOptimizer(WithoutGetConfig(0.5, 2))
    with pytest.raises(ValueError, match=r"WithoutGetConfig cannot.*get_config"):
        copy.deepcopy(optimizer)


def test_a_schedule_whose_class_is_not_registered_is_kept(family):
    class Warmup(KERASES[family].optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 / (1.0 + tf.cast(step, tf.float32))

        def get_config(self):
            return {}

    optimizer, x = wrapped(family, "SGD", Warmup()), tf.Variable(1.0)
    legacy_step(optimizer, lambda: x * 2.0, [x])
    copied = copy.deepcopy(optimizer)
    assert float(copied._decayed_lr(tf.float32)) == 0.25


def test_a_legacy_nadam_is_copied_after_a_traced_step():
    """The step leaves a symbolic tensor in an attribute, which Python cannot copy."""
    optimizer, x = wrapped("legacy", "Nadam"), tf.Variable(1.0)
    tf.function(lambda: legacy_step(optimizer, lambda: x**2, [x]))()
    copied = copy.deepcopy(optimizer)
    assert type(copied.inner_optimizer) is FAMILIES["legacy"].Nadam
    assert weights_of(copied) == weights_of(optimizer)


def test_the_learning_rate_of_an_unpickled_optimizer_can_be_set(family):
    optimizer, x = wrapped(family, "SGD", 0.5), tf.Variable(1.0)
    legacy_step(optimizer, lambda: x * 2.0, [x])
    unpickled = pickle_and_unpickle(optimizer)
    unpickled.learning_rate = 0.25
    legacy_step(unpickled, lambda: x * 2.0, [x])
    assert float(x) == -0.5


def test_a_hyperparameter_of_an_unpickled_legacy_optimizer_can_be_set():
    """After a step the config contains NumPy numbers, which Keras 2 cannot replace."""
    optimizer, x = wrapped("legacy", "SGD", 1.0, momentum=0.25), tf.Variable(0.0)
    optimizer.apply_gradients([(tf.constant(1.0), x)])
    unpickled = pickle_and_unpickle(optimizer)
    unpickled.momentum = 0.5
    for _ in range(2):
        unpickled.apply_gradients([(tf.constant(1.0), x)])
    # The slot of the momentum is -1, then -1.5, then -1.75.
    assert float(x) == -4.25


def test_an_optimizer_that_trains_variables_in_turn_is_copied_with_all_slots():
    """A program may build an optimizer for all variables, and then train some at a time."""
    optimizer = wrapped("new", "Adam")
    x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer.build([x, y])
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]), x)])
    optimizer.apply_gradients([(tf.constant(1.0), y)])
    copied = copy.deepcopy(optimizer)
    assert weights_of(copied) == weights_of(optimizer)
    for each in (optimizer, copied):
        each.apply([tf.constant([8.0, 8.0]), None])
    assert weights_of(copied) == weights_of(optimizer)
