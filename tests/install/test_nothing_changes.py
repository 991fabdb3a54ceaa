"""Without `install()`, the use of tf_lso changes no attribute of TensorFlow or Keras."""

import json

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
    # Each family: its Keras, and the module with its optimizers.
    families = [(keras2, keras2.optimizers.legacy), (keras2, keras2.optimizers)]
    families += [(keras, keras.optimizers)] if HAS_KERAS3 else []
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
        saved = tf.train.Checkpoint(model=model, **parts)
        saved.restore(saved.save(str(folder / "checkpoint")))
        if is_complete:
            copy.deepcopy(model)
        files = {"m.keras": ZIPPED, **({"m.h5": {}} if is_complete else {})}
        files |= {"saved": {"save_format": "tf"}} if module is keras2 else {}
        for name, options in files.items():
            model.save(str(folder / name), **options)
            try:
                module.models.load_model(str(folder / name))
            except Exception as error:
                print(name, type(optimizer), error)
        return model

    # What TensorFlow and Keras themselves make at the first use is there already.
    for module, optimizers in families:
        use(module, optimizers.SGD(0.1), module.mixed_precision)
        wrapper = module.mixed_precision.LossScaleOptimizer
        use(module, wrapper(optimizers.Adam(0.1)), module.mixed_precision)
    for name in ("mixed_precision", "train"):  # wrappers that load when they are read
        getattr(tf.compat.v1, name).experimental.LossScale
    tf.keras.Model
    before = traces.snapshot()

    import tf_lso
    from tf_lso import policies
    from tf_lso.keras.mixed_precision import experimental

    for module, optimizers in families:
        of_keras = policies.for_package(module.Model.__module__.split(".")[0])
        use(module, optimizers.SGD(0.1), of_keras)  # which Keras wraps
        use(module, tf_lso.LossScaleOptimizer(optimizers.Adam(0.1)), of_keras)
        optimizer = experimental.LossScaleOptimizer(optimizers.SGD(0.1), 128)
        model = use(module, optimizer, of_keras)
        copy.deepcopy(optimizer), pickle.dumps(optimizer)
        policy = of_keras.ExperimentalPolicy("mixed_float16", loss_scale=8)
        of_keras.set_policy(policy)
        of_keras.set_policy(None)
        tf_lso.wrap(optimizers.SGD(0.1), model)
    # The classes of tf_lso are registered, so that files find them. If a Keras is not imported
    # yet, an import hook waits for it.
    is_hook = lambda finder: type(finder).__module__.startswith("tf_lso")
    sys.meta_path[:] = [finder for finder in sys.meta_path if not is_hook(finder)]
    changed = [name for name in traces.changes_since(before) if "tf_lso>" not in name]
    print(json.dumps(changed))
"""


def test_nothing_changes_without_install():
    *_, changed = run(PROGRAM)
    assert json.loads(changed) == []


LOOKED_FOR = """
    import importlib.util
    import tf_lso
    importlib.util.find_spec("keras")
    import keras
    print("tf_lso>LossScaleOptimizer" in keras.utils.get_custom_objects())
"""


def test_files_find_the_optimizers_also_after_a_mere_look_for_keras():
    assert run(LOOKED_FOR) == ["True"]
