"""Federated training between real nodes, by Flower (https://flower.ai): the clients and the server of the simulation.

`messages` says what is sent, `node` what a node does with it, `server` how a round goes, all without Flower;
`client_app` and `server_app` bring these to Flower 1.41. `python -m fedrule deploy` writes an app and tries it.
"""
