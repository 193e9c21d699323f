"""The registered graph methods, central and federated."""
