"""The mirrors against the names that the real TensorFlow had."""
