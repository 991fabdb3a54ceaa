"""What loss scaling adds to a training step: tf_lso beside the frameworks' own.

`tools/benchmark` is the command (`__main__.py`). It runs each job in a fresh process
(one_process.py) and reports what they measured (report.py). plan.py has what can be
chosen. The parent imports no TensorFlow.
"""
