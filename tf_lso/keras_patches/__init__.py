"""What is changed in Keras: `compile`, saving and loading; all can be undone."""
