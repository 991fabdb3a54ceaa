"""What only speed needs."""
