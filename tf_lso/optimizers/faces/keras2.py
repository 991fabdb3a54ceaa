"""What the faces of both families of Keras 2 share: legacy and newer optimizers.

`families` makes a face of each for each package of Keras 2.
"""

import abc
import inspect
import sys

import tensorflow as tf

from tf_lso import kerases, tf_private
from tf_lso.optimizers import variables as variables_lib
from tf_lso.optimizers.faces import face, keras2_files


class Keras2Face(
    keras2_files.Files,
    tf_private.delegating_trackable(),  # type: ignore[misc]
    face.Face,
):
    """What the faces of both families of Keras 2 share.

    Checkpoints have the layout of Keras 2's own wrapper: the inner optimizer's
    dependencies and the loss scale.
    """

    @staticmethod
    @abc.abstractmethod
    def _base_in(keras):
        """Return the family's optimizer class.

        Args:
          keras: the module with the public names of a package of Keras 2.
        """

    @property
    @abc.abstractmethod
    def _aggregation_off(self):
        """{keyword of `apply_gradients` that switches aggregation off: value}."""

    @abc.abstractmethod
    def _build_inner(self, variables):
        """Create the variables of the inner optimizer."""

    def _initialize_family(self, name):
        del name

    def _check_inner(self, inner):
        self._keywords(inner)

    def _keywords(self, inner, name=None):
        """Return keyword arguments for its apply_gradients: name, and no aggregation."""
        parameters = inspect.signature(inner.apply_gradients).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        named = {"name": name} if takes_any or "name" in parameters else {}
        for keyword, value in self._aggregation_off.items():
            if keyword in parameters or takes_any:
                return {keyword: value, **named}
        keyword = next(iter(self._aggregation_off))
        raise TypeError(
            f"apply_gradients() of {type(inner).__name__} takes no {keyword!r}, which "
            "LossScaleOptimizer needs since it sums gradients over replicas itself. "
            "Add the argument and pass it on to the base class."
        )

    def _wrap_inner(self):
        # The constructor of DelegatingTrackableMixin sets this. Attribute assignment would
        # not do: the newer optimizers track what is assigned, and need this for it.
        self.__dict__["_trackable"] = self.inner_optimizer
        if self.dynamic:
            # This replaces that of an earlier wrapper, since each `compile` wraps anew.
            tf_private.track(self, self.loss_scale_state, "loss_scale", overwrite=True)
        self._initialize_in_sessions()

    def apply_inner(self, gradients, variables, name):
        """Update the variables by the inner optimizer, in replica context."""
        return self.inner_optimizer.apply_gradients(
            list(zip(gradients, variables)),
            **self._keywords(self.inner_optimizer, name),
        )

    def skip_inner(self):
        """Count a skipped step."""
        return [self._counter().assign_add(1, read_value=False)]

    def _set_iterations(self, value):
        if isinstance(value, tf.Variable):
            self.inner_optimizer.iterations = value  # replaces the optimizer's own
        else:
            self._counter().assign(tf.cast(value, tf.int64))

    def _built_variables(self):
        return self.__dict__.get("_build_list", [])

    def build(self, var_list):
        """Create the variables of the inner optimizer, once.

        Args:
          var_list: list of model variables.

        Raises:
          ValueError: if state that was set before the build does not fit these variables.
        """
        var_list = list(var_list)
        with variables_lib.building, tf.init_scope():
            self._build_inner(var_list)
            self._initialize_in_sessions()
        self.__dict__["_build_list"] = var_list
        self._set_waiting()

    def _initialize_in_sessions(self):
        """Make sessions of Keras 2, in graphs of TensorFlow 1, initialize all variables."""
        # There is no public way.
        backend = kerases.public(self._package).backend
        track = sys.modules[backend.get_value.__module__].track_variable
        listed = (*self.weights, *self._own_variables())
        unlisted = vars(self.inner_optimizer).values()  # such as a learning rate
        for variable in (*listed, *unlisted):
            if isinstance(variable, tf.Variable):
                track(variable)

    def _counter(self):
        return self.inner_optimizer.iterations

    def _serialize_inner(self):
        keras = kerases.public(self._package)
        return keras.optimizers.serialize(self.inner_optimizer)

    @property
    def weights(self):
        """The variables of the inner optimizer, a list."""
        variables = self.inner_optimizer.variables  # a method in some families
        return list(variables() if callable(variables) else variables)

    @property
    def variables(self):
        """The variables of the inner optimizer, a list that can also be called."""
        return variables_lib.CallableList(self.weights)
