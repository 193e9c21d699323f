"""The registry and contract of all methods, and the methods that need every home's data."""
