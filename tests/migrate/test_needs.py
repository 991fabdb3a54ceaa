"""Programs that rely on more than names get `tf_lso.install()`, and others do not."""

import re

import pytest

from tests.processes import ROOT
from tests.source.programs import migrated

HEAD = "import tensorflow as tf\nfrom tensorflow.keras import mixed_precision as mp\n"
# line -> what it needs
NEEDS = {
    "opt = tf.keras.optimizers.Adam(lr=0.1)": "the argument `lr` of an optimizer",
    "opt = Adam(0.1, decay=1e-4)": "the argument `decay` of an optimizer",
    "opt = tf.keras.optimizers.SGD(jit_compile=False)": "`jit_compile`",
    "print(model.optimizer.lr)": "`lr` of an optimizer",
    "self.optimizer.lr = 0.1": "`lr` of an optimizer",
    "opt = tf.keras.optimizers.SGD()\nprint(opt.lr)": "`lr` of an optimizer",
    "x = tf.keras.optimizers.SGD()\nprint(x.get_weights())": "`get_weights`",
    "opt.minimize(loss, v)": "`minimize` of an optimizer",
    "rate = optimizer._decayed_lr(tf.float32)": "`_decayed_lr` of an optimizer",
    "o = mp.LossScaleOptimizer(i) if fp16 else tf.keras.optimizers.SGD()\no.lr": "`lr`",
    "opt.apply_gradients(g, experimental_aggregate_gradients=False)": "apply_gradients",
    "class A(tf.keras.optimizers.SGD):\n    def apply_gradients(self, g, name=None):\n"
    "        return super().apply_gradients(g, name=name)": "apply_gradients",
    "opt = tf.keras.optimizers.legacy.Adam()": "`optimizers.legacy`",
    "from tensorflow.keras.optimizers.experimental import SGD": "experimental",
    "from tensorflow.keras import backend as K\nK.set_value(x, 1)": "`set_value`",
    "from tensorflow.keras import backend as K\nK.get_value(x)": "`get_value`",
    "tf.keras.models.load_model('a.h5')": "`load_model`",
    "tf.train.Checkpoint(opt=opt).restore(p)": "`restore`",
    "c = tf.train.Checkpoint(opt=opt)\nc.read(p)": "`read`",
    "m = tf.train.CheckpointManager(c, p, 3)\nm.restore_or_initialize()": (
        "`restore_or_initialize`"
    ),
    "self.checkpoint.restore(p)": "`restore`",
    "model.load_weights(p)": "`load_weights`",
    "model.load_weights('a.weights.h5')": "`load_weights`",
    "tf.keras.optimizers.get(config)": "`get`",
    "rate = optimizer.learning_rate(step)": "`learning_rate` of an optimizer, called",
    "tf.keras.optimizers.deserialize(config)": "`deserialize`",
    "class S(tf.keras.optimizers.schedules.LearningRateSchedule):\n    pass": "schedule",
    "c = ReduceLROnPlateau()\nprint(history['lr'])": "the logged `lr`",
    "import tensorflow.compat.v1.keras as k": "the package `tensorflow.compat.v1.keras`",
    "from keras.api._v2.keras import layers": "the package `keras.api._v2.keras`",
}
NONE = (
    "print(args.lr, config.decay)",
    "opt = mp.LossScaleOptimizer(tf.keras.optimizers.SGD(0.1))\nprint(opt.lr)",
    "opt = mp.LossScaleOptimizer(inner)\nopt.apply_gradients(g, name='x')",
    "print(layer.weights, model.get_weights())",
    "print({'lr': 1})",
    "opt.apply_gradients(grads)",
    "torch.load_model('a')",
    "pool.restore(p)",
    "model.load_weights('a.h5')",
    "tf.keras.optimizers.get('adam')",
)


@pytest.mark.parametrize("line", NEEDS)
def test_what_is_more_than_a_name_gets_install(line):
    new, document = migrated(f"import os\n{HEAD}{line}\n")
    installs = document["changed"][0]["install"]
    assert any(NEEDS[line] in what for what in installs), installs
    first = "import os\nimport tf_lso\n\ntf_lso.install()\n\nimport tensorflow"
    assert new.startswith(first)


@pytest.mark.parametrize("line", NONE)
def test_what_is_a_name_gets_none(line):
    document = migrated(HEAD + line)[1]
    assert document["changed"][0]["install"] == []


MP = "tf.keras.mixed_precision"
LOADS = "tf.keras.models.load_model(p)"
# Name on the page of what tf_lso changes, without those of Keras 2 -> a line that relies on
# it: migrate adds install(), or where it is an old name writes another. None where
# no line does.
CHANGES = {
    "the old names": f"{MP}.experimental.set_policy('x')",
    "`tf.train.Checkpoint.read`": "tf.train.Checkpoint(o=opt).restore(p)",
    # They refuse.
    "`save` and `write` of `tf.train.Checkpoint`, `save` of "
    "`tf.train.CheckpointManager`": None,
    "`tf.keras.backend.clear_session`": "tf.keras.backend.clear_session()",
    "`showtraceback` of the shell, in a notebook": None,  # a hint
    "`Model.compile`": f"{MP}.set_global_policy('mixed_float16')",
    "`_get_optimizer` of models": None,  # the program calls it on any model
    "`make_train_function` of models": None,  # a warning
    "`optimizers.deserialize`": "tf.keras.optimizers.deserialize(c)",
    "`Model.compile_from_config`": LOADS,
    "`Policy` and `PolicyV1` among the custom objects, `deserialize` of policies": LOADS,
    "`load_model`": LOADS,
    # What they save was restored by a checkpoint, which is listed above.
    "`Model.save`, `Model.save_weights`": None,
}


def test_each_change_of_install_is_added_or_written():
    page = (ROOT / "compat_docs/explanation/changes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!In |Keras 2 )[^|]+ \| ([^|]+) \| ", page, re.MULTILINE)
    assert rows == list(CHANGES)
    for row, line in CHANGES.items():
        if line is not None:
            program = f"{HEAD}mp.LossScaleOptimizer\n{line}\n"
            new, document = migrated(program, prefer="least")
            is_name = line.startswith(MP)
            assert bool(document["changed"][0]["install"]) == (not is_name), row
            assert (line not in new) == is_name, row
