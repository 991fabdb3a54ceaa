"""The supported pairs of TensorFlow and Keras, each with a Python that has both."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Pair:
    """One environment of the matrix.

    Attributes:
      name: what the command line calls it.
      tensorflow: minor version.
      keras: minor version of the package `keras`, which `tf.keras` is.
      tf_keras: minor version of tf_keras beside it, or "".
      python: minor version.
    """

    name: str
    tensorflow: str
    keras: str
    tf_keras: str
    python: str

    def requirements(self, distribution: str) -> list[str]:
        """Return what pip is to install.

        Args:
          distribution: the distribution that provides TensorFlow.
        """
        return [f"{distribution}=={self.tensorflow}.*", f"keras=={self.keras}.*"]


# TensorFlow 2.16 is the first with Keras 3; the Keras 2 of 2.12-2.15 has TensorFlow's
# number. The Pythons are spread over the pairs; those that .ci/run names share one.
PAIRS = (
    Pair("2.12", "2.12", "2.12", "", "3.11"),
    Pair("2.13", "2.13", "2.13", "", "3.10"),
    Pair("2.14", "2.14", "2.14", "", "3.10"),
    Pair("2.15", "2.15", "2.15", "", "3.11"),
    Pair("2.15-tf_keras", "2.15", "2.15", "2.15", "3.10"),
    Pair("2.16", "2.16", "3.0", "2.16", "3.11"),
    Pair("2.17", "2.17", "3.6", "2.17", "3.12"),
    Pair("2.18", "2.18", "3.10", "2.18", "3.12"),
    Pair("2.19", "2.19", "3.12", "2.19", "3.10"),
    Pair("2.20", "2.20", "3.15", "2.20", "3.13"),
    Pair("2.21", "2.21", "3.15", "2.21", "3.11"),
    Pair("2.21-python3.13", "2.21", "3.15", "2.21", "3.13"),
)
BY_NAME = {pair.name: pair for pair in PAIRS}
