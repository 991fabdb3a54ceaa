"""Programs that show tf_lso at work; run one with `python -m`."""
