"""The private names of Keras 2 that tf_lso uses: these tests fail if it moves one."""

import importlib
import inspect

import pytest
import tensorflow as tf

from tests import private_names
from tests.families import KERAS2_PACKAGE, keras2
from tf_lso import keras_versions
from tf_lso import optimizer_table as table

_LEGACY = "tf_lso/optimizers/families/keras2_legacy.py"
_NEW = _SHARED = "tf_lso/optimizers/families/keras2.py"
_HYPER = "tf_lso/optimizers/hyperparameters.py"
_TABLE = "tf_lso/optimizer_table.py"
_FILES = "tf_lso/checkpoints/layouts.py"
_GIVEN_TO_ALL = "tf_lso/patches/attributes.py"
_INSTALLED = "tf_lso/patches/attributes_keras2.py"
_LOADING = "tf_lso/patches/loading_keras2.py"
_COMPILING = "tf_lso/patches/compiling.py"
_WRAPPING = "tf_lso/optimizers/wrapping.py"
_MODELS = "tf_lso/checkpoints/model_targets.py"
_RESTORED = "tf_lso/checkpoints/optimizer_targets.py"
_EXPLAINED = "tf_lso/debugging/restored_state.py"

_MODEL_V1 = f"{keras2.Model.__module__}_v1"


# The modules of Keras 2 that tf_lso reaches by `keras_versions.private`.
PRIVATE_MODULES = (
    "saving.saving_lib",
    "saving.legacy.hdf5_format",
    "saving.legacy.saving_utils",
    "saving.legacy.saved_model.load",
)


def _private(path):
    return keras_versions.private(KERAS2_PACKAGE, path)


@pytest.fixture
def x():
    return tf.Variable(1.0, name="x")


@pytest.fixture
def legacy(x):
    optimizer = keras2.optimizers.legacy.SGD(0.1, momentum=0.9)
    optimizer._create_all_weights([x])
    return optimizer


@pytest.fixture
def new(x):
    optimizer = keras2.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([x])
    return optimizer


def _arguments(function):
    return list(inspect.signature(function).parameters)


# --- What tf_lso relies on, name by name.


def hyperparameters(legacy, new, x):
    assert legacy._hyper.keys() == {"learning_rate", "decay", "momentum"}
    legacy.momentum = 0.25
    assert float(legacy._get_hyper("momentum")) == 0.25
    assert float(legacy._decayed_lr(tf.float32)) == pytest.approx(0.1)


def weights(legacy, new, x):
    step, momentum = legacy._weights
    assert step is legacy.iterations
    assert legacy.get_slot(x, "momentum") is momentum
    assert legacy._name == "SGD"


def steps_of_gradients(legacy, new, x):
    tape = tf.GradientTape()
    ((gradient, variable),) = legacy._compute_gradients(lambda: 3 * x, [x], None, tape)
    assert float(gradient) == 3 and variable is x
    pairs = [(gradient, x)]
    assert legacy._transform_unaggregated_gradients(pairs) == pairs
    assert [v is x for _, v in legacy._aggregate_gradients(pairs)] == [True]


def who_aggregates(legacy, new, x):
    assert legacy._HAS_AGGREGATE_GRAD and not hasattr(new, "_HAS_AGGREGATE_GRAD")


def slots_in_checkpoints(legacy, new, x):
    names = ["slot_name", "variable", "slot_variable"]
    assert _arguments(legacy._restore_slot_variable) == names
    names = ["slot_variable_position", "slot_name", "variable"]
    assert _arguments(legacy._create_or_restore_slot_variable)[:3] == names


def methods_that_build(legacy, new, x):
    assert _arguments(legacy._create_slots) == ["var_list"]
    assert _arguments(legacy._create_hypers) == []


def step_counter(legacy, new, x):
    assert new._iterations is new.iterations


def methods_of_subclasses(legacy, new, x):
    for name in ("_resource_apply_dense", "_resource_apply_sparse"):
        assert hasattr(legacy, name) and not hasattr(new, name)


def keys_of_variables(legacy, new, x):
    assert new._index_dict == {new._var_key(x): 0}
    assert new._var_key(tf.Variable(1.0)) not in new._index_dict


def learning_rate(legacy, new, x):
    assert isinstance(new._learning_rate, tf.Variable)
    schedule = keras2.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    assert keras2.optimizers.SGD(schedule)._learning_rate is schedule


def hidden_variables(legacy, new, x):
    nadam = keras2.optimizers.Nadam()
    nadam.build([x])
    assert not any(v is nadam._u_product for v in nadam.variables)
    old = keras2.optimizers.legacy.Nadam()
    old.apply_gradients([(tf.constant(1.0), x)])
    assert isinstance(old._m_cache, tf.Variable)


def replaced_methods(legacy, new, x):
    assert _arguments(new._process_kwargs) == ["kwargs"]
    assert _arguments(new._build_learning_rate) == ["learning_rate"]
    assert _arguments(new._compute_current_learning_rate) == []
    assert _arguments(new._update_step) == ["gradient", "variable"]


def current_learning_rate(legacy, new, x):
    schedule = keras2.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    rate = keras2.optimizers.SGD(schedule)._current_learning_rate
    assert isinstance(rate, tf.Variable)


def methods_that_compile_calls(legacy, new, x):
    assert _arguments(keras2.Model._get_optimizer) == ["self", "optimizer"]
    owner = importlib.import_module(_MODEL_V1).Model
    assert _arguments(owner._set_optimizer) == ["self", "optimizer"]


def functions_that_save(legacy, new, x):
    saving_lib, hdf5_format, saving_utils, load = map(_private, PRIVATE_MODULES)
    assert saving_lib._is_keras_trackable(new)
    assert not saving_lib._is_keras_trackable(legacy)
    assert _arguments(hdf5_format.save_optimizer_weights_to_hdf5_group) == [
        "hdf5_group",
        "optimizer",
    ]
    assert _arguments(saving_lib._save_state)[0] == "trackable"
    assert _arguments(saving_lib._load_state)[0] == "trackable"
    assert _arguments(hdf5_format.save_model_to_hdf5)[0] == "model"
    assert _arguments(hdf5_format.load_model_from_hdf5)[0] == "filepath"
    of_models = ("save_model", "save_weights_only", "load_weights_only")
    for patched in map(vars(saving_lib).get, of_models):
        assert _arguments(patched)[:2] == ["model", "filepath"]
    assert _arguments(hdf5_format.save_model_to_hdf5)[0] == "model"
    assert _arguments(saving_utils.model_metadata)[0] == "model"
    assert _arguments(load.load)[0] == "path"
    assert callable(keras2.__internal__.optimizers.convert_to_legacy_optimizer)


def sessions_know_variables(legacy, new, x):
    backend = importlib.import_module(keras2.backend.get_value.__module__)
    assert _arguments(backend.track_variable) == ["v"]


def layers_within_layers(legacy, new, x):
    inside = keras2.Sequential([keras2.layers.Dense(1)])
    outer = keras2.Sequential([keras2.layers.InputLayer((2,)), inside])
    assert inside.layers[-1] in list(outer._flatten_layers())


def variables_that_a_layer_made(legacy, new, x):
    layer = keras2.layers.BatchNormalization()
    layer.build((None, 2))
    assert len(layer._trainable_weights) == len(layer._non_trainable_weights) == 2
    model = keras2.Sequential([keras2.layers.InputLayer((2,)), layer])
    assert layer in model._layer_checkpoint_dependencies.values()


def seeds_of_a_layer(legacy, new, x):
    generator = keras2.layers.Dropout(0.5, seed=3)._random_generator
    before = dict(vars(generator))
    assert [generator.make_legacy_seed(), generator.make_legacy_seed()] == [3, 4]
    vars(generator).update(before)
    assert generator.make_legacy_seed() == 3


def slots_of_the_table(legacy, new, x):
    """`a|b` in the table: tf_keras has the second."""
    options = {
        "SGD": {"momentum": 0.9, "use_ema": True},
        "RMSprop": {"momentum": 0.9, "centered": True},
        "Adam": {"amsgrad": True},
        "AdamW": {"amsgrad": True},
    }
    for name, facts in table.OPTIMIZERS.items():
        if not hasattr(keras2.optimizers, name):
            continue  # only in Keras 3
        made = getattr(keras2.optimizers, name)(**options.get(name, {}))
        made.build([tf.Variable([[1.0, 1.0]])])
        for attribute in facts.slots.values():
            assert any(hasattr(made, a) for a in attribute.split("|")), (
                name,
                attribute,
            )
        if made.use_ema:
            assert hasattr(made, table.AVERAGE["average"])


# Name -> the one file that touches it, and what checks that it is as that file expects.
NAMES = {
    "_hyper": (_HYPER, hyperparameters),
    "_decayed_lr": (_LEGACY, hyperparameters),
    "_weights": (_LEGACY, weights),
    "_create_all_weights": (_LEGACY, weights),
    "_compute_gradients": (_LEGACY, steps_of_gradients),
    "_transform_unaggregated_gradients": (_LEGACY, steps_of_gradients),
    "_aggregate_gradients": (_LEGACY, steps_of_gradients),
    "_HAS_AGGREGATE_GRAD": (_LEGACY, who_aggregates),
    "_restore_slot_variable": (_LEGACY, slots_in_checkpoints),
    "_create_or_restore_slot_variable": (_LEGACY, slots_in_checkpoints),
    "_resource_apply_dense": (_HYPER, methods_of_subclasses),
    "_resource_apply_sparse": (_HYPER, methods_of_subclasses),
    "_index_dict": (_NEW, keys_of_variables),
    "_var_key": (_NEW, keys_of_variables),
    "_learning_rate": (_NEW, learning_rate),
    "_u_product": (_NEW, hidden_variables),
    "_m_cache": (_FILES, hidden_variables),
    "_process_kwargs": (_INSTALLED, replaced_methods),
    "_build_learning_rate": (_INSTALLED, replaced_methods),
    "_compute_current_learning_rate": (_INSTALLED, replaced_methods),
    "_update_step": (_INSTALLED, replaced_methods),
    "_create_slots": (_GIVEN_TO_ALL, methods_that_build),
    "_create_hypers": (_GIVEN_TO_ALL, methods_that_build),
    "_iterations": ("tf_lso/checkpoints/layouts.py", step_counter),
    "_get_optimizer": (_COMPILING, methods_that_compile_calls),
    "_set_optimizer": (_COMPILING, methods_that_compile_calls),
    "_is_keras_trackable": (_LOADING, functions_that_save),
    "_save_state": (_LOADING, functions_that_save),
    "_load_state": (_LOADING, functions_that_save),
    "saving.saving_lib": (_LOADING, functions_that_save),
    "saving.legacy.hdf5_format": (_LOADING, functions_that_save),
    "saving.legacy.saving_utils": (_LOADING, functions_that_save),
    "saving.legacy.saved_model.load": (_LOADING, functions_that_save),
    "_flatten_layers": (_WRAPPING, layers_within_layers),
    "_trainable_weights": (_MODELS, variables_that_a_layer_made),
    "_non_trainable_weights": (_MODELS, variables_that_a_layer_made),
    "_layer_checkpoint_dependencies": (_MODELS, variables_that_a_layer_made),
    **{
        attribute: (_TABLE, slots_of_the_table)
        for name, facts in table.OPTIMIZERS.items()
        if hasattr(keras2.optimizers, name)
        for attributes in facts.slots.values()
        for attribute in attributes.split("|")[-1:]
        if attribute.startswith("_")
    },
    table.AVERAGE["average"]: (_TABLE, slots_of_the_table),
}

# Found by another way than by its name.
BEHAVIOR = {
    "backend.track_variable": (_SHARED, sessions_know_variables),
    "_current_learning_rate": (_INSTALLED, current_learning_rate),
    "_random_generator": (_EXPLAINED, seeds_of_a_layer),
}

_CHECKPOINTS = "The same for optimizers that are not wrapped."
_GIVEN = "Keras 3's and the newer optimizers are given a method of that name."

# Name -> the further files that touch it, and why.
SHARED = {
    "_HAS_AGGREGATE_GRAD": (
        ["tf_lso/optimizers/validation.py"],
        "The mark of Horovod's classes, which Keras 3 does not know.",
    ),
    "_index_dict": ([_RESTORED], _CHECKPOINTS),
    "_var_key": ([_RESTORED], _CHECKPOINTS),
    "_learning_rate": (
        [_RESTORED, "tf_lso/checkpoints/layouts.py", _INSTALLED],
        f"{_CHECKPOINTS} A name in checkpoints. What reads it is replaced.",
    ),
    "_u_product": ([_FILES], "A name in checkpoints."),
    "_create_all_weights": ([_RESTORED, _GIVEN_TO_ALL], f"{_CHECKPOINTS} {_GIVEN}"),
    "_decayed_lr": ([_INSTALLED], _GIVEN),
    "_aggregate_gradients": (
        ["tf_lso/optimizers/families/family.py", "tf_lso/optimizers/validation.py"],
        "A user's optimizer may override it, and Horovod's classes have it.",
    ),
    "_create_or_restore_slot_variable": (
        [_SHARED],
        "TensorFlow calls it on each object below which a checkpoint has slots.",
    ),
    "_variables": (
        [_FILES, "tf_lso/checkpoints/checkpoint.py", _LEGACY, _NEW],
        "A name in checkpoints, of the list that TensorFlow restores.",
    ),
}


def _is_about_keras2(path):
    others = (
        "tf_lso/names/",  # the words of programs, whatever Keras 2 has today
        "tf_lso/source/",  # which reads programs for them
        "tf_lso/patches/attributes_keras3.py",
        "tf_lso/policies/graph_rewrite.py",  # TensorFlow's own optimizers
    )
    return "keras3" not in path and not path.startswith(others)


@pytest.mark.parametrize("name", [*NAMES, *BEHAVIOR])
def test_keras2_has_it(name, legacy, new, x):
    path, check = {**NAMES, **BEHAVIOR}[name]
    try:
        check(legacy, new, x)
    except Exception as error:
        raise AssertionError(
            f"{KERAS2_PACKAGE} {keras_versions.version(KERAS2_PACKAGE)} has moved {name}, "
            f"which {path} uses"
        ) from error


@pytest.fixture(scope="module")
def found():
    saving_lib = _private(PRIVATE_MODULES[0])
    model = keras2.Sequential([keras2.layers.InputLayer((2,))])
    model.add(keras2.layers.Dense(1))
    made = [
        getattr(keras2.optimizers, name)()
        for name in table.OPTIMIZERS
        if hasattr(keras2.optimizers, name)
    ]
    made += [
        keras2.optimizers.SGD(momentum=0.9, use_ema=True),
        keras2.optimizers.RMSprop(momentum=0.9, centered=True),
        keras2.optimizers.Adam(amsgrad=True),
    ]
    for optimizer in made:
        optimizer.build(model.trainable_variables)
    legacy = [keras2.optimizers.legacy.SGD(), keras2.optimizers.legacy.Nadam()]
    places = [saving_lib, importlib.import_module(_MODEL_V1).Model]
    objects = [*made, *legacy, *places, model, *model.layers]
    return private_names.touched(PRIVATE_MODULES, objects, _is_about_keras2)


def test_each_name_is_touched_in_one_file(found):
    table_ = {name: path for name, (path, _) in NAMES.items()}
    private_names.check_files(found, table_, SHARED)


def test_no_import_of_tf_lso_needs_a_private_module():
    assert private_names.at_module_level("tf_keras") == {}
