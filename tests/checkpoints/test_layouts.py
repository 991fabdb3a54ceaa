"""In some files, the name of a variable shows which slot it is."""

import pytest

from tf_lso.checkpoints import layouts


@pytest.mark.parametrize(
    ("name", "class_name", "slot"),
    [
        ("dense/kernel/momentum:0", "SGD", "momentum"),  # OptimizerV2
        ("SGD/m/dense/kernel:0", "SGD", "momentum"),  # newer optimizers of Keras 2
        ("m/dense/kernel:0", "SGD", "momentum"),
        ("Adam/m/dense/kernel:0", "Adam", "m"),
        ("Adam/dense/kernel:0", "Adam", None),
    ],
)
def test_slot_of_finds_the_slot_in_a_name_of_keras_2(name, class_name, slot):
    assert layouts.slot_of(name, class_name) == slot


@pytest.mark.parametrize(
    ("name", "attributes", "attribute"),
    [
        ("adamax/dense_kernel_norm", ["_m", "_u"], "_u"),
        ("adamax/dense_kernel_momentum", ["_m", "_u"], "_m"),
        ("adam/dense_kernel_velocity", ["_momentums", "_velocities"], "_velocities"),
        ("adam/dense_kernel", ["_momentums", "_velocities"], None),
    ],
)
def test_list_of_finds_the_list_of_slots_in_a_name_of_keras_3(
    name, attributes, attribute
):
    assert layouts.list_of(name, attributes) == attribute
