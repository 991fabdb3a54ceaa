"""A stand-in for Horovod: its documented interface over sockets of 127.0.0.1.

Written after the documentation of Horovod 0.19-0.28, for the part that programs of mixed
precision use: `horovod.tensorflow` and `horovod.tensorflow.keras`. As in Horovod, the
distributed optimizer is a class made at run time below the optimizer's own.
"""
