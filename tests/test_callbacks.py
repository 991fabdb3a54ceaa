"""Test the callbacks for `fit` with each optimizer family."""

import csv
import logging

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.families import (
    CURRENT,
    FAMILIES,
    KERASES,
    needs_keras3,
    number,
    wrapped,
)
from tests.generation import needs_tf_keras
from tf_lso.scaling.skipped import Skipped

NAN = float("nan")


def compiled_model(family, scale=8.0, **compiling):
    """Return a model with one Dense layer. Its loss is NaN for inputs that are NaN."""
    library = KERASES[family]
    layers = [library.layers.Input([1]), library.layers.Dense(1, name="only")]
    model = library.Sequential(layers)
    model.compile(wrapped(family, "SGD", 0.01, scale=scale), "mse", **compiling)
    return model


def data(*values):
    """Return a data set with a batch of one example for each value. All targets are 1."""
    x = np.array(values, np.float32).reshape(-1, 1)
    return tf.data.Dataset.from_tensor_slices((x, np.ones_like(x))).batch(1)


def logged_scalars(folder):
    """Yield the tag, step and value of each scalar in the event files below a folder."""
    for path in sorted(folder.rglob("*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                yield value.tag, event.step, tf.make_ndarray(value.tensor).item()


def scalars(folder):
    """Return {tag: {step: value}} of the scalars in the event files below a folder."""
    found = {}
    for tag, step, value in logged_scalars(folder):
        found.setdefault(tag, {})[step] = value
    return found


class TestLossScaleMonitor:
    def test_shows_scale_and_skipped_steps_of_each_epoch(
        self, family, tmp_path, capsys
    ):
        table = tmp_path / "log.csv"
        logger = KERASES[family].callbacks.CSVLogger(str(table))
        callbacks = [tf_lso.callbacks.LossScaleMonitor(), logger]
        fitted = compiled_model(family).fit(
            data(1.0, NAN, 1.0), epochs=2, verbose=2, callbacks=callbacks
        )
        assert fitted.history["loss_scale"] == [4.0, 2.0]
        assert fitted.history["skipped_steps"] == [1, 2]
        with table.open() as file:
            rows = list(csv.DictReader(file))
        assert [float(row["loss_scale"]) for row in rows] == [4.0, 2.0]
        progress_bar = capsys.readouterr().out
        assert "loss_scale: 4" in progress_bar
        assert "skipped_steps: 1" in progress_bar

    def test_shows_the_scale_of_each_batch_with_per_batch(self, family):
        library, seen = KERASES[family], []
        after = library.callbacks.LambdaCallback(
            on_batch_end=lambda batch, logs: seen.append(logs["loss_scale"])
        )
        monitor = tf_lso.callbacks.LossScaleMonitor(per_batch=True)
        compiled_model(family).fit(
            data(1, NAN, NAN), verbose=0, callbacks=[monitor, after]
        )
        assert seen == [8.0, 4.0, 2.0]

    @pytest.mark.parametrize("per_batch", [False, True])
    def test_writes_scalars_for_tensorboard(self, family, tmp_path, per_batch):
        monitor = tf_lso.callbacks.LossScaleMonitor(tmp_path, per_batch=per_batch)
        model = compiled_model(family)
        model.fit(data(1.0, NAN), epochs=2, verbose=0, callbacks=[monitor])
        found = scalars(tmp_path)
        if per_batch:
            assert found["loss_scale"] == {1: 8.0, 2: 4.0, 3: 4.0, 4: 2.0}
        else:
            assert found["loss_scale"] == {2: 4.0, 4: 2.0}
        assert found["skipped_steps"][4] == 2

    @pytest.mark.parametrize("is_chief", [True, False])
    def test_only_the_chief_of_several_workers_writes(
        self, family, is_chief, tmp_path, monkeypatch
    ):
        extended = type(tf.distribute.get_strategy().extended)
        monkeypatch.setattr(extended, "should_save_summary", is_chief)
        monitor = tf_lso.callbacks.LossScaleMonitor(tmp_path)
        compiled_model(family).fit(data(1.0), verbose=0, callbacks=[monitor])
        assert bool(scalars(tmp_path)) == is_chief

    def test_can_be_used_for_several_trainings_and_optimizers(self, family):
        monitor, model = tf_lso.callbacks.LossScaleMonitor(), compiled_model(family)
        for scale in (8.0, 64.0):
            model.compile(wrapped(family, "SGD", 0.01, scale=scale), "mse")
            history = model.fit(data(NAN), verbose=0, callbacks=[monitor]).history
            assert history["loss_scale"] == [scale / 2]
            assert history["skipped_steps"] == [1]


@pytest.mark.parametrize("callback", ["LossScaleMonitor", "TerminateOnStuckScale"])
class TestEveryCallback:
    @needs_tf_keras
    def test_does_not_make_keras_2_wait_in_every_batch(self, callback, monkeypatch):
        """Keras 2 reads the values of `logs` for callbacks that do not support tensors."""
        from tf_keras.src.utils import tf_utils

        waits, read = [], tf_utils.sync_to_numpy_or_python_type

        def counted(logs):
            waits.append(logs)
            return read(logs)

        monkeypatch.setattr(tf_utils, "sync_to_numpy_or_python_type", counted)
        made = getattr(tf_lso.callbacks, callback)()
        compiled_model("new").fit(data(*[1.0] * 40), verbose=0, callbacks=[made])
        assert len(waits) < 10

    def test_refuses_an_optimizer_without_a_loss_scale(self, callback):
        model = compiled_model(CURRENT)
        model.compile(FAMILIES[CURRENT].SGD(0.01), "mse")
        made = getattr(tf_lso.callbacks, callback)()
        with pytest.raises(TypeError, match=rf"{callback} needs .*Wrap it"):
            model.fit(data(1.0), verbose=0, callbacks=[made])

    def test_refuses_a_training_that_began_without_it(self, callback):
        callback = getattr(tf_lso.callbacks, callback)()
        callback.on_epoch_begin(0)
        with pytest.raises(RuntimeError, match="added after training began"):
            callback.on_train_batch_end(0, {})
            callback.on_epoch_end(0, {})

    def test_changes_nothing_in_the_training(self, callback):
        weights = []
        for callbacks in ([], [getattr(tf_lso.callbacks, callback)()]):
            KERASES[CURRENT].utils.set_random_seed(1)
            model = compiled_model(CURRENT)
            model.fit(data(1, 2, NAN, 3, 4), epochs=2, verbose=0, callbacks=callbacks)
            weights.append([w.tobytes() for w in model.get_weights()])
        assert weights[0] == weights[1]


class TestTerminateOnStuckScale:
    @pytest.mark.parametrize("steps_per_execution", [1, 4])
    @pytest.mark.parametrize(
        "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
    )
    def test_ends_the_training(self, family, jit_compile, steps_per_execution, caplog):
        # tf_keras compiles a loop of several steps with XLA only for its newer optimizers.
        if family == "legacy" and jit_compile and steps_per_execution > 1:
            steps_per_execution = 1
        model = compiled_model(
            family,
            scale=2.0,
            jit_compile=jit_compile,
            steps_per_execution=steps_per_execution,
        )
        callback = tf_lso.callbacks.TerminateOnStuckScale(patience=6)
        caplog.set_level(logging.WARNING, logger="tensorflow")
        batches = data(*[1.0] * 3, *[NAN] * 40)
        model.fit(batches, epochs=3, verbose=0, callbacks=[callback])
        # There are 3 finite steps and 6 skipped steps. The first skipped step shrinks the
        # scale to 1. With 4 steps per execution, the callback can stop only after step 12.
        last_step = 9 if steps_per_execution == 1 else 12
        assert number(model.optimizer.iterations) == last_step
        (message,) = [text for text in caplog.messages if "run is lost" in text]
        for part in ("only/kernel", "nan", "explain"):
            assert part in message

    def test_raises_an_error_after_the_steps_of_several_epochs(self, family):
        callback = tf_lso.callbacks.TerminateOnStuckScale(4, raise_error=True)
        model = compiled_model(family, scale=1.0)
        with pytest.raises(RuntimeError, match="The last 4 steps were all skipped"):
            model.fit(data(*[NAN] * 3), epochs=3, verbose=0, callbacks=[callback])
        assert int(model.optimizer.skipped_steps) == 4

    def test_does_not_end_a_training_that_recovers(self, family):
        callback = tf_lso.callbacks.TerminateOnStuckScale(3, raise_error=True)
        model = compiled_model(family, scale=1.0)
        model.fit(data(*[NAN, NAN, 1.0] * 4), verbose=0, callbacks=[callback])
        assert int(model.optimizer.skipped_steps) == 8

    def test_counts_steps_that_were_skipped_before(self, family):
        model = compiled_model(family, scale=1.0)
        callback = tf_lso.callbacks.TerminateOnStuckScale(4)
        for callbacks in ([], [callback]):
            model.fit(data(*[NAN] * 3), verbose=0, callbacks=callbacks)
        assert int(model.optimizer.skipped_steps) == 4

    @needs_keras3
    def test_reads_the_optimizer_only_once_per_patience(self, monkeypatch):
        model, reads = compiled_model("keras3"), []
        read = Skipped.stuck

        def counted(self):
            reads.append(tf.executing_eagerly())
            return read(self)

        monkeypatch.setattr(Skipped, "stuck", counted)
        callback = tf_lso.callbacks.TerminateOnStuckScale(10)
        model.fit(data(*[1.0] * 40), verbose=0, callbacks=[callback])
        assert sum(reads) == 5  # at the beginning, then at each tenth batch

    @pytest.mark.parametrize("patience", [0, 1.5, "3", True])
    def test_refuses_a_wrong_patience(self, patience):
        with pytest.raises((TypeError, ValueError), match="'patience' must be"):
            tf_lso.callbacks.TerminateOnStuckScale(patience)
