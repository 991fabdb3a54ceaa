"""`--like` restores names of an earlier Keras 2.

The programs in tests/old_programs/like test what these names compute, and test_like.py for
which versions they are.
"""

import pickle

import numpy as np
import pytest
import tensorflow as tf

from tests import preloaded, processes
from tests.families import keras2
from tests.generation import LEGACY_KERAS
from tf_lso.install import earlier_keras2
from tf_lso.install.ledger import Ledger


def test_every_version_of_keras_2_is_in_the_table():
    assert earlier_keras2.KERAS_VERSIONS.keys() == {(2, minor) for minor in range(16)}


def test_the_version_is_that_of_the_earlier_keras_in_each_module_of_keras():
    program = """
        import tf_lso
        tf_lso.install(like="2.4")
        import tensorflow as tf
        from tensorflow.keras import __version__
        print(tf.keras.__version__, __version__, tf.compat.v1.keras.__version__)
    """
    (versions,) = processes.run(
        program, by=preloaded.run, TF_USE_LEGACY_KERAS=LEGACY_KERAS
    )
    assert versions == "2.4.0 2.4.0 2.4.0"


# --- Each change by itself, in this process.


@pytest.fixture
def ledger():
    ledger = Ledger()
    yield ledger
    ledger.undo()


def test_predict_classes_compares_one_output_with_a_half_and_several_with_each_other(
    ledger,
):
    class Model(keras2.Sequential):
        def predict(self, x, batch_size, verbose):
            return np.float32(x)

    earlier_keras2.predict_classes(keras2, ledger)
    model = Model()
    assert model.predict_classes([[0.5], [0.75]]).tolist() == [[0], [1]]
    assert model.predict_classes([[0.25, 0.5, 0.0]]).tolist() == [1]
    assert model.predict_proba([[0.5]]).tolist() == [[0.5]]


def test_layers_apply_and_accept_the_inputs_of_an_update(ledger):
    earlier_keras2.add_layer_methods(keras2, ledger)
    layer = keras2.layers.Dropout(0.5)
    assert layer.apply(tf.ones(2), training=False).numpy().tolist() == [1, 1]
    called = []
    layer.add_update(lambda: called.append("update"), tf.ones(2))
    assert called == ["update"]


def test_the_values_of_the_first_replica_are_logged_unless_the_program_chooses(ledger):
    earlier_keras2.log_first_replica(keras2, ledger)
    model = keras2.Sequential()
    assert model.distribute_reduction_method == "first"
    model.distribute_reduction_method = "sum"
    assert model.distribute_reduction_method == "sum"


def test_an_old_schedule_is_found_by_its_name_in_a_config_and_in_a_pickle(ledger):
    earlier_keras2.add_schedules(keras2, ledger)
    schedules = keras2.optimizers.schedules
    schedule = keras2.experimental.LinearCosineDecay(0.5, 4)
    assert isinstance(schedule, schedules.LearningRateSchedule)
    loaded = schedules.deserialize(schedules.serialize(schedule))
    in_old_format = {"class_name": "LinearCosineDecay", "config": schedule.get_config()}
    old = schedules.deserialize(in_old_format, use_legacy_format=True)
    for copy in (loaded, old, pickle.loads(pickle.dumps(schedule))):
        assert float(copy(2)) == float(schedule(2)) != 0.5


def test_programs_may_set_the_removed_options_of_a_dataset(ledger):
    earlier_keras2.ignore_dataset_options(keras2, ledger)
    options = tf.data.Options()
    options.experimental_optimization.map_vectorization.enabled = True
    options.experimental_optimization.autotune_buffers = True
    vectorization = tf.data.experimental.MapVectorizationOptions()
    options.experimental_optimization.map_vectorization = vectorization
    assert list(tf.data.Dataset.range(2).with_options(options)) == [0, 1]
