"""Copies and pickles of an optimizer whose slots or replicas make them special.

That each goes on as the original does: `tests/state/test_resume.py`.
"""

import copy
import itertools
import pickle
import threading

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
    wrapped,
)
from tf_lso.keras.mixed_precision import experimental


def _state(optimizer):
    return [weight.tolist() for weight in optimizer.get_weights()]


def pickled(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


by_each_way = pytest.mark.parametrize("copied", [copy.deepcopy, pickled])


@by_each_way
@pytest.mark.parametrize(
    "loss_scale", [64, tf_lso.DynamicLossScale(8.0, 3, 4.0)], ids=["fixed", "dynamic"]
)
def test_a_copy_has_the_name_and_an_equal_loss_scale_of_its_own(
    family, loss_scale, copied
):
    inner = FAMILIES[family].SGD(0.1)
    optimizer = experimental.LossScaleOptimizer(inner, loss_scale, name="mine")
    optimizer.learning_rate = 0.25
    again = copied(optimizer)
    assert (again.name, number(again.learning_rate)) == ("mine", 0.25)
    assert again.loss_scale is not optimizer.loss_scale
    assert type(again.loss_scale) is type(optimizer.loss_scale)
    assert again.loss_scale.get_config() == optimizer.loss_scale.get_config()


def test_a_pickle_of_other_variables_is_an_error_when_it_is_built(family):
    optimizer, x = wrapped(family, "Adam"), tf.Variable(1.0)
    legacy_step(optimizer, lambda: x * 2.0, [x])
    again = pickled(optimizer)
    with pytest.raises(ValueError, match="shape"):
        again.build([tf.Variable([1.0, 2.0])])


def _trained_in_steps(names=("base", "head")):
    """An optimizer of two networks, and their variables, of one shape."""
    optimizer = wrapped("legacy", "Adam")
    variables = [tf.Variable([1.0], name=name) for name in names]
    for times, variable in enumerate(variables, 1):
        legacy_step(optimizer, lambda n=times, v=variable: n * v**2, [variable])
    return optimizer, variables


def _slots(optimizer, variables):
    slots = itertools.product(variables, "mv")
    return [optimizer.get_slot(*slot).numpy().tolist() for slot in slots]


def test_a_pickle_of_slots_made_in_several_steps_is_built_by_names(tmp_path):
    optimizer, (base, head) = _trained_in_steps()
    again = pickled(optimizer)
    start = [v.numpy().tolist() for v in (base, head)]
    for wrong in ([base], [head, base]):  # the second also where it is built already
        with pytest.raises(ValueError, match=r"\['base:0', 'head:0'\].*in this order"):
            again.build(wrong)
        with pytest.raises(ValueError, match="in this order"):
            legacy_step(again, lambda wrong=wrong: wrong[0] * 2.0, wrong)
    assert [v.numpy().tolist() for v in (base, head)] == start
    path = tf.train.Checkpoint(optimizer=pickled(optimizer)).save(tmp_path / "c")
    restored = wrapped("legacy", "Adam")
    tf.train.Checkpoint(optimizer=restored).restore(path)
    with pytest.raises(ValueError, match="in this order"):
        restored.build([head, base])
    for one in (again, restored):
        one.build([base, head])
        assert _slots(one, [base, head]) == _slots(optimizer, [base, head])


def test_variables_of_one_name_are_built_at_once_before_a_pickle():
    optimizer, variables = _trained_in_steps(names=[None] * 2)
    copied = copy.deepcopy(optimizer)
    assert _state(copied) == _state(optimizer)
    for one in (optimizer, copied):
        with pytest.raises(ValueError, match=r"some have the same name.*build"):
            pickle.dumps(one)
    optimizer.build(variables)
    again = pickled(optimizer)
    again.build(variables)
    assert _slots(again, variables) == _slots(optimizer, variables)


def _states_on_replicas(strategy, optimizer, x, factors, traced=True):
    """All state after each step with such a factor, which must be equal on replicas."""
    x.assign([1.0])

    def on_replica(factor):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        factor *= tf.cast(replica, tf.float32) * 4.0 - 1.0
        legacy_step(optimizer, lambda: factor * x, [x])

    run, states = tf.function(strategy.run) if traced else strategy.run, []
    for factor in factors:
        run(on_replica, (tf.constant(factor),))
        every = (*optimizer.weights, x, optimizer.dynamic_counter)
        state = [copies(v) for v in every]
        assert all(len(set(map(str, values))) == 1 for values in state)
        states.append([*(values[0] for values in state), float(optimizer.loss_scale)])
    return states


@pytest.fixture
def on_replicas(family, mirrored2):
    """An optimizer that grows its scale each two steps, and x, under the strategy."""
    with mirrored2.scope():
        return wrapped(family, "Adam", scale=8.0, growth=2), tf.Variable([1.0])


def test_a_copy_made_outside_the_scope_is_of_the_strategy(on_replicas, mirrored2):
    def states(optimizer, **arguments):
        return _states_on_replicas(mirrored2, optimizer, x, [1.0], **arguments)

    optimizer, x = on_replicas
    unbuilt = copy.deepcopy(optimizer)
    assert states(optimizer) == states(unbuilt)
    assert all(len(copies(v)) == 2 for v in (*unbuilt.weights, unbuilt.dynamic_counter))
    copied = copy.deepcopy(optimizer)
    assert states(optimizer, traced=False) == states(copied, traced=False)


def test_a_copy_made_outside_a_strategy_of_one_device_has_the_slots(family):
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        optimizer, x = wrapped(family, "Adam"), tf.Variable([1.0])
    strategy.run(lambda: legacy_step(optimizer, lambda: 2.0 * x, [x]))
    assert _state(copy.deepcopy(optimizer)) == _state(optimizer)


@pytest.mark.parametrize("built, traced", [(True, True), (False, False)])
def test_a_pickle_opened_outside_the_scope_goes_on_as_inside(
    on_replicas, built, traced, mirrored2
):
    """It does not know the model: its counter and scale are one variable for all replicas.

    They are updated once for all, so only the slots have to be of the strategy.
    """
    optimizer, x = on_replicas
    if built:
        with mirrored2.scope():
            optimizer.build([x])
    text = pickle.dumps(optimizer)
    outside = pickle.loads(text)
    with mirrored2.scope():
        inside = pickle.loads(text)
    factors = (2.0, 1.0, float("inf"), 1.0)
    expected = _states_on_replicas(mirrored2, inside, x, factors, traced)
    assert [state[-1] for state in expected] == [8, 16, 8, 8]
    assert _states_on_replicas(mirrored2, outside, x, factors, traced) == expected


# --- What a config does not hold.


def halved(grads_and_vars):
    return [(gradient / 2.0, variable) for gradient, variable in grads_and_vars]


def warmup(family):
    """A learning rate schedule of a class that no config knows."""

    class Warmup(KERASES[family].optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 / (1.0 + tf.cast(step, tf.float32))

        def get_config(self):
            return {}

    return Warmup()


def named(family, name):
    """A variable of the family's own kind, which has a name."""
    return (KERASES[family] if family == "keras3" else tf).Variable(1.0, name=name)


@by_each_way
@pytest.mark.parametrize("is_built", [False, True])
def test_attributes_that_a_program_has_set_are_kept(family, copied, is_built):
    optimizer = wrapped(family, "SGD", 0.5)
    optimizer.inner_optimizer.notes = {"runs": [1, 2], "transform": halved}
    if is_built:
        optimizer.build([tf.Variable(1.0)])
    again = copied(optimizer).inner_optimizer
    assert list(again.notes["runs"]) == [1, 2]
    assert again.notes["transform"] is halved
    again.notes["runs"].append(3)
    assert list(optimizer.inner_optimizer.notes["runs"]) == [1, 2]


@by_each_way
def test_gradient_transformers_and_the_aggregator_are_kept(copied):
    inner = FAMILIES["legacy"].SGD(1.0, gradient_transformers=[halved])
    inner.gradient_aggregator = halved
    again = copied(tf_lso.LossScaleOptimizer(inner))
    x = tf.Variable(0.0)
    again.apply_gradients([(tf.constant(8.0), x)])
    assert float(x) == -2.0


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam"])
def test_a_schedule_is_kept(family, name):
    optimizer, x = wrapped(family, name, warmup(family)), tf.Variable(1.0)
    legacy_step(optimizer, lambda: x * 2.0, [x])
    again = copy.deepcopy(optimizer)
    results = []
    for one in (optimizer, again):
        x.assign(1.0)
        legacy_step(one, lambda: x * 2.0, [x])
        results.append(float(x))
    assert results[0] == results[1]
    assert float(again._decayed_lr(tf.float32)) == pytest.approx(0.5 / 3)


@by_each_way
@pytest.mark.parametrize("family", here("keras3", "new"))
def test_what_is_excluded_from_weight_decay_is_kept(family, copied):
    bias, kernel = named(family, "bias"), named(family, "kernel")
    optimizer = wrapped(family, "AdamW", 0.5, weight_decay=0.5)
    optimizer.inner_optimizer.exclude_from_weight_decay(var_names=["bias"])
    again = copied(optimizer)
    again.build([bias, kernel])
    zero = tf.constant(0.0)
    again.apply_gradients([(zero, bias), (zero, kernel)])
    assert (number(bias), number(kernel)) == (1.0, 0.75)


@pytest.mark.parametrize("family", here("keras3", "new"))
def test_excluded_variables_are_copied_but_not_pickled(family):
    bias, kernel = named(family, "a"), named(family, "b")
    optimizer = wrapped(family, "AdamW", 0.5, weight_decay=0.5)
    optimizer.inner_optimizer.exclude_from_weight_decay(var_list=[bias])
    optimizer.build([bias, kernel])
    again, zero = copy.deepcopy(optimizer), tf.constant(0.0)
    again.apply_gradients([(zero, bias), (zero, kernel)])
    assert (number(bias), number(kernel)) == (1.0, 0.75)
    with pytest.raises(ValueError, match=r"AdamW cannot be pickled.*var_names="):
        pickle.dumps(optimizer)


def test_a_class_without_a_whole_config_is_copied_as_the_bare_one_or_refused(family):
    class Own(FAMILIES[family].SGD):
        def __init__(self, rate, power, **kwargs):
            super().__init__(rate, **kwargs)
            self.power = power

    optimizer = tf_lso.LossScaleOptimizer(Own(0.5, 2))
    if family == "legacy":
        assert copy.deepcopy(optimizer).inner_optimizer.power == 2
        return
    with pytest.raises(ValueError, match=r"Own cannot be copied.*get_config"):
        copy.deepcopy(optimizer)


class Scaling(tf_lso.DynamicLossScale):
    """A loss scale with an attribute that its config does not hold."""

    note = None


class Noting(tf_lso.LossScaleOptimizer):
    """A class of optimizers with an attribute of its own."""

    def __init__(self, optimizer, note=None, **kwargs):
        super().__init__(optimizer, **kwargs)
        self.note = note


@by_each_way
def test_attributes_of_the_wrapper_and_of_the_scale_are_kept(family, copied):
    again = copied(Noting(FAMILIES[family].SGD(0.5), note=[1], initial_scale=4.0))
    assert (type(again).__name__, again.note) == ("Noting", [1])
    scale = Scaling(8.0)
    scale.note = {"since": 2020}
    again = copied(experimental.LossScaleOptimizer(FAMILIES[family].SGD(0.5), scale))
    assert again.loss_scale.note == {"since": 2020}
    assert again.loss_scale is not scale


@by_each_way
def test_state_that_a_program_counts_itself_is_kept(family, copied):
    optimizer, x = wrapped(family, "SGD", 1.0), tf.Variable(0.0)
    inner = optimizer.inner_optimizer
    inner.average, inner.total = tf.Variable(3.0), tf.constant(2.0)
    legacy_step(optimizer, lambda: x * 2.0, [x])
    again = copied(optimizer).inner_optimizer
    assert (float(again.average), float(again.total)) == (3.0, 2.0)
    inner.average.assign(4.0)
    assert float(again.average) == 3.0


def test_a_closure_and_a_function_as_a_learning_rate_are_kept():
    rate = [0.25]
    inner = FAMILIES["legacy"].SGD(lambda: rate[0])
    inner.transform = lambda gradient: gradient * rate[0]
    again = copy.deepcopy(tf_lso.LossScaleOptimizer(inner))
    rate[0] = 1.0
    x = tf.Variable(0.0)
    again.apply_gradients([(tf.constant(2.0), x)])
    assert float(x) == -2.0
    assert again.inner_optimizer.transform(3.0) == 3.0


@pytest.mark.parametrize("value", [lambda: 1, threading.Lock()], ids=["lambda", "lock"])
def test_what_cannot_be_pickled_is_named(family, value):
    optimizer = wrapped(family)
    optimizer.inner_optimizer.extra = value
    with pytest.raises(
        ValueError, match="cannot be pickled, since its attribute 'extra'"
    ):
        pickle.dumps(optimizer)


def test_the_learning_rate_of_an_unpickled_optimizer_can_be_set(family):
    optimizer, x = wrapped(family, "SGD", 0.5), tf.Variable(1.0)
    legacy_step(optimizer, lambda: x * 2.0, [x])
    again = pickled(optimizer)
    again.learning_rate = 0.25
    legacy_step(again, lambda: x * 2.0, [x])
    assert float(x) == -0.5


def test_a_copy_takes_no_step(family):
    x, steps = tf.Variable(tf.ones([2, 2])), []

    class Own(FAMILIES[family].SGD):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            steps.append(1)
            return super().apply_gradients(grads_and_vars, *args, **kwargs)

    optimizer = tf_lso.LossScaleOptimizer(Own(0.5))
    optimizer.apply_gradients([(tf.ones([2, 2]), x)])
    copy.deepcopy(optimizer)
    assert len(steps) == 1


@pytest.mark.parametrize("family", here("new"))
def test_an_optimizer_that_is_stepped_in_parts_is_copied_whole(family):
    """As the refusal of unknown variables advises: build for all, then step parts."""
    optimizer = wrapped(family, "Adam")
    x, y = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    optimizer.build([x, y])
    optimizer.apply_gradients([(tf.constant([1.0, 1.0]), x)])
    optimizer.apply_gradients([(tf.constant(1.0), y)])
    again = copy.deepcopy(optimizer)
    assert _state(again) == _state(optimizer)
    for one in (optimizer, again):
        one.apply([tf.constant([8.0, 8.0]), None])
    assert _state(again) == _state(optimizer)
