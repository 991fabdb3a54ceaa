"""What programs call and read on an optimizer, on every face."""
