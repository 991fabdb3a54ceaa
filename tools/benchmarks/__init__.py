"""What loss scaling costs a step: tf_lso, the frameworks' own, and the floor.

`tools/benchmark` is the command. It plans jobs (plan.py), runs each in a fresh process
(one_process.py), and reports what they measured (report.py, plots.py). The parent
imports no TensorFlow.
"""
