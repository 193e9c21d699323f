"""Weights to start from."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform(*shape: int, fan_in: int, chance: torch.Generator) -> Tensor:
    """Uniform in +-1 / sqrt(fan_in), the usual start of a fully connected layer with so many inputs."""
    bound = max(fan_in, 1) ** -0.5
    return torch.rand(*shape, generator=chance).mul_(2).sub_(1).mul_(bound)
