"""The server of a federation, without Flower: `federation` trains a model, in the order of the other modules.

`membership` knows which nodes are there and asks them, `setup` counts over homes before the first round, `rounds`
trains by way of the nodes, with `secure` sums where the method has them, and `folder` is what survives a crash.
"""
