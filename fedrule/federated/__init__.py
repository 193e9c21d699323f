"""Training in the homes: one engine for all federated algorithms, and what a client does as one pure function.

The client's part on a device of its own, which is sent `model`, a vector in the order of `layout`:

    method = build("fedrule")
    prepared = method.prepare(homes, np.random.default_rng(0))  # vocabularies and valid rules, the same for everybody
    initial = prepared.scorer.initial(torch.Generator().manual_seed(0))
    layout = Layout.of(initial)
    task = method.task(prepared, layout, seed=0)
    model, memory = layout.flat(initial), Memory()  # a client that takes part for the first time remembers nothing
    home = homes.subset([5])
    sent, memory = train_at_home(task, model, home, memory, shared=None, key=Key(round=0, client=5))

`sent.update` goes to the server; the memory is kept if the server says that it counted.
"""

from fedrule.federated.algorithm import Memory, Plan, Sent
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.client import Key, Task, train_at_home
from fedrule.federated.rounds import Engine, Report
from fedrule.federated.states import ServerState
from fedrule.federated.vectors import Layout

__all__ = [
    "Checkpoint",
    "Engine",
    "Key",
    "Layout",
    "Memory",
    "Plan",
    "Report",
    "Sent",
    "ServerState",
    "Task",
    "train_at_home",
]
