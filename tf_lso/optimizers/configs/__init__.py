"""Optimizers made of configs of any generation."""
