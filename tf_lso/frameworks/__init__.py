"""Facts about TensorFlow and Keras: versions, private names, variables and graphs."""
