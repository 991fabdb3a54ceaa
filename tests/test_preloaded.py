"""Each command of `tests/preloaded.py` finds TensorFlow as after its own import."""

import os
import signal

import pytest

from tests import preloaded

pytestmark = pytest.mark.skipif(
    not preloaded.CAN_FORK, reason="this system cannot fork"
)

# Devices can be changed until TensorFlow has started.
PROGRAM = """
import os, sys
assert "tensorflow" in sys.modules and "tf_lso" not in sys.modules
import tensorflow as tf
cpu, = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).run(tf.function(lambda: tf.ones(3)))
print(__name__, sys.argv[1:], os.getcwd(), os.path.basename(sys.path[0]), sys.stdin.read())
import beside
print(__import__(beside.__name__).VALUE, file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


def test_a_command_runs_as_in_a_process_of_its_own(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "beside.py").write_text("VALUE = 'é'")
    for code in (0, 3):
        done = preloaded.run([folder / "program.py", str(code)], tmp_path)
        printed = f"__main__ ['{code}'] {tmp_path} programs \n"
        assert (done.returncode, done.stdout) == (code, printed), done.stderr
        assert done.stderr.endswith("é\n")


def test_an_error_and_a_crash_are_told():
    done = preloaded.run(["-c", "1 / 0"])
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert preloaded.run(["-c", "import os; os.abort()"]).returncode < 0


@pytest.mark.parametrize(
    ("end", "code"), [("", 0), ("raise SystemExit('why')", 1), ("exit(None)", 0)]
)
def test_the_exit_is_that_of_python(end, code, tmp_path):
    exits = "import atexit; atexit.register(print, 'at the exit')\n"
    threads = "import threading; threading.Timer(0.1, print, ['a thread']).start()\n"
    program = tmp_path / "program.py"
    program.write_text(exits + threads + end)
    done = preloaded.run([program])
    assert (done.returncode, done.stdout) == (code, "a thread\nat the exit\n")
    assert done.stderr.endswith("why\n" if code else "")


def test_several_run_at_a_time_with_variables_of_their_own(tmp_path):
    waits = """if True:
        import os, time
        print(os.environ["OWN"], flush=True)
        while not os.path.exists("there"):
            time.sleep(0.01)
    """
    with (tmp_path / "said").open("w+") as said:
        first, second = (
            preloaded.start(["-c", waits], tmp_path, said, said, {"OWN": str(number)})
            for number in range(2)
        )
        os.killpg(second.pid, signal.SIGKILL)
        assert second.wait(preloaded.HANGS_AFTER) == -signal.SIGKILL
        assert first.poll() is None
        third = preloaded.start(["-c", "open('there', 'w')"], tmp_path, said, said)
        assert third.wait() == first.wait() == first.poll() == 0
        said.seek(0)
        assert "0\n" in said.readlines()


def test_a_program_of_the_command_line_runs(tmp_path):
    program = """if True:
        import os, pickle, sys
        class Own: pass
        assert isinstance(pickle.loads(pickle.dumps(Own())), Own)
        print(__name__, sys.argv, os.getcwd())
        raise SystemExit(4)
    """
    done = preloaded.run(["-c", program, "a"], tmp_path)
    printed = f"__main__ ['-c', 'a'] {tmp_path}\n"
    assert (done.returncode, done.stdout) == (4, printed), done.stderr


def test_a_program_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(preloaded, "HANGS_AFTER", 0.5)
    with pytest.raises(preloaded.subprocess.TimeoutExpired):
        preloaded.run(["-c", "import time; time.sleep(10_000)"])
    monkeypatch.undo()
    assert preloaded.run(["-c", "print('again')"]).stdout == "again\n"
