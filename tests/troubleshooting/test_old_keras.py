"""The entries of "Old programs and Keras 3"."""

import pytest

from tests import processes
from tests.families import needs_keras3
from tests.troubleshooting import old_lines
from tests.troubleshooting.page import raises

pytestmark = needs_keras3

# Maps a function of `old_lines` to the entry that explains the message of Keras 3.
ENTRY_OF = {
    "decay_ignored": "decay-ignored",
    "called_rate": "lr-attribute",
    **dict.fromkeys(
        (
            "reset_states",
            "super_init_self",
            "history_lr",
            "fit_generator",
            "batch_input_shape",
            "layers_experimental",
            "backend_functions",
            "name_with_slash",
            "output_shape",
            "reduction_auto",
        ),
        "old-keras",
    ),
}
LIKE_2_4 = """
import sys
import tf_lso
tf_lso.install(like="2.4")
from tests.troubleshooting import old_lines
for name in sys.argv[1:]:
    getattr(old_lines, name)()
print("END")
"""


# Maps a function of `old_lines` that has no entry to a part of the message of Keras 3, which
# says what to write instead.
SAID_BY_KERAS_3 = {
    "model_checkpoint": r"must end in `\.weights\.h5`",
    "weights_h5": r"must end in `\.weights\.h5`",
    "save_folder": r"add either a `\.keras` extension",
    "tensorboard": "unexpected keyword argument 'write_grads'",
    "fit_workers": "unexpected keyword argument 'workers'",
    "keras_tensor": r"from the namespaces `keras\.layers`",
    # The message of older versions of Keras 3 says that `shape` has several values.
    "add_weight_name": "`name` must be passed as a keyword|values for argument 'shape'",
}


@pytest.mark.parametrize("function", SAID_BY_KERAS_3)
def test_a_line_without_an_entry_has_a_message_that_says_what_to_write(function):
    with pytest.raises((TypeError, ValueError), match=SAID_BY_KERAS_3[function]):
        getattr(old_lines, function)()


@pytest.mark.slow
def test_the_option_like_runs_all_old_lines(tmp_path):
    functions = [*ENTRY_OF, *SAID_BY_KERAS_3]
    assert len(functions) > 15
    done = processes.start(["-c", LIKE_2_4, *functions], tmp_path)
    assert done.stdout == "END\n", done.stdout + done.stderr


@pytest.mark.parametrize("function", ENTRY_OF)
def test_an_old_line_raises_the_message_of_its_entry(function):
    with raises(ENTRY_OF[function]):
        getattr(old_lines, function)()
