"""The private names of Keras 3 do what keras3_private.py needs, or are refused."""

import keras
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded
from tests.families import OLD_KERAS3, numpy, raw
from tests.programs_in_processes import run
from tf_lso import keras3_private, keras_versions

pytestmark = pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 has other names")


@pytest.fixture
def variable():
    return keras.Variable(1.0, name="x")


@pytest.fixture
def optimizer(variable):
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([variable])
    return optimizer


# --- What keras3_private.py relies on.


def test_iterations(optimizer, variable):
    counter = optimizer._iterations
    assert isinstance(raw(counter), tf.Variable)
    optimizer.apply([tf.constant(1.0)])
    assert numpy(counter) == 1


def test_steps_are_counted_by_a_method_of_the_variable(optimizer, variable):
    calls = []
    counter = keras3_private.iteration_variable(optimizer)
    counter.__dict__["assign_add"] = counter.__dict__["assign"] = calls.append
    optimizer.apply([tf.constant(1.0)])
    assert [int(value) for value in calls] == [1]


def test_learning_rate(optimizer, variable):
    assert any(optimizer._learning_rate is own for own in optimizer.variables)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    assert keras.optimizers.SGD(schedule)._learning_rate is schedule


def test_trainable_variables(optimizer, variable):
    assert [v is variable for v in optimizer._trainable_variables] == [True]
    nothing = keras.optimizers.SGD()
    nothing.build([])
    assert nothing.built and nothing._trainable_variables == []


def test_keys_of_variables(optimizer, variable):
    known, key = keras3_private.known_variables(optimizer)
    assert known == {key(variable): 0}
    assert key(keras.Variable(1.0)) not in known


def test_variables(optimizer, variable):
    own = keras.optimizers.LossScaleOptimizer(optimizer)._variables
    assert all(isinstance(one, keras_versions.variable_of_keras3()) for one in own)


def test_distribution_strategy(optimizer, variable):
    assert optimizer._distribution_strategy is tf.distribute.get_strategy()
    optimizer.__dict__["_distribution_strategy"] = None
    with pytest.raises(AttributeError, match="NoneType"):  # it is asked at each step
        optimizer.apply([tf.constant(1.0)])


def test_sum_over_replicas(optimizer, variable):
    calls = []

    def record(grads_and_vars):
        calls.append(len(list(grads_and_vars)))
        return grads_and_vars

    optimizer.__dict__["_all_reduce_sum_gradients"] = record
    optimizer.apply([tf.constant(1.0)])
    assert calls == [1]


# --- A Keras that has moved one.


# Takes a name away from the class of optimizers, before tf_lso is used.
RENAMED = """
    import keras, tf_lso

    for cls in keras.optimizers.Optimizer.__mro__:
        if {name!r} in vars(cls):
            cls.renamed = vars(cls)[{name!r}]
            delattr(cls, {name!r})
    inner = keras.optimizers.SGD(0.5)
    try:
        tf_lso.LossScaleOptimizer(inner)
    except ImportError as error:
        print(error)
"""


def _says(message, name):
    parts = (f"keras {keras.__version__}", name, "keras3_private.py", "Install")
    return all(part in message for part in parts)


@pytest.mark.parametrize("name", keras3_private._OF_CLASS)
def test_a_class_without_a_name_is_refused_at_import(name):
    """Without `_all_reduce_sum_gradients` two replicas would sum twice, in silence."""
    (message,) = run(RENAMED.format(name=name), by=preloaded.run)
    assert _says(message, name)


@pytest.mark.parametrize("name", keras3_private._OF_INSTANCE)
def test_an_optimizer_without_a_name_is_refused(name):
    inner = keras.optimizers.SGD(0.5)
    inner.__dict__["renamed"] = inner.__dict__.pop(name)
    with pytest.raises(ImportError) as caught:
        keras3_private.check_instance(inner)
    assert _says(str(caught.value), name)


def test_a_wrapped_optimizer_is_checked():
    inner = keras.optimizers.SGD(0.5)
    del inner.__dict__["_distribution_strategy"]
    with pytest.raises(ImportError, match="_distribution_strategy"):
        tf_lso.LossScaleOptimizer(inner)


def test_an_older_keras_needs_no_newer_name(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.1.1")
    monkeypatch.setattr(keras3_private, "_OF_CLASS", {"_of_later": (3, 2)})
    keras3_private.check_class()
    monkeypatch.setattr(keras, "__version__", "3.10.0")
    with pytest.raises(
        ImportError, match=r"keras 3\.10\.0 has no Optimizer\._of_later"
    ):
        keras3_private.check_class()
