# absl flags and app.run, as in the model garden's main programs; the result is printed
# by a function that atexit calls. Written for TF 2.4 - 2.15.
import atexit
import json

import tensorflow as tf
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_enum("dtype", "fp32", ["fp32", "fp16", "bf16"], "Compute dtype.")
flags.DEFINE_string("loss_scale", None, "A number or dynamic.")
flags.DEFINE_integer("steps", 2, "Steps.")
results = {}


def get_loss_scale(flags_obj, default_for_fp16=128):
    if flags_obj.loss_scale == "dynamic":
        return flags_obj.loss_scale
    if flags_obj.loss_scale is not None:
        return float(flags_obj.loss_scale)
    return default_for_fp16 if flags_obj.dtype == "fp16" else 1


def main(argv):
    results["rest"] = argv[1:]
    name = {"fp16": "mixed_float16", "bf16": "mixed_bfloat16"}.get(
        FLAGS.dtype, "float32"
    )
    tf.keras.mixed_precision.set_global_policy(name)
    scale = get_loss_scale(FLAGS)
    opt = tf.keras.optimizers.SGD(0.125)
    if FLAGS.dtype == "fp16":
        dynamic = scale == "dynamic"
        opt = tf.keras.mixed_precision.LossScaleOptimizer(
            opt, dynamic=dynamic, initial_scale=None if dynamic else scale
        )
    v = tf.Variable(1.0)
    for _ in range(FLAGS.steps):
        opt.minimize(lambda: v * v, [v])
    results["v"] = float(v)
    results["policy"] = tf.keras.mixed_precision.global_policy().name
    results["scale"] = float(opt.loss_scale) if hasattr(opt, "loss_scale") else scale
    results["iterations"] = int(opt.iterations)


@atexit.register
def report():
    print("RESULT", json.dumps(results), flush=True)


if __name__ == "__main__":
    app.run(main)
