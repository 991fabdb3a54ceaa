"""Tests of tf_lso; the folders mirror the package."""
