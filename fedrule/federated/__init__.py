"""Federated training: the algorithms (`algorithm.py`), their rounds, and what a node runs over the homes it holds.

A node that holds home 5 of a federation computes the bits that the simulation of all homes computes for it:

    method = build("fedrule")
    prepared = method.prepare(homes, np.random.default_rng(0))  # vocabularies and valid rules, the same for everybody
    initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
    layout = FlatParameters.of(initial)
    engine, task = method.engine(), method.task(prepared, layout, seed=0)
    server = engine.begin_server(layout, layout.flat(initial), n_clients=homes.n_homes)

    node = trainer_of(homes.subset([5]), task, np.array([5]))
    states = ClientStates.initial(node.rule_counts, layout, engine.hyperparameters)  # nothing before the first round
    trained = engine.train_clients(node, states, server.broadcast(), np.array([0]))

`trained.sums` goes to the server, which adds up those of all nodes and calls `engine.finish_round`. The next states,
`trained.states`, are kept if the server counted them.
"""

from fedrule.federated.algorithm import ClientState, ClientUpdate, Hyperparameters
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.client import ClientKey, LocalTraining, draw_batch, train_client
from fedrule.federated.rounds import Engine, RoundReport, RoundSum
from fedrule.federated.states import Broadcast, ClientStates, ServerState
from fedrule.federated.vectors import FlatParameters

__all__ = [
    "Broadcast",
    "Checkpoint",
    "ClientKey",
    "ClientState",
    "ClientStates",
    "ClientUpdate",
    "Engine",
    "FlatParameters",
    "Hyperparameters",
    "LocalTraining",
    "RoundReport",
    "RoundSum",
    "ServerState",
    "draw_batch",
    "train_client",
]
