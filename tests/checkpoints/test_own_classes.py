"""Slots of a user's own optimizer class may have the same names as slots of Keras classes.

For example, LARS, LAMB and averaging classes have slots such as `momentum` or `vhat`. In Keras
classes, such a slot depends on an argument, such as `momentum=0.9` or `amsgrad=True`.
tf_lso must not draw this conclusion for a user's own class.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_lso
from tests.checkpoints import helpers
from tests.checkpoints import optimizers_of_users as users
from tests.checkpoints.helpers import assert_equal, make_model, trained_model
from tests.families import CHECKPOINTED, FAMILIES, KERASES, keras2, numpy

SLOTS = ("momentum", "m", "v", "vhat", "average", "mg")


def variable_values(opt):
    """Return the values of an inner optimizer's variables, sorted by their bytes."""
    inner = getattr(opt, "inner_optimizer", opt)
    values = [np.array(numpy(variable)) for variable in helpers.variables_of(inner)]
    return sorted(values, key=lambda value: value.tobytes())


@pytest.mark.parametrize("family", CHECKPOINTED)
def test_tensorflow_restores_what_the_program_saved(family, tmp_path):
    with tf_lso.install():
        old = tf_lso.LossScaleOptimizer(users.WITH_SLOTS[family](SLOTS))
        old_model = trained_model(KERASES[family], old)
        path = helpers.save(old_model, old, "checkpoint", tmp_path)
        model = make_model(KERASES[family])
        opt = tf_lso.LossScaleOptimizer(users.WITH_SLOTS[family](SLOTS))
        opt.build(model.trainable_variables)
        status = tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
        status.assert_existing_objects_matched()
    assert int(numpy(opt.iterations)) == 3
    assert_equal(variable_values(opt), variable_values(old))


@pytest.mark.core
@pytest.mark.parametrize("family", CHECKPOINTED)
def test_what_was_restored_before_the_first_step_is_saved_again(family, tmp_path):
    """In the legacy family, this class has no hyperparameter `learning_rate`."""

    def make_optimizer():
        return tf_lso.LossScaleOptimizer(users.WITH_SLOTS[family](("momentum",)))

    keras_module, first = KERASES[family], make_optimizer()
    first_model = trained_model(keras_module, first)
    first_path = helpers.save(first_model, first, "checkpoint", tmp_path)
    second_model, second = make_model(keras_module), make_optimizer()
    checkpoint = tf.train.Checkpoint(model=second_model, optimizer=second)
    checkpoint.restore(first_path)
    second_path = checkpoint.save(str(tmp_path / "second"))
    third_model, third = make_model(keras_module), make_optimizer()
    tf.train.Checkpoint(model=third_model, optimizer=third).restore(second_path)
    assert int(numpy(third.iterations)) == 3


@pytest.mark.parametrize("built", [True, False])
def test_the_additional_slots_of_a_subclass_are_restored(built, tmp_path):
    old = tf_lso.LossScaleOptimizer(users.AveragingSGD(0.01))
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    model, opt = make_model(keras2), tf_lso.LossScaleOptimizer(users.AveragingSGD(0.01))
    if built:
        opt.build(model.trainable_variables)
    tf.train.Checkpoint(model=model, optimizer=opt).restore(path)
    opt.build(model.trainable_variables)
    assert_equal(variable_values(opt), variable_values(old))
    model, opt = make_model(keras2), tf_lso.LossScaleOptimizer(users.AveragingSGD(0.01))
    helpers.restore_completely(path, model, opt)
    assert_equal(variable_values(opt), variable_values(old))


@pytest.mark.parametrize("slots", [("momentum",), ("pace",)])
def test_the_hyperparameter_momentum_does_not_decide_which_slots_exist(slots, tmp_path):
    old = users.LegacyWithSlots(slots, momentum=0.5)
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    new = users.LegacyWithSlots(slots)
    helpers.restore_completely(path, make_model(keras2), new)
    assert float(numpy(new.momentum)) == 0.5
    assert_equal(variable_values(new), variable_values(old))


def test_a_hyperparameter_that_only_the_users_class_has_is_restored(tmp_path):
    class Own(users.LegacyWithSlots):
        def __init__(self, trust):
            super().__init__()
            self._set_hyper("trust", trust)

    old, new = Own(0.5), Own(0.25)
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    report = helpers.restore_completely(path, make_model(keras2), new)
    assert float(numpy(new.trust)) == 0.5
    assert "optimizer/trust" in str(report.converted)


def test_variables_in_parts_of_the_users_class_are_refused(tmp_path):
    class Own(FAMILIES["new"].SGD):
        def __init__(self):
            super().__init__(0.01)
            self.parts = [tf.Module()]
            self.parts[0].variable = tf.Variable(0.0)

    old, match = Own(), r"parts/0/variable\S* for optimizer \(this Own has no variable"
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    with pytest.raises(tf_lso.checkpoints.CheckpointError, match=match):
        tf_lso.checkpoints.restore(path, model=make_model(keras2), optimizer=Own())


def test_a_variable_with_a_name_that_tf_lso_uses_in_saved_models_is_restored(tmp_path):
    class Own(FAMILIES["new"].SGD):
        def __init__(self):
            super().__init__(0.01, name="own")
            self.overflowed = tf.Variable(0.0)

    old, new = Own(), Own()
    old.overflowed.assign(5.0)
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    helpers.restore_completely(path, make_model(keras2), new)
    assert float(numpy(new.overflowed)) == 5


def test_a_registered_class_in_an_h5_file_is_the_class_of_this_name(tmp_path):
    """Keras 2 saves the name of this class as "Custom>Registered"."""

    @keras2.utils.register_keras_serializable()
    class Registered(users.LegacyWithSlots):
        pass

    old, new = Registered(("pace",)), Registered(("pace",))
    path = helpers.save(trained_model(keras2, old), old, "h5", tmp_path)
    helpers.restore_completely(path, make_model(keras2), new)
    assert_equal(variable_values(new), variable_values(old))


@pytest.mark.parametrize(
    ("saved", "slots"), [(("a", "b"), ("a",)), (("a",), ("a", "b"))]
)
def test_tensorflow_refuses_other_slots_of_a_users_class(saved, slots, tmp_path):
    old = tf_lso.LossScaleOptimizer(users.LegacyWithSlots(saved))
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    model = make_model(keras2)
    new = tf_lso.LossScaleOptimizer(users.LegacyWithSlots(slots))
    new.build(model.trainable_variables)
    with pytest.raises(ValueError, match="it has a slot 'b' only"):
        tf.train.Checkpoint(model=model, optimizer=new).restore(path)


def test_names_in_an_h5_file_that_contradict_the_order_are_refused(tmp_path):
    """No table says how this class names its slots, so only their order is known."""
    model, old = make_model(keras2, use_bias=False), users.NewWithSlots(("trace",))
    old.build(model.trainable_variables[::-1])
    helpers.train(model, old)
    path = helpers.save(model, old, "h5", tmp_path)
    new = users.NewWithSlots(("trace",))
    match = "trace/b/kernel:0 for optimizer"
    helpers.assert_refused(path, make_model(keras2, use_bias=False), new, match)


def test_the_optimizer_of_a_model_without_a_config_is_restored(tmp_path):
    class Own(keras2.Sequential):
        def get_config(self):
            raise NotImplementedError

    old = FAMILIES["new"].Adam(0.01)
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    model, new = Own(make_model(keras2).layers), FAMILIES["new"].Adam(0.01)
    model.build((None, 3))
    helpers.restore_completely(path, model, new)
    assert_equal(variable_values(new), variable_values(old))


def test_the_error_for_an_own_class_suggests_no_argument_of_keras(tmp_path):
    old = users.LegacyWithSlots(("momentum", "vhat"))
    path = helpers.save(trained_model(keras2, old), old, "checkpoint", tmp_path)
    new = users.LegacyWithSlots(("momentum",))
    with pytest.raises(tf_lso.checkpoints.CheckpointError) as caught:
        tf_lso.checkpoints.restore(path, model=make_model(keras2), optimizer=new)
    assert "has no variable for it" in str(caught.value)
    assert "amsgrad" not in str(caught.value)
