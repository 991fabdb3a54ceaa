"""A stand-in for Horovod, whose processes communicate over sockets of 127.0.0.1.

The stand-in follows the documentation of Horovod 0.19-0.28. It has the parts that programs with
mixed precision use, namely `horovod.tensorflow` and `horovod.tensorflow.keras`. As in Horovod,
the class of a distributed optimizer is created at run time and derives from the class of the
optimizer.
"""
