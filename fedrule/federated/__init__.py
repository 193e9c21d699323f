"""Federated training: the algorithms (`algorithm.py`), their rounds, and a client as pure functions.

A client on its own device, to which the server sends `model`, a vector in the order of `layout`:

    method = build("fedrule")
    prepared = method.prepare(homes, np.random.default_rng(0))  # vocabularies and valid rules, the same for everybody
    initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
    layout = FlatParameters.of(initial)
    task = method.task(prepared, layout, seed=0)
    model, state = layout.flat(initial), ClientState()  # nothing before its first round
    home, key = homes.subset([5]), ClientKey(round=0, client=5)
    batch = draw_batch(task, model, home, key)  # None where it has nothing to train on
    sent, state = train_client(task, model, batch, state, shared=None, key=key)

`sent.update` goes to the server; the new state is kept if the server counted the update.
"""

from fedrule.federated.algorithm import ClientState, ClientUpdate, Hyperparameters
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.client import ClientKey, LocalTraining, draw_batch, train_client
from fedrule.federated.rounds import Engine, RoundReport
from fedrule.federated.states import ServerState
from fedrule.federated.vectors import FlatParameters

__all__ = [
    "Checkpoint",
    "ClientKey",
    "ClientState",
    "ClientUpdate",
    "Engine",
    "FlatParameters",
    "Hyperparameters",
    "LocalTraining",
    "RoundReport",
    "ServerState",
    "draw_batch",
    "train_client",
]
