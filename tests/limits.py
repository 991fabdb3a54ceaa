"""What a supported Keras itself cannot do, so that a test fails there; an exact list.

Such a test is expected to fail, strictly and with the reason, beside that Keras only.
noxfile.py counts it as a limit. `test_limits.py` runs `bare`, a program without tf_lso:
it fails beside that Keras, and beside no other of its generation.
"""

from typing import NamedTuple

from tests.generation import KERAS


class Limit(NamedTuple):
    """One limit.

    Attributes:
      keras: minor versions of the package `keras`, of those that noxfile.py has.
      tests: the tests that fail by it, as pytest names them.
      reason: what that Keras cannot do, as the table of supported versions has it.
      bare: a program that shows it without tf_lso.
      raises: what that program ends with, a part of it.
    """

    keras: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str
    bare: str
    raises: str


_AS_THEY_ARE = (
    "tests/old_programs/test_programs.py::test_on_the_keras_of_tensorflow[{}]"
)
_MIGRATED = (
    "tests/migrate/test_programs.py::test_a_migrated_program_prints_what_it_printed[{}]"
)

LIMITS = (
    Limit(
        ("2.12", "2.13", "2.14", "2.15"),
        ("tests/golden/test_configs.py::test_of_an_optimizer[json_serializable-new]",),
        "`get_config` of newer optimizers of this Keras has numbers that JSON has not",
        """
import json
import tensorflow as tf

json.dumps(tf.keras.optimizers.SGD(0.1).get_config())
""",
        "TypeError: Object of type float32 is not JSON serializable",
    ),
    Limit(
        ("2.12",),
        ("tests/golden/test_training.py::test_equals_every_version[policies-new]",),
        "this Keras writes a policy without `module` and `registered_name`",
        """
import tensorflow as tf

policy = tf.keras.mixed_precision.Policy("mixed_float16")
config = tf.keras.layers.Dense(1, dtype=policy).get_config()
assert "registered_name" in config["dtype"], config["dtype"]
""",
        "AssertionError: {'class_name': 'Policy'",
    ),
    Limit(
        ("2.12",),
        (
            "tests/golden/test_loss_scales.py::test_real_classes[update:slices_no_shape]",
        ),
        "the own `LossScale.update` of this TensorFlow refuses slices without a shape",
        """
import tensorflow as tf

slices = tf.IndexedSlices(tf.constant([1.0, 2.0]), tf.constant([0, 2]))
tf.compat.v1.mixed_precision.DynamicLossScale(8.0).update([slices])
""",
        "ValueError: Tensor conversion requested for IndexedSlices",
    ),
    Limit(
        ("2.12", "2.13", "2.14"),
        tuple(
            "tests/patches/test_loading.py::"
            f"test_keras_models_of_keras2_load_and_train[keras2-{custom}-False-legacy]"
            for custom in (None, "experimental")
        ),
        "this Keras does not load a .keras file with a legacy optimizer of its own",
        """
import tempfile
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
model.compile(tf.keras.optimizers.legacy.SGD(), "mse")
path = tempfile.mkdtemp() + "/m.keras"
model.save(path, save_format="keras_v3")
tf.keras.models.load_model(path)
""",
        "AttributeError: 'SGD' object has no attribute 'build'",
    ),
    Limit(
        ("2.12", "2.13"),
        (
            "tests/debugging/test_planted.py::test_the_planted_trouble_is_named"
            "[keras2-inner_layer_of_multi_head_attention]",
        ),
        "the layers in a `MultiHeadAttention` of this Keras do not have its policy",
        """
import tensorflow as tf

layer = tf.keras.layers.MultiHeadAttention(2, 2, dtype="mixed_float16")
layer(tf.zeros((1, 3, 2)), tf.zeros((1, 3, 2)))
assert layer._query_dense.compute_dtype == "float16", layer._query_dense.compute_dtype
""",
        "AssertionError: float32",
    ),
    Limit(
        ("2.12",),
        (_AS_THEY_ARE.format("config_roundtrip"), _MIGRATED.format("config_roundtrip")),
        "this Keras writes the class of a newer optimizer as `Custom>Adam`",
        """
import tensorflow as tf

wrapper = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam())
name = wrapper.get_config()["inner_optimizer"]["class_name"]
assert name == "Adam", name
""",
        "AssertionError: Custom>Adam",
    ),
    Limit(
        ("2.12",),
        (_AS_THEY_ARE.format("standalone_keras"), _MIGRATED.format("standalone_keras")),
        "the package `keras` of this version has wrappers of legacy optimizers alone",
        """
import keras

optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
assert isinstance(optimizer, keras.optimizers.Optimizer), type(optimizer).__mro__
""",
        "AssertionError: (<class 'keras.mixed_precision",
    ),
    Limit(
        ("3.0",),
        (
            _MIGRATED.format("wild_01_ctl_scaled_loss_clip"),
            _MIGRATED.format("wild_02_exp_set_policy_fit"),
        ),
        "`int()` takes no variable of this Keras",
        "import keras\nassert int(keras.Variable(1)) == 1\n",
        "TypeError: int() argument must be",
    ),
    Limit(
        ("3.0", "3.6"),
        (_MIGRATED.format("wild_10_lr_callbacks"),),
        "`ModelCheckpoint` of this Keras writes no .h5 file",
        "import keras\nkeras.callbacks.ModelCheckpoint('m.h5')\n",
        "must end in `.keras`",
    ),
    Limit(
        ("3.0", "3.6"),
        tuple(
            "tests/state/test_checkpoint_kinds.py::"
            f"test_restores_into[Keras's wrapper-tf_lso-nadam-{built}]"
            for built in ("then built", "built")
        ),
        "its own wrapper makes Nadam number its variables otherwise in files",
        """
import keras
import tensorflow as tf

variable = tf.Variable([1.0, 2.0])
bare, wrapped = keras.optimizers.Nadam(), keras.optimizers.Nadam()
bare.build([variable])
keras.optimizers.LossScaleOptimizer(wrapped).build([variable])
shapes = [[v.shape for v in nadam.variables[:4]] for nadam in (bare, wrapped)]
assert shapes[0] == shapes[1], shapes
""",
        "AssertionError: [[TensorShape([]), ",
    ),
    Limit(
        ("3.0", "3.6"),
        (
            _AS_THEY_ARE.format("wild_08_mirrored_strategy fit"),
            _MIGRATED.format("wild_08_mirrored_strategy fit"),
        ),
        "`fit` of this Keras does not divide the loss by the replicas",
        """
import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)

class OfOneReplica(keras.optimizers.SGD):
    def apply_gradients(self, pairs, **kwargs):
        pairs = list(pairs)
        # The slope of w**2 in 1 is 2, of which each replica has a half.
        tf.debugging.assert_near(tf.reduce_mean(pairs[0][0]), 1.0)
        return super().apply_gradients(pairs, **kwargs)

with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    model = keras.Sequential([dense])
    model.compile(OfOneReplica(0.1), "mse")
model.fit(tf.ones((2, 1)), tf.zeros((2, 1)), batch_size=2, verbose=0)
""",
        "InvalidArgumentError",
    ),
)


def here(test):
    """The limit by which a test, as pytest names it, fails here; or None."""
    for limit in LIMITS:
        if KERAS in limit.keras and test in limit.tests:
            return limit
    return None
