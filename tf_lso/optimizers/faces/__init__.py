"""What differs between the optimizer families; read `face.py` first."""
