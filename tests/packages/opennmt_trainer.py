"""Train a language model by the Trainer of OpenNMT-tf, with accumulated gradients."""

import os
import tempfile
import warnings

import numpy as np
import tensorflow as tf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Addons, which OpenNMT-tf imports
    import opennmt

tf.keras.utils.set_random_seed(1)
tf.keras.mixed_precision.set_global_policy("mixed_float16")
folder = tempfile.mkdtemp()
vocabulary, data = os.path.join(folder, "vocabulary"), os.path.join(folder, "data")
with open(vocabulary, "w") as file:
    file.write("\n".join(["<blank>", "<s>", "</s>", *"abcdefgh"]) + "\n")
with open(data, "w") as file:
    file.write("a b c d e f g h\n" * 64)

decoder = opennmt.decoders.SelfAttentionDecoder(
    2, num_units=16, num_heads=2, ffn_inner_dim=32, dropout=0, attention_dropout=0
)
model = opennmt.models.LanguageModel(decoder, embedding_size=16)
params = {"optimizer": "Adam", "learning_rate": 0.01}
model.initialize({"vocabulary": vocabulary}, params)
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
    model.get_optimizer(), initial_scale=2.0**20, dynamic_growth_steps=4
)
model.create_variables()
dataset = model.examples_inputter.make_training_dataset(
    data, None, batch_size=4, length_bucket_width=None
).repeat()
scales = []


class Trainer(opennmt.training.Trainer):
    def _steps(self, dataset, accum_steps=1):
        for loss in super()._steps(dataset, accum_steps=accum_steps):
            scales.append(float(self._optimizer.loss_scale))
            yield loss


summary = Trainer(model, optimizer)(
    dataset,
    max_step=16,
    accum_steps=2,
    report_steps=100,
    save_steps=None,
    eval_steps=None,
)
print(f"OpenNMT-tf {opennmt.__version__}: scales", *map("{:g}".format, scales))
assert scales[0] == 2.0**19 and max(np.diff(scales)) > 0  # fell and grew
print(f"steps {summary['last_step']}, finite loss: {np.isfinite(summary['last_loss'])}")
