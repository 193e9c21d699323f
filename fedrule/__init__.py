"""The graph formulation of rule recommendation: the model, its training with and without moving data, inference."""
