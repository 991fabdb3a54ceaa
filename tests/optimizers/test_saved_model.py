"""SavedModels of a user's `tf.Module` with an optimizer and a traced step."""

import itertools

import pytest
import tensorflow as tf

from tests import preloaded
from tests.families import CHECKPOINTED, FAMILIES, STYLES, wrapped
from tests.generation import NO_CHECKPOINT

# Load SavedModels without tf_lso. Print the variable, the scale and the step count after each
# step.
_LOAD = """
import sys
import tensorflow as tf

for path in sys.argv[1:]:
    module, states = tf.saved_model.load(path), []
    for factor in (1.0, float("nan"), 1.0, 1.0):
        x, scale, iterations = module.step(tf.constant(factor))
        states.append((float(x), float(scale), int(iterations)))
    print(states)
assert not any(name.startswith("tf_lso") for name in sys.modules)
"""
# What the program prints. One step was taken before. The scale grows at the second finite step,
# shrinks at the skipped step, and grows after two further finite steps.
_STATES = [(0.375, 16.0, 2), (0.375, 8.0, 3), (-0.0625, 8.0, 4), (-0.53125, 16.0, 5)]


class _Module(tf.Module):
    def __init__(self, family, style="legacy"):
        super().__init__()
        self.x = tf.Variable(1.0)
        self.optimizer = wrapped(family, "SGD", 0.25, momentum=0.5, growth=2)
        self._take_step = STYLES[style]

    @tf.function(input_signature=[tf.TensorSpec([])])
    def step(self, factor):
        self._take_step(self.optimizer, lambda: self.x * factor, [self.x])
        return (
            tf.identity(self.x),
            tf.identity(self.optimizer.loss_scale),
            tf.convert_to_tensor(self.optimizer.iterations),
        )


@pytest.mark.slow
@NO_CHECKPOINT
def test_a_loaded_step_trains_skips_and_changes_the_scale(tmp_path):
    """One process loads all modules, since starting a process takes seconds."""
    paths = []
    for family, style in itertools.product(FAMILIES, STYLES):
        module = _Module(family, style)
        module.step(1.0)
        paths.append(str(tmp_path / f"{family}-{style}"))
        tf.saved_model.save(module, paths[-1])
    done = preloaded.run(["-c", _LOAD, *paths])
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [str(_STATES)] * len(paths)


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_a_module_that_has_taken_no_step_can_be_saved(family, tmp_path):
    tf.saved_model.save(_Module(family), tmp_path / "m")
    loaded = tf.saved_model.load(tmp_path / "m")
    x, scale, iterations = loaded.step(1.0)
    assert (float(x), float(scale), int(iterations)) == (0.75, 8.0, 1)
