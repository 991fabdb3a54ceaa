"""The images that the example learns from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Digits:
    """The images, shape (n, 8, 8, 1), float32 in 0 … 1, and their labels, shape (n,).

    Attributes:
      train_images: What the network learns from.
      train_labels: Which digit each of them is, int64.
      test_images: Held-out images, a fifth of all.
      test_labels: Which digit each of them is, int64.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load_digits(seed: int) -> Digits:
    """Return scikit-learn's digits, a fifth of them held out, chosen by `seed`."""
    from sklearn.datasets import load_digits as load

    pixels, labels = load(return_X_y=True)
    images = (pixels / 16.0).astype(np.float32).reshape(-1, 8, 8, 1)
    order = np.random.default_rng(seed).permutation(len(images))
    test, train = np.split(order, [len(images) // 5])
    labels = labels.astype(np.int64)
    return Digits(images[train], labels[train], images[test], labels[test])
