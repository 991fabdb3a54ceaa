"""`tools/test --gpu`: what can only be tested on GPUs, and a report of it."""
