"""Each heading of the troubleshooting page: the trouble appears, and the fix ends it."""

import re
import sys
import textwrap

import pytest

from tests import preloaded, processes
from tests.generation import HAS_KERAS3
from tests.processes import HANGS_AFTER, QUIET, ROOT, run_workers
from tests.troubleshooting_cases import CASES, PRELUDE
from tf_lso import help

PAGE = (ROOT / "compat_docs" / "troubleshooting.md").read_text(encoding="utf-8")
_MARKS = re.compile(r"^( *)#! trouble\n(.*?)^ *#! after\n", re.MULTILINE | re.DOTALL)
_PARTS = re.split(r"^### (.*)\n", PAGE, flags=re.MULTILINE)
_BLOCKS = re.compile(r"^```(py|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Heading of the page -> its fixes, each the language and the code of a block.
ENTRIES = {
    heading: _BLOCKS.findall(body) for heading, body in zip(_PARTS[1::2], _PARTS[2::2])
}


def as_python(language, code):
    """The fix as lines of Python."""
    if language == "py":
        return code
    lines = []
    for line in code.splitlines():
        command, *words = line.split()
        if command == "export":
            lines.append("os.environ[{!r}] = {!r}".format(*words[0].split("=")))
        elif command == "unset":
            lines.append(f"os.environ.pop({words[0]!r})")
        elif command == "tf-lso":
            lines.append("from tf_lso import cli")
            lines.append(f"assert cli.main({words!r}) == 0")
        else:  # what it installs is there
            assert line.startswith("pip install 'tf-lso["), line
    return "\n".join([*lines, ""])


def programs(heading):
    """The program with the trouble, and the one with the fix in its place."""
    case = CASES[heading]
    (fix,) = ENTRIES[heading]
    program = case.program if case.alone or case.workers > 1 else PRELUDE + case.program

    def with_fix(match):
        return textwrap.indent(as_python(*fix), match[1])

    return _MARKS.sub(r"\2", program), _MARKS.sub(with_fix, program)


def shows(heading, text):
    """Whether a text has the message of a heading."""
    message = CASES[heading].shows
    if message is None:
        parts = heading.replace("``", "").strip(" `").split("…")
        message = ".*".join(map(re.escape, parts))
    return re.search(message.replace("`", "."), text, re.DOTALL) is not None


HERE = {h: case for h, case in CASES.items() if HAS_KERAS3 or not case.keras3}
SHARED = [h for h, case in HERE.items() if not case.alone and case.workers == 1]
ALONE = [heading for heading, case in HERE.items() if case.alone]
DISTRIBUTED = [heading for heading, case in HERE.items() if case.workers > 1]


@pytest.fixture(scope="module")
def written(request, tmp_path_factory):
    """What the two programs of each heading of this run write; they share a process."""
    folder, texts = tmp_path_factory.mktemp("programs"), {}
    for item in request.session.items:
        if getattr(item, "obj", None) is test_the_trouble_appears_and_the_fix_ends_it:
            heading = item.callspec.params["heading"]
            names = [f"{len(texts):03} {kind}" for kind in ("a trouble", "fixed")]
            texts[heading] = [folder / f"{name}.txt" for name in names]
            for path, program in zip(texts[heading], programs(heading)):
                path.with_suffix(".py").write_text(program, encoding="utf-8")
    done = preloaded.run(["-m", "tests.troubleshooting_cases", folder], ROOT)
    read = {h: [p.read_text("utf-8", "replace") for p in texts[h]] for h in texts}
    assert done.returncode == 0, read
    return read


def assert_is_fixed(heading, trouble, fixed):
    assert shows(heading, trouble), trouble
    assert "FAILED" not in fixed, fixed
    assert shows(heading, fixed) == CASES[heading].stays, fixed


def test_each_entry_has_a_case_and_each_case_an_entry():
    assert list(ENTRIES) == list(CASES)


@pytest.mark.parametrize("heading", ENTRIES)
def test_an_entry_has_one_fix_of_few_lines(heading):
    ((_, code),) = ENTRIES[heading]
    assert len([line for line in code.splitlines() if line.strip()]) <= 3


@pytest.mark.parametrize("heading", SHARED)
def test_the_trouble_appears_and_the_fix_ends_it(heading, written):
    assert_is_fixed(heading, *written[heading])


@pytest.mark.slow
@pytest.mark.parametrize("heading", ALONE)
def test_of_a_program_in_a_process_of_its_own(heading, tmp_path):
    by = processes.start if CASES[heading].no_tensorflow else preloaded.run
    path, variables, texts = tmp_path / "program.py", {}, []
    if "matplotlib" in heading:
        pytest.importorskip("matplotlib")
        variables = {"PYTHONPATH": str(ROOT)}
    for program in programs(heading):
        path.write_text(program, encoding="utf-8")
        done = by([str(path)], tmp_path, **variables)
        texts.append(done.stdout + done.stderr + "FAILED" * (done.returncode != 0))
    assert_is_fixed(heading, *texts)


@pytest.mark.slow
@pytest.mark.multiworker
@pytest.mark.parametrize("heading", DISTRIBUTED)
def test_of_several_workers(heading):
    texts = []
    for program in programs(heading):
        command = [sys.executable, "-c", program]
        count = CASES[heading].workers
        results = run_workers(command, count, HANGS_AFTER, QUIET, after_tensorflow=True)
        failed = "FAILED" * any(result.returncode for result in results)
        texts.append("".join(result.output for result in results) + failed)
    assert_is_fixed(heading, *texts)


# --- What `--like` cures.


LIKE_2_4 = """
import sys, traceback
import tf_lso
tf_lso.install(like="2.4")
import numpy as np
import tensorflow as tf
def new_model():
    layers = [tf.keras.layers.Dense(2, name=name) for name in ("one", "two")]
    return tf.keras.Sequential([tf.keras.Input((2,)), *layers])
for program in sys.argv[1:]:
    try:
        exec(program)
    except Exception:
        print(program, traceback.format_exc())
print("END")
"""


@pytest.mark.skipif(not HAS_KERAS3, reason="they are about Keras 3")
def test_like_cures_what_stands_below_its_heading(tmp_path):
    """The programs with the trouble run to their ends, all in one process."""
    section = PAGE.split("\n## Old programs and Keras 3\n")[1]
    headings = re.findall(r"^### (.*)$", section.split("\n## ")[0], re.MULTILINE)
    assert len(headings) > 15
    # The programs with the trouble, without what all begin with.
    programs = [_MARKS.sub(r"\2", CASES[heading].program) for heading in headings]
    done = processes.start(["-c", LIKE_2_4, *programs], tmp_path)
    assert done.stdout == "END\n", done.stdout + done.stderr


# --- What messages end with.


def test_the_names_in_messages_are_those_of_entries():
    called = re.compile(r"`tf-lso help ([\w-]+)`")
    files = (ROOT / "tf_lso").rglob("*.py")
    in_messages = {n for f in files for n in called.findall(f.read_text("utf-8"))}
    names = [entry.name for entry in help.entries()]
    assert len(names) == len(set(names)) == len(ENTRIES)
    assert len(in_messages) > 9
    assert in_messages <= set(names)
