"""How the clients of a round are trained: by torch, by evidence, or by a compiled kernel."""
