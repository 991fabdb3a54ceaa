"""Runs programs one after the other in this process; prints what each wrote, as JSON.

python -m tests.troubleshooting_programs FILE, where FILE has name -> program. What is
written to the process's standard output and error counts, so also what TensorFlow's C++
writes.
"""

import contextlib
import json
import os
import sys
import tempfile
import traceback


@contextlib.contextmanager
def written(result):
    """Append to `result` what the block writes to file descriptors 1 and 2."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, original in zip((1, 2), kept):
                os.dup2(original, number)
                os.close(original)
            file.seek(0)
            result.append(file.read().decode("utf-8", "replace"))


def as_before():
    """Takes back what programs change for those after them."""
    import tensorflow as tf

    import tf_lso
    from tests import families

    tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite()
    tf_lso.uninstall()
    for keras in families.KERASES.values():
        keras.mixed_precision.set_global_policy("float32")


def run(program):
    """Runs a program to its end, or prints the traceback of what ended it.

    The traceback must not name the heading, which is what the test looks for.
    """
    code = compile(program, "<program>", "exec", dont_inherit=True)
    try:
        exec(code, {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        print("FAILED")


def main():
    """Runs all programs of the file."""
    import tensorflow as tf

    with open(sys.argv[1], encoding="utf-8") as file:
        programs = json.load(file)
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    results = {}
    for name, program in programs.items():
        texts = []
        with written(texts):
            run(program)
        as_before()
        results[name] = "".join(texts)
    print("RESULT", json.dumps(results))


if __name__ == "__main__":
    main()
