"""Train BERT of transformers, save it, and resume from a checkpoint."""

import tempfile

import numpy as np
import tensorflow as tf
import transformers
from transformers import BertConfig, TFBertForSequenceClassification, create_optimizer

tf.keras.utils.set_random_seed(1)
tf.keras.mixed_precision.set_global_policy("mixed_float16")
ids = tf.constant(np.random.randint(0, 50, (4, 8)))
labels = tf.constant([0, 1, 0, 1])
sizes = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 16}
config = BertConfig(
    vocab_size=50, num_hidden_layers=2, num_attention_heads=2, num_labels=2, **sizes
)


def new():
    model = TFBertForSequenceClassification(config)
    optimizer, _ = create_optimizer(1e-3, num_train_steps=100, num_warmup_steps=5)
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(
        optimizer, initial_scale=2.0**20, dynamic_growth_steps=4
    )
    return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer)


def train(model, optimizer, steps):
    """Train without dropout. Return the scale after each step."""

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.cast(tf.reduce_mean(model(ids, labels=labels).loss), "float32")
            scaled = optimizer.get_scaled_loss(loss)
        variables = model.trainable_variables
        grads = optimizer.get_unscaled_gradients(tape.gradient(scaled, variables))
        grads, _ = tf.clip_by_global_norm(grads, 1.0)
        optimizer.apply_gradients(zip(grads, variables))

    scales = []
    for _ in range(steps):
        step()
        scales.append(float(optimizer.loss_scale))
    return scales


folder = tempfile.mkdtemp()
model, optimizer, checkpoint = new()
scales = train(model, optimizer, 12)
print(f"transformers {transformers.__version__}: scales", *map("{:g}".format, scales))
assert scales[0] == 2.0**19 and max(np.diff(scales)) > 0  # fell and grew

path = checkpoint.save(f"{folder}/checkpoint")
model.save_pretrained(folder)
loaded = TFBertForSequenceClassification.from_pretrained(folder)
model2, optimizer2, checkpoint2 = new()
model2(ids)
optimizer2.build(model2.trainable_variables)
checkpoint2.restore(path)
same = train(model2, optimizer2, 4) == train(model, optimizer, 4)
pairs = zip(model.get_weights(), model2.get_weights())
print("resumes with equal scales:", same)
print("largest difference of a weight:", max(np.abs(a - b).max() for a, b in pairs))

model.compile(optimizer=optimizer)
history = model.fit({"input_ids": ids, "labels": labels}, epochs=3, verbose=0).history
print("fit: finite losses:", bool(np.isfinite(history["loss"]).all()))
