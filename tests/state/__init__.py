"""Training that goes on from what was saved ends bit for bit as if it had gone on."""
