# The training runs in a process of its own, to give its memory back, as scripts did that
# search over loss scales. Written for TF 2.4 - 2.8.
import json
import multiprocessing


def train(scale, queue):
    import tensorflow as tf
    from tensorflow.keras.mixed_precision import experimental as mp

    opt = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.5), loss_scale=scale)
    v = tf.Variable(1.0)
    opt.minimize(lambda: v * v, [v])
    queue.put([float(opt.loss_scale), float(v)])


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    found = []
    for scale in (64, "dynamic"):
        queue = context.Queue()
        process = context.Process(target=train, args=(scale, queue))
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode
        found.append(queue.get(timeout=5))
    print("RESULT", json.dumps({"found_scales": found}))
