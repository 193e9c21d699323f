"""Homes as clients: what all trainers have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from datasets.homes import Array, Homes
from fedrule.federated.at_home import Task
from fedrule.federated.layout import Layout


@dataclass(frozen=True, eq=False)
class Population:
    """The homes of training, and what each of them is told once."""

    homes: Homes
    task: Task

    @property
    def layout(self) -> Layout:
        return self.task.layout

    @cached_property
    def rules(self) -> Array:
        return np.bincount(self.homes.rules.home, minlength=self.homes.n_homes)

    @property
    def threads(self) -> int:
        return torch.get_num_threads()  # what torch was told stands for all
