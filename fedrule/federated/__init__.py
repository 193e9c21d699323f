"""Training in the homes: one engine for all federated algorithms, and what a client does as one pure function."""

from fedrule.federated.at_home import Key, Task, train_at_home
from fedrule.federated.checkpoint import Checkpoint
from fedrule.federated.engine import Engine, Report
from fedrule.federated.plan import Plan
from fedrule.federated.state import ServerState

__all__ = ["Checkpoint", "Engine", "Key", "Plan", "Report", "ServerState", "Task", "train_at_home"]
