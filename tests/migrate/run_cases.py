"""Run programs one after another in this process, and print their outputs as JSON.

    python run_cases.py FILE [--unmodified]

FILE contains a JSON object that maps names to programs. After each program, the global policy
is reset. Without `--unmodified`, `tf_lso.uninstall()` also undoes what the program installed.
"""

import contextlib
import io
import json
import pathlib
import sys
import traceback


def printed_by(program, name):
    """Return what a program prints, followed by the traceback of its error, if any."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            code = compile(program, name, "exec", dont_inherit=True)
            exec(code, {"__name__": "__main__"})
        except BaseException:
            print(traceback.format_exc())
    return printed.getvalue()


if __name__ == "__main__":
    outputs = {}
    programs = json.loads(pathlib.Path(sys.argv[1]).read_text())
    for name, program in programs.items():
        outputs[name] = printed_by(program, name)
        import tensorflow as tf

        tf.keras.mixed_precision.set_global_policy("float32")
        tf.compat.v1.mixed_precision.disable_mixed_precision_graph_rewrite()
        if "--unmodified" not in sys.argv:
            import tf_lso

            tf_lso.install().uninstall()
    print("RESULT", json.dumps(outputs))
