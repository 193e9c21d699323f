"""torch, imported when it is first used: what reads options, draws batches or trains by compiled loops does without.

Importing torch takes two seconds and 200 MB, as much as everything else that a node of a federation needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch as torch
else:

    class _Module:
        """A module that is imported by the first look at one of its names."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> object:
            found = getattr(importlib.import_module(self._name), name)
            setattr(self, name, found)  # the next look finds it here
            return found

    torch = _Module("torch")
