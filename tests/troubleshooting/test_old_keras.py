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


@pytest.mark.slow
def test_the_option_like_runs_all_old_lines(tmp_path):
    done = processes.start(["-c", LIKE_2_4, *ENTRY_OF], tmp_path)
    assert done.stdout == "END\n", done.stdout + done.stderr


@pytest.mark.parametrize("function", ENTRY_OF)
def test_an_old_line_raises_the_message_of_its_entry(function):
    with raises(ENTRY_OF[function]):
        getattr(old_lines, function)()
