"""The options that decide what a graph model is, and what supports which of them; imports no torch.

The one place where a model option is declared. Its metadata says how the rest of the code treats it; whoever needs to
know asks `parameters_depend_on` or `needs_defaults`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Flag, auto
from typing import Literal, NamedTuple, TypeAlias

Encoders: TypeAlias = Literal["sage", "gcn", "gat"]
Presets: TypeAlias = Literal["paper-text", "authors-code"]
Biases: TypeAlias = Literal["none", "learned", "counts"]
Direction: TypeAlias = Literal["in", "out", "both", "none"]
Messages: TypeAlias = Literal["type", "relation"]

# The edges that messages follow: from a rule's trigger to its action ("in"), or back. None at all leaves a device its
# type only, the ablation of the graph.
EDGES: dict[str, tuple[str, ...]] = {"in": ("in",), "out": ("out",), "both": ("in", "out"), "none": ()}


class Supports(Flag):
    """What handles every value of an option; all else handles its default only."""

    NONE = 0
    NO_NETWORK = auto()  # a model without a network, hidden 0
    NUMPY = auto()  # inference without torch, fedrule/inference/network.py


class Preset(NamedTuple):
    """Sizes that the authors published."""

    hidden: int
    predictor_hidden: int  # 0: as many as relations
    dropout: float


PRESETS = {"paper-text": Preset(16, 0, 0.0), "authors-code": Preset(32, 32, 0.5)}

# What an option's metadata may say: what supports it, and whether the model's parameters depend on it.
ALWAYS = {"supports": Supports.NO_NETWORK | Supports.NUMPY, "parameters": True}
TRAINING = {"supports": Supports.NO_NETWORK | Supports.NUMPY, "parameters": False}
NETWORK = {"supports": Supports.NONE, "parameters": True}
NUMPY_NETWORK = {"supports": Supports.NUMPY, "parameters": True}
TERM = {"supports": Supports.NO_NETWORK, "parameters": True}


@dataclass(frozen=True)
class ModelOptions:
    """What the score is made of: by default Algorithm 1 and the paper's predictor."""

    preset: Presets = field(default="paper-text", metadata=ALWAYS)  # published sizes of the next three
    hidden: int = field(default=-1, metadata=ALWAYS)  # size of hidden states and embeddings; 0: no network; -1: preset
    predictor_hidden: int = field(default=-1, metadata=ALWAYS)  # units in the predictor; 0: as many as relations
    dropout: float = field(default=-1.0, metadata=TRAINING)  # of hidden states, of the encoder and of `evidence`
    encoder: Encoders = field(default="sage", metadata=NETWORK)  # the paper chose sage over gcn and gat
    self_loops: bool = field(default=False, metadata=NETWORK)  # gcn, gat: a device receives its own message too
    heads: int = field(default=1, metadata=NETWORK)  # gat: attention heads
    direction: Direction = field(default="in", metadata=ALWAYS)  # messages to actions (in), triggers (out), both, none
    messages: Messages = field(default="type", metadata=NUMPY_NETWORK)  # the neighbour's state, or also the relation
    node_embedding: int = field(default=0, metadata=NETWORK)  # size of an embedding that numbers devices of one type
    bias: Biases = field(default="none", metadata=TERM)  # of each (type, relation, type): learned, or from counts
    context: int = field(default=0, metadata=TERM)  # size of a vector of all that the home has and owns; 0: none
    evidence: int = field(default=0, metadata=TERM)  # hidden units of a network on plain graph features; 0: none


def parameters_depend_on() -> list[str]:
    """The options that a saved model cannot change."""
    return [each.name for each in fields(ModelOptions) if each.metadata["parameters"]]


def needs_defaults(supports: Supports) -> dict[str, object]:
    """The options that must keep their default, and that default, where only what `supports` says is handled."""
    return {each.name: each.default for each in fields(ModelOptions) if supports not in each.metadata["supports"]}
