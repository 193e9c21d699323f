"""Models of any size with drawn weights, and homes in their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from baselines.registry import build
from datasets import Homes, Relation
from fedrule.models.card import Card, Scale
from fedrule.models.file import SavedModel
from tests.support.strategies import homes as random_homes


def random_model(
    types: Sequence[str],
    relations: Sequence[Relation],
    *,
    seed: int = 0,
    direction: str = "in",
    messages: str = "type",
    hidden: int = 4,
    valid: float = 0.5,  # share of all (type, type, relation) that is valid
    self_rules: float = 0.0,  # share of the valid rules that a device may have with itself
    step: float = 0.0,  # weights are multiples of it, so that many scores are equal; 0: any numbers
    size: float = 1.0,  # of the weights
) -> SavedModel:
    """A network as `graphrule` has it with these options; counts are drawn too."""
    chance = np.random.default_rng(seed)
    n_types, n_relations = len(types), len(relations)
    width = max(n_relations, hidden)
    ways = {"in": ("in",), "out": ("out",), "both": ("in", "out"), "none": ()}[direction]
    shapes: dict[str, tuple[int, ...]] = {}
    for layer, inputs in ((1, n_types), (2, hidden)):
        shapes |= {f"theta.{part}{layer}": (inputs, hidden) for part in ("self", *ways)}
        shapes[f"theta.bias{layer}"] = (hidden,)
        if messages == "relation":
            shapes |= {f"theta.relation_{way}{layer}": (n_relations, hidden) for way in ways}
    shapes |= {"phi.trigger": (hidden, width), "phi.action": (hidden, width), "phi.hidden_bias": (width,)}
    shapes |= {"phi.relation": (n_relations, width), "phi.relation_bias": (n_relations,)}
    weights = {f"weights.{name}": _drawn(chance, shape, step, size) for name, shape in shapes.items()}
    cell = np.flatnonzero(chance.random(n_types**2 * n_relations) < valid)
    counts = {
        "valid.cell": cell,
        "counts.homes": np.array([1000]),
        "counts.have": chance.integers(1, 500, len(cell)),
        "counts.self_rules": (chance.random(len(cell)) < self_rules).astype(np.int64),
        "counts.both": chance.integers(500, 1000, n_types**2),
    }
    options = asdict(build("graphrule", direction=direction, messages=messages, hidden=hidden))
    card = Card("graphrule", options, tuple(types), tuple(relations), Scale(0.5, -1.0))
    return SavedModel(card, weights | counts)


def _drawn(
    chance: np.random.Generator, shape: tuple[int, ...], step: float, size: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    weights = chance.normal(0, 1, shape)
    if step:
        weights = np.rint(weights / step) * step
    return (weights * size).astype(np.float32)


class Case(NamedTuple):
    """A model and homes in its vocabulary; not only of rules that are valid."""

    saved: SavedModel
    homes: Homes


@st.composite
def cases(draw: st.DrawFn, *, min_homes: int = 1, max_homes: int = 4, max_devices: int = 6, bare: bool = True) -> Case:
    """Models of all directions and messages, with nothing to everything valid, with and without many equal scores."""
    homes = draw(
        random_homes(
            min_homes=min_homes,
            max_homes=max_homes,
            max_devices=max_devices,
            max_types=6,
            max_relations=12,
            bare=bare,
            groups=False,
        )
    )
    direction = draw(st.sampled_from(["in", "out", "both", "none"]))
    saved = random_model(
        homes.types,
        homes.relations,
        seed=draw(st.integers(0, 9999)),
        direction=direction,
        messages=draw(st.sampled_from(["type", "relation"])) if direction != "none" else "type",
        hidden=draw(st.integers(1, 5)),
        valid=draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        self_rules=draw(st.sampled_from([0.0, 0.5, 1.0])),
        step=draw(st.sampled_from([0.0, 0.5, 8.0])),  # 8: all weights are 0
    )
    return Case(saved, homes)
