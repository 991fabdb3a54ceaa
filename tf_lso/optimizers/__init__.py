"""The one optimizer class: what it does, on which optimizers, and what it refuses."""
