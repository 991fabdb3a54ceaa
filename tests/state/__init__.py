"""Training that continues from saved state ends bit for bit as if it had not stopped."""
