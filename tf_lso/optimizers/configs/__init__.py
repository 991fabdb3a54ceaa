"""The former place of `config`, until `loss_scale_optimizer` imports it from there."""

from tf_lso.optimizers import config as wrappers  # noqa: F401
