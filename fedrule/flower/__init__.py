"""Federated training between real nodes, by Flower (https://flower.ai): the clients and the server of the simulation.

`messages` says what is sent, `method` what server and nodes agree on, `node` what a node does with a request and
`server` how a run goes, all without Flower; `client_app` and `server_app` bring these to Flower 1.41. `app_folder` has
what `python -m fedrule deploy init` writes, and `local_run` what `deploy simulate` runs.
"""

PORT = 8123  # of the server, unless another one is given
DAYS = 30  # that certificates are valid, unless given
LIMIT = 600.0  # seconds for an answer of a node
RESEND = 120.0  # seconds after which a request without an answer is sent again
