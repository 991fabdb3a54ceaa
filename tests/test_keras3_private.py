"""The private names of Keras 3 that tf_lso uses: these tests fail if Keras moves one."""

import inspect

import keras
import pytest
import tensorflow as tf

import tf_lso
from tests import preloaded, private_names
from tests.families import OLD_KERAS3, numpy, raw
from tests.programs_in_processes import run
from tf_lso import keras3_private, keras_versions
from tf_lso import optimizer_table as table
from tf_lso.optimizers.families import keras3_views
from tf_lso.scaling import loss_scale

pytestmark = pytest.mark.skipif(OLD_KERAS3, reason="Keras 3.0 has other names")

_PRIVATE = "tf_lso/keras3_private.py"
_VIEWS = "tf_lso/optimizers/families/keras3_views.py"
_INSTALLED = "tf_lso/patches/attributes_keras3.py"
_TABLE = "tf_lso/optimizer_table.py"
_WRAPPING = "tf_lso/optimizers/wrapping.py"
_MODELS = "tf_lso/checkpoints/model_targets.py"
_RESTORED = "tf_lso/checkpoints/optimizer_targets.py"
_GRAPH = "tf_lso/checkpoints/checkpoint.py"


@pytest.fixture
def variable():
    return keras.Variable(1.0, name="x")


@pytest.fixture
def optimizer(variable):
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([variable])
    return optimizer


# --- What tf_lso relies on, name by name.


def iterations(optimizer, variable):
    counter = optimizer._iterations
    assert isinstance(raw(counter), tf.Variable)
    optimizer.apply([tf.constant(1.0)])
    assert numpy(counter) == 1


def steps_are_counted_by_a_method_of_the_variable(optimizer, variable):
    calls = []
    counter = keras3_private.iteration_variable(optimizer)
    counter.__dict__["assign_add"] = counter.__dict__["assign"] = calls.append
    optimizer.apply([tf.constant(1.0)])
    assert [int(value) for value in calls] == [1]


def learning_rate(optimizer, variable):
    assert any(optimizer._learning_rate is own for own in optimizer.variables)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    assert keras.optimizers.SGD(schedule)._learning_rate is schedule


def trainable_variables(optimizer, variable):
    assert [v is variable for v in optimizer._trainable_variables] == [True]
    nothing = keras.optimizers.SGD()
    nothing.build([])
    assert nothing.built and nothing._trainable_variables == []


def keys_of_variables(optimizer, variable):
    known, key = keras3_private.known_variables(optimizer)
    assert known == {key(variable): 0}
    assert key(keras.Variable(1.0)) not in known


def variables(optimizer, variable):
    own = keras.optimizers.LossScaleOptimizer(optimizer)._variables
    assert all(isinstance(one, keras_versions.variable_of_keras3()) for one in own)


def distribution_strategy(optimizer, variable):
    assert optimizer._distribution_strategy is tf.distribute.get_strategy()
    optimizer.__dict__["_distribution_strategy"] = None
    with pytest.raises(AttributeError, match="NoneType"):  # it is asked at each step
        optimizer.apply([tf.constant(1.0)])


def sum_over_replicas(optimizer, variable):
    calls = []

    def record(grads_and_vars):
        calls.append(len(list(grads_and_vars)))
        return grads_and_vars

    optimizer.__dict__["_all_reduce_sum_gradients"] = record
    optimizer.apply([tf.constant(1.0)])
    assert calls == [1]


def update_step(optimizer, variable):
    assert list(inspect.signature(optimizer._backend_update_step).parameters) == [
        "grads",
        "trainable_variables",
        "learning_rate",
    ]


def current_learning_rate(optimizer, variable):
    assert float(optimizer._get_current_learning_rate()) == pytest.approx(0.1)


def layers_within_layers(optimizer, variable):
    inside = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    outer = keras.Sequential([keras.layers.Input((2,)), inside])
    assert inside.layers[-1] in list(outer._flatten_layers())


def variables_that_a_layer_made(optimizer, variable):
    layer = keras.layers.BatchNormalization()
    layer.build((None, 2))
    assert len(layer._trainable_variables) == len(layer._non_trainable_variables) == 2


def functional_within_a_sequential(optimizer, variable):
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    assert isinstance(model._functional, keras.Model)


def a_variable_can_share_a_value(optimizer, variable):
    scale = loss_scale.DynamicLossScale(initial_loss_scale=4)
    view = keras3_views.views(scale)["dynamic_scale"]
    assert isinstance(view, keras.Variable) and tuple(view.shape) == ()
    view.assign(8.0)
    assert float(scale()) == 8.0


def attributes_of_variables(optimizer, variable):
    for name in ("_autocast", "_value", "_shape", "_initialize"):
        assert hasattr(variable, name), name


def values_of_backend(optimizer, variable):
    from keras.src.legacy import backend

    # Not the same function while install() holds: it replaces the two one by one.
    for name in ("get_value", "set_value"):
        assert callable(getattr(backend, name))
        assert callable(getattr(tf.keras.backend, name, getattr(backend, name)))


def product_of_nadam(optimizer, variable):
    nadam = keras.optimizers.Nadam()
    nadam.build([variable])
    assert float(nadam._u_product.numpy()) == 1.0


def slots_of_the_table(optimizer, variable):
    """`a|b` in the table: Keras 3 has the first."""
    options = {
        "SGD": {"momentum": 0.9},
        "RMSprop": {"momentum": 0.9, "centered": True},
        "Adam": {"amsgrad": True},
        "AdamW": {"amsgrad": True},
        "Lion": {"use_ema": True},
    }
    for name, facts in table.OPTIMIZERS.items():
        made = getattr(keras.optimizers, name)(**options.get(name, {}))
        made.build([keras.Variable([[1.0, 1.0]])])
        assert not made.use_ema or hasattr(made, table.AVERAGE["average"])
        for attribute in facts.slots.values():
            assert any(hasattr(made, a) for a in attribute.split("|")), (
                name,
                attribute,
            )


# Name -> the one file that touches it, and what checks that it is as that file expects.
NAMES = {
    "_iterations": (_PRIVATE, iterations),
    "_learning_rate": (_PRIVATE, learning_rate),
    "_trainable_variables": (_PRIVATE, trainable_variables),
    "_trainable_variables_indices": (_PRIVATE, keys_of_variables),
    "_var_key": (_PRIVATE, keys_of_variables),
    "_variables": (_PRIVATE, variables),
    "_distribution_strategy": (_PRIVATE, distribution_strategy),
    "_all_reduce_sum_gradients": (_PRIVATE, sum_over_replicas),
    "_backend_update_step": (_INSTALLED, update_step),
    "_get_current_learning_rate": (_INSTALLED, current_learning_rate),
    "keras.src.legacy.backend": (_INSTALLED, values_of_backend),
    "_u_product": ("tf_lso/checkpoints/layouts.py", product_of_nadam),
    "_flatten_layers": (_WRAPPING, layers_within_layers),
    "_non_trainable_variables": (_MODELS, variables_that_a_layer_made),
    "_functional": (_GRAPH, functional_within_a_sequential),
    **{
        attribute: (_TABLE, slots_of_the_table)
        for facts in table.OPTIMIZERS.values()
        for attributes in facts.slots.values()
        for attribute in attributes.split("|")
        if attribute.startswith("_")
    },
    table.AVERAGE["average"]: (_TABLE, slots_of_the_table),
}

# Not one name on another object: a method of a variable, a subclass of `keras.Variable`.
BEHAVIOR = {
    "the counter's assign_add": (
        _PRIVATE,
        steps_are_counted_by_a_method_of_the_variable,
    ),
    "a view": (_VIEWS, a_variable_can_share_a_value),
    "a view's attributes": (_VIEWS, attributes_of_variables),
}

_FILES_WORDS = "A name in checkpoints, which is that of the attribute."
_CHECKPOINTS = "The same for optimizers that are not wrapped."

# Name -> the further files that touch it, and why.
SHARED = {
    "_iterations": (["tf_lso/checkpoints/layouts.py"], _FILES_WORDS),
    "_learning_rate": (
        ["tf_lso/checkpoints/layouts.py", "tf_lso/checkpoints/optimizer_targets.py"],
        f"{_FILES_WORDS} {_CHECKPOINTS}",
    ),
    "_trainable_variables": (
        [
            "tf_lso/checkpoints/layouts.py",
            "tf_lso/checkpoints/model_targets.py",
            "tf_lso/checkpoints/checkpoint.py",
        ],
        f"{_FILES_WORDS} Layers have a list of that name too.",
    ),
    "_variables": (
        ["tf_lso/checkpoints/layouts.py", "tf_lso/checkpoints/checkpoint.py"],
        _FILES_WORDS,
    ),
    "_var_key": (
        ["tf_lso/checkpoints/optimizer_targets.py"],
        "For optimizers of tf_keras, which have that name too.",
    ),
}


def _is_about_keras3(path):
    # `names` has the words of programs, whatever Keras has today.
    return "keras2" not in path and not path.startswith("tf_lso/names/")


@pytest.mark.parametrize("name", [*NAMES, *BEHAVIOR])
def test_keras_has_it(name, optimizer, variable):
    path, check = {**NAMES, **BEHAVIOR}[name]
    try:
        check(optimizer, variable)
    except Exception as error:
        raise AssertionError(
            f"Keras {keras.__version__} has moved {name}, which {path} uses"
        ) from error


# Takes a name away from the class of optimizers, before tf_lso is used.
RENAMED = """
    import keras, tf_lso

    for cls in keras.optimizers.Optimizer.__mro__:
        if {name!r} in vars(cls):
            cls.renamed = vars(cls)[{name!r}]
            delattr(cls, {name!r})
    inner = keras.optimizers.SGD(0.5)
    try:
        tf_lso.LossScaleOptimizer(inner)
    except ImportError as error:
        print(error)
"""


def _says(message, name):
    parts = (f"keras {keras.__version__}", name, "keras3_private.py", "Install")
    return all(part in message for part in parts)


@pytest.mark.parametrize("name", keras3_private._OF_CLASS)
def test_a_class_without_a_name_is_refused_at_import(name):
    """Without `_all_reduce_sum_gradients` two replicas would sum twice, in silence."""
    (message,) = run(RENAMED.format(name=name), by=preloaded.run)
    assert _says(message, name)


@pytest.mark.parametrize("name", keras3_private._OF_INSTANCE)
def test_an_optimizer_without_a_name_is_refused(name):
    inner = keras.optimizers.SGD(0.5)
    inner.__dict__["renamed"] = inner.__dict__.pop(name)
    with pytest.raises(ImportError) as caught:
        keras3_private.check_instance(inner)
    assert _says(str(caught.value), name)


def test_a_wrapped_optimizer_is_checked():
    inner = keras.optimizers.SGD(0.5)
    del inner.__dict__["_distribution_strategy"]
    with pytest.raises(ImportError, match="_distribution_strategy"):
        tf_lso.LossScaleOptimizer(inner)


def test_an_older_keras_needs_no_newer_name(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "3.1.1")
    monkeypatch.setattr(keras3_private, "_OF_CLASS", {"_of_later": (3, 2)})
    keras3_private.check_class()
    monkeypatch.setattr(keras, "__version__", "3.10.0")
    with pytest.raises(
        ImportError, match=r"keras 3\.10\.0 has no Optimizer\._of_later"
    ):
        keras3_private.check_class()


def _objects():
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    made = [getattr(keras.optimizers, name)() for name in table.OPTIMIZERS]
    made += [
        keras.optimizers.SGD(momentum=0.9, use_ema=True),
        keras.optimizers.RMSprop(momentum=0.9, centered=True),
        keras.optimizers.Adam(amsgrad=True),
    ]
    for optimizer in made:
        optimizer.build(model.trainable_variables)
    return [*made, model, *model.layers, *model.variables]


def test_each_name_is_touched_in_one_file():
    found = private_names.touched(("keras.src.",), _objects(), _is_about_keras3)
    table_ = {name: path for name, (path, _) in NAMES.items()}
    private_names.check_files(found, table_, SHARED)


def test_a_name_in_a_second_file_is_found():
    found = private_names.touched(("keras.src.",), _objects(), _is_about_keras3)
    table_ = {name: path for name, (path, _) in NAMES.items()}
    found["_flatten_layers"].add("tf_lso/other.py")
    with pytest.raises(AssertionError, match=r"other\.py touches _flatten_layers"):
        private_names.check_files(found, table_, SHARED)
    with pytest.raises(AssertionError, match=r"wrapping\.py touches _flatten_layers"):
        private_names.check_files(found, {**table_, "_flatten_layers": None}, SHARED)


def test_no_import_of_tf_lso_needs_a_private_module():
    assert private_names.at_module_level("keras") == {}
