"""What tf_lso knows of TensorFlow and Keras: versions, private names, variables, graphs."""
