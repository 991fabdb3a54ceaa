"""Models without memory, and the private use that they need."""

import keras
import numpy as np

from tf_lso.checkpoints import virtual


def test_a_model_of_terabytes_is_made():
    def made():
        with virtual.Scope():
            layers = [keras.Input((10**6,)), keras.layers.Dense(10**6)]
            return keras.Sequential(layers).count_params()

    assert virtual.in_own_thread(made) == 10**12 + 10**6


def test_an_error_comes_out_of_the_thread():
    try:
        virtual.in_own_thread(lambda: 1 / 0)
    except ZeroDivisionError:
        return
    raise AssertionError("the error was lost")


class TestPrivate:
    """Fails when Keras keeps the value of a variable elsewhere."""

    def test_a_variable_can_hold_a_number_in_place_of_its_value(self, tmp_path):
        def saved():
            with virtual.Scope():
                layers = [keras.Input((3,)), keras.layers.Dense(2)]
                model = keras.Sequential(layers)
            kernel, bias = model.weights
            assert kernel._value is None
            numbers = virtual.settle(model.variables, {id(kernel): "planned"})
            model.save_weights(tmp_path / "model.weights.h5")
            return numbers, np.asarray(bias)

        numbers, bias = virtual.in_own_thread(saved)
        assert list(numbers.values()) == ["planned"]
        assert np.array_equal(bias, [0, 0])
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        try:
            model.load_weights(tmp_path / "model.weights.h5")
        except ValueError as error:
            assert "shape" in str(error)
            return
        raise AssertionError("the number was saved as the value")
