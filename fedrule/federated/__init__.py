"""Federated training: the algorithms (`algorithm.py`), their rounds, and a client as one pure function.

A client on its own device, to which the server sends `model`, a vector in the order of `layout`:

    method = build("fedrule")
    prepared = method.prepare(homes, np.random.default_rng(0))  # vocabularies and valid rules, the same for everybody
    initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
    layout = FlatParameters.of(initial)
    task = method.task(prepared, layout, seed=0)
    model, state = layout.flat(initial), ClientState()  # nothing before its first round
    home = homes.subset([5])
    sent, state = train_client(task, model, home, state, shared=None, key=ClientKey(round=0, client=5))

`sent.update` goes to the server; the new state is kept if the server counted the update.
"""

from fedrule.federated.algorithm import ClientState, ClientUpdate, Hyperparameters
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.client import ClientKey, LocalTraining, train_client
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
    "train_client",
]
