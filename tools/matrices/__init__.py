"""`tools/matrix`: the tests on each supported pair of TensorFlow and Keras.

`pairs` is the table of the pairs. `environments` makes a virtual environment for one,
`runs` runs the tests in it, and `table` writes down what came out. Standard library only.
"""
