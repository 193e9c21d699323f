"""Plain implementations that fast code is measured against and tested equal to."""
