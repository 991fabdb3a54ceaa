"""`tf-lso run`: programs run as Python would, child processes included."""
