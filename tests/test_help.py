"""Test `tf-lso help`, which shows the entries of the troubleshooting page offline."""

import re

import pytest

from tests.processes import ROOT, start
from tf_lso import cli, help

LISTED = re.compile(r"^  ([\w-]+) ", re.MULTILINE)  # the names of entries


@pytest.fixture
def run_help(capsys):
    """A function that runs `tf-lso help` and returns its exit code, output and errors."""

    def run(*words):
        code = cli.main(["help", *words])
        return code, *capsys.readouterr()

    return run


def test_lists_every_entry_below_its_section(run_help):
    code, out, _ = run_help()
    names = LISTED.findall(out)
    assert code == 0
    assert names == [entry.name for entry in help.entries()]
    assert out.index("The loss scale and NaN\n") < out.index("  stuck ")
    assert out.endswith(f"{len(names)} entries. Print one: tf-lso help NAME\n")


def test_prints_the_entry_of_a_name(run_help):
    code, out, _ = run_help("float16-loss")
    assert code == 0
    assert out.startswith("A float16 loss was scaled, and stays float16\n\n")
    assert '\n\n    loss = tf.cast(loss, "float32")\n\n' in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("name", [entry.name for entry in help.entries()])
def test_an_entry_is_text_for_a_terminal(run_help, name):
    _, out, _ = run_help(name)
    assert not re.search(r"<a id|```|\]\(|^#", out, re.MULTILINE)
    assert "\n    " in out  # its lines of code


def test_a_link_becomes_the_path_of_the_page(run_help):
    place = "compat_docs/how-to/scale.md#which-layer-overflows"
    assert place in run_help("stuck")[1].replace("\n", " ")
    assert (ROOT / place.partition("#")[0]).exists()


def test_lists_only_entries_that_contain_the_word(run_help):
    code, out, _ = run_help("nan")
    names = LISTED.findall(out)
    assert code == 0
    assert {"stuck", "nan-loss"} <= set(names)
    assert len(names) < 9


def test_finds_words_by_their_beginnings(run_help):
    _, out, _ = run_help("lr")
    assert "lr-attribute" in out
    assert "wrapped-twice" not in out  # its text contains "already"


def test_prints_the_only_entry_that_contains_all_words(run_help):
    assert run_help("Float16", "CAST", "exceed") == run_help("float16-loss")
    assert run_help("keyerror") == run_help("old-keras")  # a word of a message


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("tf-lso check needs LibCST, which is not installed: pip install", "not-installed"),
        ("ImportError: like='2.4' makes tf.keras the package tf_keras, which is not "
         "installed. Install it", "no-tf-keras"),
        ("ModuleNotFoundError: No module named 'tf_keras'", "no-tf-keras"),
        ("a/ckpt: there is no checkpoint, SavedModel, .h5 or .keras file; the",
         "checkpoint-error"),
        ("TBNotInstalledError: TensorBoard is not installed, missing implementation for "
         "tf.summary.scalar", "not-installed"),
        ("LossScaleMonitor(log_dir=...) needs the package tensorboard, which is not "
         "installed", "not-installed"),
        ("ModuleNotFoundError: No module named 'tensorflow_addons'", "tensorflow-addons"),
        ("TypeError: 'str' object is not callable", "quantization-mode"),
    ],
)  # fmt: skip
def test_finds_the_entry_of_a_message(run_help, message, name):
    assert run_help(message) == run_help(name)


def test_a_short_call_in_the_text_of_an_entry_is_no_message():
    """The entry "wrapped-twice" contains a call that other messages recommend."""
    message = "or pass tf_lso.wrap(optimizer, model) to compile()."
    assert [entry.name for entry in help.entries() if entry.explains(message)] == []


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("my loss scale is always 1", "always-1"),
        ("everything became NaN today", "nan-loss"),
        ("workers do nothing, they hang", "workers-hang"),
    ],
)
def test_offers_the_three_nearest_entries(run_help, words, first):
    code, out, error = run_help(*words.split())
    assert (code, error.count("\n")) == (1, 1)
    assert error.startswith(
        f"tf-lso help: no entry contains all of these words: {words}"
    )
    assert len(LISTED.findall(out)) == 3
    assert LISTED.findall(out)[0] == first


def test_says_in_one_line_that_no_entry_has_any_of_the_words(run_help):
    code, out, error = run_help("xyzzy", "qwertz")
    assert (code, out) == (1, "")
    assert error == "tf-lso help: no entry contains all of these words: xyzzy qwertz\n"


def test_needs_no_tensorflow_and_no_unicode():
    program = (
        "import sys; from tf_lso import cli; code = cli.main(['help', 'versions']); "
        "assert 'tensorflow' not in sys.modules; sys.exit(code)"
    )
    done = start(["-c", program], PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "tf_lso supports ? but found ?" in done.stdout
