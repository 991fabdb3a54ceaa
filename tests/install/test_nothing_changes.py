"""Without `install()`, the use of tf_lso changes no attribute of TensorFlow or Keras."""

import json

import pytest

from tests.processes import run

PROGRAM = """
    import copy
    import importlib
    import json
    import pathlib
    import pickle
    import sys
    import tempfile

    import keras
    import numpy as np
    import tensorflow as tf
    from tests.generation import HAS_KERAS3, KERAS, ZIPPED
    from tests.install import traces

    keras2 = importlib.import_module("tf_keras") if HAS_KERAS3 else tf.keras
    # The module of the Keras, and the module with the optimizers, of each family.
    families = [(keras2, keras2.optimizers.legacy), (keras2, keras2.optimizers)]
    if HAS_KERAS3:
        families.append((keras, keras.optimizers))
    folder = pathlib.Path(tempfile.mkdtemp())
    x, y = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")

    def use(module, optimizer, policies):
        '''Make, train, copy, save and load a model with an optimizer.'''
        policies.set_global_policy("mixed_float16")
        layers = module.layers.InputLayer((2,)), module.layers.Dense(1)
        model = module.Sequential(layers)
        policies.set_global_policy("float32")
        model.compile(optimizer, module.losses.MeanSquaredError())
        model.fit(x, y, verbose=0)
        # Keras 3.0 cannot put an optimizer into a checkpoint, copy a model, or write an .h5
        # file with a wrapped optimizer.
        is_complete = module is keras2 or KERAS != "3.0"
        parts = {"optimizer": model.optimizer} if is_complete else {}
        checkpoint = tf.train.Checkpoint(model=model, **parts)
        checkpoint.restore(checkpoint.save(str(folder / "checkpoint")))
        files = {"m.keras": ZIPPED}  # each file, with the arguments of `save`
        if is_complete:
            copy.deepcopy(model)
            files["m.h5"] = {}
        if module is keras2:
            files["saved"] = {"save_format": "tf"}
        for name, options in files.items():
            model.save(str(folder / name), **options)
            try:
                module.models.load_model(str(folder / name))
            except Exception as error:
                print(name, type(optimizer), error)
        return model

    # TensorFlow and Keras create some objects at the first use. Use everything once before the
    # snapshot, so that these objects do not count as changes.
    for module, optimizers in families:
        use(module, optimizers.SGD(0.1), module.mixed_precision)
        wrapper = module.mixed_precision.LossScaleOptimizer
        use(module, wrapper(optimizers.Adam(0.1)), module.mixed_precision)
    for name in ("mixed_precision", "train"):  # these modules load when they are read
        getattr(tf.compat.v1, name).experimental.LossScale
    tf.keras.Model
    before = traces.snapshot()

    import tf_lso
    from tf_lso import policies
    from tf_lso.keras.mixed_precision import experimental

    for module, optimizers in families:
        package = module.Model.__module__.split(".")[0]
        tf_lso_policies = policies.for_package(package)
        use(module, optimizers.SGD(0.1), tf_lso_policies)  # Keras wraps this optimizer
        use(module, tf_lso.LossScaleOptimizer(optimizers.Adam(0.1)), tf_lso_policies)
        optimizer = experimental.LossScaleOptimizer(optimizers.SGD(0.1), 128)
        model = use(module, optimizer, tf_lso_policies)
        copy.deepcopy(optimizer)
        pickle.dumps(optimizer)
        policy = tf_lso_policies.ExperimentalPolicy("mixed_float16", loss_scale=8)
        tf_lso_policies.set_policy(policy)
        tf_lso_policies.set_policy(None)
        tf_lso.wrap(optimizers.SGD(0.1), model)
    # Two changes are allowed. tf_lso registers its classes with Keras, so that Keras can load
    # them from files. As long as a Keras package is not imported, an import hook waits for it.
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if not type(finder).__module__.startswith("tf_lso")
    ]
    changed = [name for name in traces.changes_since(before) if "tf_lso>" not in name]
    print(json.dumps(changed))
"""


@pytest.mark.slow
def test_nothing_changes_without_install():
    *_, changed = run(PROGRAM)
    assert json.loads(changed) == []


@pytest.mark.slow
def test_a_search_for_keras_before_its_import_does_not_prevent_the_registration():
    program = """
        import importlib.util
        import tf_lso
        importlib.util.find_spec("keras")
        import keras
        print("tf_lso>LossScaleOptimizer" in keras.utils.get_custom_objects())
    """
    assert run(program) == ["True"]
