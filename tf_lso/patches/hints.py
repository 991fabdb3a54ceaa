"""The line that names `--like`, after an error that Keras 3 makes of an old program.

It is said where the message shows that the program used what Keras 2 had and Keras 3 has
not. An error of the program's own has no such message, or names what no Keras had.
"""

import importlib.util
import linecache
import os
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from tf_lso import environment, keras_versions
from tf_lso.patches import like as like_lib

# Class of Keras 3 -> attributes that instances had in TensorFlow 2.0-2.15 and have no more.
_LAYER = """
    add_update apply compute_output_signature dynamic finalize_state get_input_at
    get_input_mask_at get_input_shape_at get_losses_for get_output_at get_output_mask_at
    get_output_shape_at get_updates_for inbound_nodes input_mask input_shape name_scope
    outbound_nodes output_mask output_shape reset_states stateful submodules updates
    with_name_scope _initial_weights _dtype _compute_dtype _layers _inbound_nodes
"""
_ATTRIBUTES = {
    "layers.Layer": _LAYER,
    "Model": f"""
        {_LAYER} autotune_steps_per_execution evaluate_generator fit_generator
        get_weight_paths predict_classes predict_generator predict_proba save_spec
        state_updates to_yaml total_loss _feed_inputs _feed_input_names _is_graph_network
        _make_train_function _make_predict_function _make_test_function _set_inputs
        _get_optimizer _train_counter
    """,
    "metrics.Metric": f"{_LAYER} add_metric add_loss get_weights set_weights weights",
    "optimizers.Optimizer": """
        add_slot add_weight decay get_gradients get_slot get_slot_names get_updates
        gradient_aggregator gradient_transformers _aggregate_gradients _call_if_callable
        _compute_gradients _dense_apply_args _distributed_apply _fallback_apply_state
        _get_hyper _hyper _initial_decay _prepare _prepare_local _resource_apply_dense
        _resource_apply_sparse _resource_apply_sparse_duplicate_indices
        _resource_scatter_add _resource_scatter_update _serialize_hyperparameter
        _set_hyper _slots _transform_gradients _transform_loss
        _transform_unaggregated_gradients _use_locking _weights
    """,
    "KerasTensor": "experimental_ref get_shape node op ref set_shape type_spec",
    "Variable": """
        batch_scatter_update count_up_to device eval experimental_ref gather_nd get_shape
        graph initial_value initialized_value is_initialized load op read_value ref
        scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_nd_add
        scatter_nd_sub scatter_nd_update scatter_sub scatter_update set_shape sparse_read
    """,
}
# Module below `tf.keras` -> names that it had; "" is `tf.keras` itself.
_NAMES = {
    "": "dtensor estimator experimental premade",
    "applications": "regnet resnet_rs",
    "backend": """
        experimental function get_session in_test_phase in_train_phase learning_phase
        learning_phase_scope local_conv1d local_conv2d manual_variable_initialization
        normalize_batch_in_training placeholder print_tensor random_binomial reset_uids
        set_learning_phase set_session tensorflow_backend
    """,
    "callbacks": "BaseLogger SidecarEvaluatorModelExport experimental",
    "constraints": "RadialConstraint radial_constraint",
    "initializers": "initializers_v2",
    "layers": """
        AbstractRNNCell CuDNNGRU CuDNNLSTM DenseFeatures LocallyConnected1D
        LocallyConnected2D experimental
    """,
    "losses": "kl_divergence log_cosh",
    "metrics": "MeanRelativeError MeanTensor experimental kl_divergence log_cosh",
    "models": "experimental model_from_config model_from_yaml",
    "utils": """
        GeneratorEnqueuer OrderedEnqueuer SequenceEnqueuer SidecarEvaluator
        convert_all_kernels_in_model experimental generic_utils multi_gpu_model np_utils
        to_ordinal warmstart_embedding_matrix
    """,
    "wrappers": "scikit_learn",
}
# Modules of which an import says no more than that they are not there.
_MODULES = """
    dtensor estimator experimental layers.experimental mixed_precision.experimental
    premade utils.experimental utils.generic_utils utils.np_utils wrappers
"""

# What Keras 3 says of arguments that Keras 2 took, also in functions of `fit` and `call`.
_MESSAGES = [
    # Optimizers, and users' classes of them.
    r"Argument\(s\) not recognized: \{'gradient_(aggregator|transformers)'",
    r"Optimizer\.__init__\(\) missing 1 required positional argument: 'learning_rate'",
    r"update_step\(\) takes 3 positional arguments but 4 were given",
    # Files.
    r"filename must end in `\.weights\.h5`",
    r"filepath provided must end in `\.(keras|weights\.h5)`",
    r"Invalid filepath extension for saving",
    r"`save_format` argument is deprecated in Keras 3",
    r"not supported: \['(include_optimizer|options|save_format|save_traces|signatures)'",
    r"\bModel\.save_weights\(\) got an unexpected keyword argument '(options|save_format)'",
    # Models and layers.
    r"\bLayer\.__init__\(\) takes 1 positional argument but \d+ were given",
    r"\bLayer\.add_(weight|variable)\(\) got multiple values for argument '(shape|name)'",
    r"\bLayer\.add_weight\(\) got an unexpected keyword argument "
    r"'(collections|getter|partitioner|synchronization|use_resource)'",
    r"must be passed as a keyword argument\. Received: add_weight\(",
    r"Could not interpret initializer identifier: [\[(]",
    r"`add_metric\(\)` method is deprecated|Layer\.add_metric\(\) got an unexpected",
    r"`add_loss\(\)` can only be called from inside",
    r"Unrecognized keyword arguments passed to \w+: "
    r"\{'(batch_input_shape|dynamic|fused|time_major|virtual_batch_size|weights)'",
    r"KerasTensor cannot be used as input to a TensorFlow function",
    r"'DeprecatedCompiled(Loss|Metric)' object has no attribute '(?!_)",
    # `compile`, `fit`, callbacks and losses.
    r"TensorFlowTrainer\.(fit|evaluate|predict)\(\) got an unexpected keyword argument "
    r"'(max_queue_size|use_multiprocessing|workers)'",
    r"got an unexpected keyword argument "
    r"'(experimental_run_tf_function|pss_evaluation_shards|sample_weight_mode|"
    r"target_tensors|weighted_metrics_v1)'",
    r"TensorFlowTrainer\.train_on_batch\(\) got an unexpected keyword argument 'reset_metrics'",
    r"ModelCheckpoint\.__init__\(\) got an unexpected keyword argument "
    r"'(load_weights_on_restart|options|period)'",
    r"TensorBoard\.__init__\(\) got an unexpected keyword argument "
    r"'(batch_size|embeddings_\w+|write_grads)'",
    r"Invalid value for argument `reduction`.*Received: reduction=auto",
]
_MESSAGE = re.compile("|".join(_MESSAGES), re.DOTALL)

_NO_ATTRIBUTE = re.compile(r"'(\w+)' object has no attribute '(\w+)'")
_NO_NAME = [
    re.compile(
        r"module '(?:keras\._tf_keras\.)?keras\.?(?P<module>[\w.]*)' "
        r"has no attribute '(?P<name>\w+)'"
    ),
    re.compile(
        r"cannot import name '(?P<name>\w+)' from "
        r"'(?:tensorflow|keras\._tf_keras)\.keras\.?(?P<module>[\w.]*)'"
    ),
]
_NO_MODULE = re.compile(r"No module named 'tensorflow\.keras\.([\w.]+)'")
_NO_FILE_FORMAT = re.compile(
    r"File format not supported: filepath=(.*?)\. Keras 3 only"
)
_NAME_AS_RATE = re.compile(
    r"`learning_rate` should be float.*learning_rate=[A-Za-z]", re.S
)


def hint(error: BaseException, command: str | None = None) -> str | None:
    """Return the line for an error that nobody caught, or None.

    Args:
      error: the error.
      command: the command line to run again, after the options of `tf-lso run`; None in a
        notebook.
    """
    chosen = os.environ.get(like_lib.VARIABLE)
    if chosen is not None or "tensorflow" not in sys.modules:
        return None
    try:
        package = keras_versions.package_of_tensorflow()
    except ImportError:
        return None  # the import of TensorFlow has failed, which the error says
    if keras_versions.is_keras2(package):
        return None
    program = vars(sys.modules["__main__"]).values()
    if any(value is sys.modules["keras"] for value in program):
        return None  # it uses `import keras`, which `--like` does not change
    if not any(_is_of_keras3(one) for one in _chain(error)):
        return None
    major, minor = environment.tensorflow_version()
    call = (
        'tf_lso.install(like="2.4"), in a new kernel before TensorFlow is imported'
        if command is None
        else f"tf-lso run --like 2.4 {command}"
    )
    has_it = importlib.util.find_spec("tf_keras") is not None
    install = "" if has_it else f', after `pip install "tf-keras=={major}.{minor}.*"`'
    return (
        "tf_lso: This is a change of Keras 3, and not of loss scaling. The Keras that "
        f"TensorFlow 2.4 had, or the version that the program is for: {call}{install}"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


def _is_of_keras3(error: BaseException) -> bool:
    """Whether an error comes from what Keras 3 has no more."""
    message = str(error)
    if isinstance(error, ImportError):
        return _is_gone_module(message) or _is_gone_name(message)
    if isinstance(error, AttributeError):
        if _is_gone_name(message) or _is_gone_attribute(message):
            return True
    if isinstance(error, (KeyError, IndexError, ValueError)):
        if _looks_for_a_metric(error):
            return True
    found = _NO_FILE_FORMAT.search(message)
    if found:
        path = found[1]  # a checkpoint, or a folder with a SavedModel
        return os.path.isdir(path) or os.path.exists(f"{path}.index")
    if _NAME_AS_RATE.search(message):
        return _is_in_own_optimizer(error.__traceback__)
    return bool(_MESSAGE.search(message))


def _is_gone_module(message: str) -> bool:
    found = _NO_MODULE.search(message)
    return found is not None and any(
        found[1] == name or found[1].startswith(f"{name}.") for name in _MODULES.split()
    )


def _is_gone_name(message: str) -> bool:
    found = [match for pattern in _NO_NAME for match in pattern.finditer(message)]
    return any(one["name"] in _NAMES.get(one["module"], "").split() for one in found)


def _is_gone_attribute(message: str) -> bool:
    return any(
        found[2] in names.split() and _has_subclass(_class_of_keras3(path), found[1])
        for found in _NO_ATTRIBUTE.finditer(message)
        for path, names in _ATTRIBUTES.items()
    )


def _class_of_keras3(path: str) -> Any:
    if path == "Variable":
        return keras_versions.variable_of_keras3()
    found: Any = keras_versions.public("keras")
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _has_subclass(base: type, name: str) -> bool:
    """Whether a class of this name is `base` or below it.

    A message has the name of the class alone. In a function of TensorFlow it is all that
    is left of the error.
    """
    below: list[type] = type.__subclasses__(base)
    return base.__name__ == name or any(_has_subclass(cls, name) for cls in below)


def _looks_for_a_metric(error: BaseException) -> bool:
    """Whether an error is of a search in `model.metrics_names`.

    Keras 3's has "compile_metrics" in place of the names of the metrics.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    names = {**trace.tb_frame.f_globals, **trace.tb_frame.f_locals}
    return any(
        name == "metrics_names" or _has_compile_metrics(names.get(name))
        for name in re.findall(r"\w+", line)
    )


def _has_compile_metrics(value: object) -> bool:
    return isinstance(value, (dict, list, tuple)) and any(
        isinstance(item, str) and item == "compile_metrics" for item in value
    )


def _is_in_own_optimizer(trace: types.TracebackType | None) -> bool:
    """Whether an error was raised in the constructor of a user's class of optimizers."""
    base = _class_of_keras3("optimizers.Optimizer")
    while trace is not None:
        code = trace.tb_frame.f_code
        itself = trace.tb_frame.f_locals.get("self")
        if code.co_name == "__init__" and isinstance(itself, base):
            own = type(itself)
            if not keras_versions.is_of_one(own) and "__init__" in vars(own):
                return vars(own)["__init__"].__code__ is code
        trace = trace.tb_next
    return False
