"""What loss scaling adds to a training step: tf_lso beside the frameworks' own.

`tools/benchmark` is the command. It plans jobs (plan.py), runs each in a fresh process
(one_process.py), and reports what they measured (report.py, plots.py). The parent
imports no TensorFlow.
"""
