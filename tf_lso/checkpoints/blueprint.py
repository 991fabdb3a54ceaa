"""Make the model and the optimizer that a file describes."""

import importlib.util
import json
import os
import pathlib
import sys

import keras

from tf_lso import pages
from tf_lso.checkpoints import opening
from tf_lso.checkpoints.errors import CheckpointError, refusing
from tf_lso.installation import install
from tf_lso.keras_patches import loading_models
from tf_lso.optimizers import config as configs

_HELP = (
    "Say it with --model: a file that describes it (.h5, .keras, a SavedModel, or "
    "what model.to_json() returned), or FILE.py:FUNCTION, which returns the model."
)

_MODELS = {
    "Sequential": keras.Sequential,
    "Functional": keras.Model,
    "Model": keras.Model,
}


class Blueprint:
    """How to make a model of Keras 3: a config or a function, and a compile config.

    The function returns the built model. The path is for messages.
    """

    def __init__(self, path, config, training=None):
        self.path = path
        self._config = config
        self._training = training or {}

    def optimizer(self):
        """Return a new optimizer of Keras 3, or None if the model was not compiled."""
        given = self._training.get("optimizer_config", self._training.get("optimizer"))
        if isinstance(given, str):  # what `compile` was called with
            return self._made("the optimizer", keras.optimizers.get, given)
        if not isinstance(given, dict):
            return None
        return self._made("the optimizer", configs.deserialize, given, package="keras")

    def with_optimizer(self, text, state):
        """Return a copy with the optimizer of the option --optimizer.

        It is wrapped if the `OptimizerState` of the file has a loss scale.
        """
        if text.endswith(".json"):
            config = _json(text)
        else:
            config = {"class_name": text, "config": {}}
        if not configs.is_wrapper(config) and state and state.scale is not None:
            inner = {"inner_optimizer": config, "dynamic": True}
            config = {"class_name": "LossScaleOptimizer", "config": inner}
        training = {**self._training, "optimizer_config": config}
        return Blueprint(self.path, self._config, training)

    def model(self):
        """Return the model, built."""
        if callable(self._config):
            model = self._config()
            if not isinstance(model, keras.Model):
                raise CheckpointError(
                    f"{self.path}: returned a {type(model).__module__}."
                    f"{type(model).__name__}; return a model of Keras 3, built."
                )
            return model
        config = {k: v for k, v in self._config.items() if k != "compile_config"}
        with install():
            if config.get("module") is not None:
                text = json.dumps(config)
                return self._made("the model", keras.models.model_from_json, text)
            # Configs of .h5 files and SavedModels have only the name of the class.
            cls = _MODELS.get(config.get("class_name"))
            if cls is None:
                raise CheckpointError(
                    f"{self.path}: the class {config.get('class_name')!r} of the model "
                    f"is not Keras's. {_HELP}"
                )
            with loading_models.layers_of_h5.on():
                inside = configs.plain(config.get("config"))
                return self._made("the model", cls.from_config, inside)

    def compile(self, model, optimizer):
        """Compile the model as it was compiled, with `optimizer`."""
        arguments = {}
        with install():
            for name, namespace in (
                ("loss", keras.losses),
                ("metrics", keras.metrics),
                ("weighted_metrics", keras.metrics),
            ):
                value = self._training.get(name)
                kind = value.get("class_name") if isinstance(value, dict) else None
                if value and kind != "CompileMetrics":  # of .keras files
                    arguments[name] = self._made(
                        f"the argument {name} of compile()", _each, value, namespace
                    )
        if self._training.get("loss_weights") is not None:
            arguments["loss_weights"] = self._training["loss_weights"]
        model.compile(optimizer=optimizer, **arguments)

    def _made(self, what, function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise CheckpointError(
                f"{self.path}: {what} cannot be made of its config: {error}"
            ) from error


def of(source):
    """Return the `Blueprint` of an open file, None if it does not describe a model."""
    config, training = source.architecture()
    return None if config is None else Blueprint(source.path, config, training)


def named(text):
    """Return the `Blueprint` of the option --model."""
    path, _, function = text.rpartition(":")
    if path.endswith(".py") or (path and not os.path.exists(text)):
        return Blueprint(text, _function(path, function))
    if text.endswith(".json"):
        return Blueprint(text, _json(text))
    with opening.sources(text)[0]() as source:
        found = of(source)
    if found is None:
        raise CheckpointError(f"{text}: does not describe a model. {_HELP}")
    return found


def missing(path):
    """Return the error for a file that does not say what the model is."""
    return CheckpointError(
        f"{path}: holds values, and does not say what the model is. {_HELP} A program "
        "that builds its model needs no conversion: tf_lso.checkpoints.restore reads "
        f"this file directly. See {pages.troubleshooting('which-model')}"
    )


def _json(path):
    with refusing(f"{path}: no config that can be read"):
        return dict(json.loads(pathlib.Path(path).read_text()))


def _function(path, name):
    if path.endswith(".py"):
        spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.path.insert(0, str(pathlib.Path(path).parent))
        try:
            spec.loader.exec_module(module)
        except FileNotFoundError as error:
            raise CheckpointError(f"{path}: there is no such file.") from error
    else:
        module = importlib.import_module(path)
    if not callable(getattr(module, name, None)):
        raise CheckpointError(f"{path}: has no function {name!r}.")
    return getattr(module, name)


def _each(value, namespace):
    """Make the losses or metrics of a config, which may be nested."""
    if isinstance(value, (list, tuple)):
        return [_each(element, namespace) for element in value]
    if isinstance(value, dict):
        if "class_name" in value:
            return namespace.deserialize(value)
        return {key: _each(element, namespace) for key, element in value.items()}
    return value
