"""Tests of tf_lso. The folders mirror the folders of the package."""
