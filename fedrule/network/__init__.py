"""The paper's model (Algorithm 1): a graph neural network over a home's devices, and the score of a candidate rule."""
