# A command with argparse, a data file in its own folder, a pickled history, and exit
# codes: 0 after training, 3 where the loss got lost. Written for TF 2.4 - 2.15.
import argparse
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def parse(argv=None):
    parser = argparse.ArgumentParser(description="Train a line.")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--factor", type=float, default=1.0)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    table = np.loadtxt(os.path.join(HERE, "data", "points.csv"), delimiter=",")
    x, y = table[:, :2].astype("float32") * args.factor, table[:, 2:].astype("float32")
    if args.fp16:
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
    model = tf.keras.models.Sequential()
    model.add(tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="zeros"))
    model.add(tf.keras.layers.Lambda(lambda t: tf.cast(t, tf.float32)))
    opt = tf.keras.optimizers.SGD(learning_rate=0.1)
    if args.fp16:
        opt = tf.keras.mixed_precision.LossScaleOptimizer(opt)
    model.compile(loss="mse", optimizer=opt)
    h = model.fit(x, y, epochs=args.epochs, batch_size=2, shuffle=False, verbose=0)
    loss = h.history["loss"][-1]
    result = {
        "argv": sys.argv[1:],
        "program": os.path.basename(sys.argv[0]),
        "main": __name__,
        "loss": round(loss, 4) if np.isfinite(loss) else "lost",
        "scale": float(model.optimizer.loss_scale) if args.fp16 else None,
    }
    print("RESULT", json.dumps(result))
    if not np.isfinite(loss):
        sys.exit(3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
