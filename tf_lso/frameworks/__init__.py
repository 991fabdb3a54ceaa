"""Facts about TensorFlow and Keras: versions, private names, variables and graphs.

The private names have no public equivalents. tests/test_private_names.py fails if a framework
moves one of them.
"""
