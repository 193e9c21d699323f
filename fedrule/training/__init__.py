"""Training examples, losses and the training loop of graph methods."""
