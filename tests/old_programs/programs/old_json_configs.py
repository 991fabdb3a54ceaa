# Configs that an experiment stored as JSON under TF 2.4 - 2.8, with the inner optimizer's
# arguments of then, made optimizers again. Written for TF 2.4 - 2.8.
import copy
import json

import tensorflow as tf

mp = tf.keras.mixed_precision
SGD = {
    "class_name": "SGD",
    "config": {
        "name": "SGD",
        "learning_rate": 0.25,
        "decay": 0.0,
        "momentum": 0.5,
        "nesterov": False,
    },
}
ADAM = {
    "class_name": "Adam",
    "config": {
        "name": "Adam",
        "learning_rate": {
            "class_name": "ExponentialDecay",
            "config": {
                "initial_learning_rate": 0.5,
                "decay_steps": 2,
                "decay_rate": 0.5,
                "staircase": True,
                "name": None,
            },
        },
        "decay": 0.0,
        "beta_1": 0.75,
        "beta_2": 0.875,
        "epsilon": 1e-07,
        "amsgrad": False,
    },
}
stable = {
    "inner_optimizer": SGD,
    "dynamic": True,
    "initial_scale": 64.0,
    "dynamic_growth_steps": 5,
}
fixed = dict(stable, inner_optimizer=ADAM, dynamic=False, dynamic_growth_steps=None)
experimental = {
    "optimizer": SGD,
    "loss_scale": {
        "class_name": "DynamicLossScale",
        "config": {
            "initial_loss_scale": 16.0,
            "increment_period": 9,
            "multiplier": 2.0,
        },
    },
}
text = json.dumps([stable, fixed, experimental])
stable_opt = mp.LossScaleOptimizer.from_config(json.loads(text)[0])
fixed_opt = mp.LossScaleOptimizer.from_config(json.loads(text)[1])
old_opt = mp.experimental.LossScaleOptimizer.from_config(json.loads(text)[2])
made = tf.keras.optimizers.deserialize(
    {"class_name": "LossScaleOptimizer", "config": copy.deepcopy(stable)}
)
by_get = tf.keras.optimizers.get(
    {"class_name": "LossScaleOptimizer", "config": copy.deepcopy(stable)}
)
v = tf.Variable(1.0)
for opt in (stable_opt, fixed_opt, old_opt, made, by_get):
    opt.minimize(lambda: v * 1.0, [v])
result = {
    "scales": [
        float(o.loss_scale) for o in (stable_opt, fixed_opt, old_opt, made, by_get)
    ],
    "steps": [
        o.dynamic_growth_steps for o in (stable_opt, fixed_opt, old_opt, made, by_get)
    ],
    "v": round(float(v), 4),
    "momentum": float(made.inner_optimizer.momentum),
    "beta_1": float(fixed_opt.beta_1),
    "is": isinstance(made, mp.LossScaleOptimizer),
}
print("RESULT", json.dumps(result))
