"""The options that decide what a graph model is, and what supports which of them; imports no torch.

The one place where a model option is declared. Its metadata says how the rest of the code treats it; whoever needs to
know asks `parameters_depend_on` or `needs_defaults`. Also the presets, how options that are not given follow from them
and from each other (`derived`), and which a method refuses (`check_available`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from datasets.common.errors import DataError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Encoders: TypeAlias = Literal["sage", "gcn", "gat", "compgcn", "rgcn", "hgt"]
Presets: TypeAlias = Literal["paper-text", "authors-code", "paper"]
Biases: TypeAlias = Literal["none", "learned", "counts"]
Direction: TypeAlias = Literal["in", "out", "both", "none"]
Messages: TypeAlias = Literal["type", "relation"]

# The edges that messages follow: from a rule's trigger to its action ("in"), or back. None at all leaves a device its
# type only, the ablation of the graph.
EDGES: dict[str, tuple[str, ...]] = {"in": ("in",), "out": ("out",), "both": ("in", "out"), "none": ()}

# What an encoder has no use for, since it is there anyway, or since nothing would change.
UNUSED: dict[Encoders, tuple[str, ...]] = {
    "sage": ("self_loops", "heads"),  # a device's own state is there without a loop
    "gcn": ("messages", "heads"),
    "gat": ("messages",),
    "compgcn": ("messages", "self_loops", "heads"),  # it has relations and loops anyway
    "rgcn": ("messages", "self_loops", "heads"),  # it has relations and W_0 anyway
    "hgt": ("messages", "self_loops"),  # it has relations, and the gate keeps a state
}


class Supports(Flag):
    """What handles every value of an option; all else handles its default only."""

    NONE = 0
    NO_NETWORK = auto()  # a model without a network, hidden 0
    NUMPY = auto()  # inference without torch, fedrule/inference/network.py


# What the authors published: the sizes of the text, which are the defaults below, those of the public code, and the
# text's way of training (section 4.2). It does not say where Adam runs and whether its moments are kept: `paper` is the
# reading in which the paper's results come out (docs/federated.md), Adam in the homes with moments that are kept, and a
# server that averages.
PRESETS: dict[str, dict[str, object]] = {
    "paper-text": {},
    "authors-code": {"hidden": 32, "predictor_hidden": 32, "dropout": 0.5, "weight_decay": 0.0},
    "paper": {"rounds": 100, "learning_rate": 0.1, "dropout": 0.0, "weight_decay": 0.0}
    | {"local_steps": 3, "client_optimizer": "kept-adam", "server_optimizer": "plain"}  # of federated methods
    | {"gnn_lambda": 1.0, "predictor_lambda": 1.0},
}

# What an option's metadata may say: what supports it, and whether the model's parameters depend on it.
ALWAYS = {"supports": Supports.NO_NETWORK | Supports.NUMPY, "parameters": True}
TRAINING = {"supports": Supports.NO_NETWORK | Supports.NUMPY, "parameters": False}
NETWORK = {"supports": Supports.NONE, "parameters": True}
NUMPY_NETWORK = {"supports": Supports.NUMPY, "parameters": True}
TERM = {"supports": Supports.NO_NETWORK, "parameters": True}


def derived(default: object, metadata: Mapping[str, object] | None = None) -> Any:
    """A dataclass field that, unless given, follows from the preset, or is `default`: a value, or a function of `self`.

    The function may use options that are declared before this one.
    """
    return field(default=None, metadata={**(metadata or {}), "default": default})


def complete(options: DataclassInstance, preset: Mapping[str, object] | None = None) -> None:
    """Fill in the options that were not given, of a preset where it has them.

    They are stored in full, since the parameters are the key of a result.
    """
    for each in fields(options):
        if getattr(options, each.name) is None and "default" in each.metadata:
            value = (preset or {}).get(each.name, each.metadata["default"])
            object.__setattr__(options, each.name, value(options) if callable(value) else value)


def check_available(method: str, options: DataclassInstance, unavailable: Mapping[str, str]) -> None:
    """An error for an option that the method has no use for, with the reason, unless it is at its default."""
    for each in fields(options):
        if each.name in unavailable:
            default = each.metadata.get("default", each.default)
            default = default(options) if callable(default) else default
            if (value := getattr(options, each.name)) != default:
                message = f"{method}: {each.name} {value!r} {unavailable[each.name]}"
                raise DataError(f"{message} (leave it at {default!r})")


# What methods put into `UNAVAILABLE`: options that are refused unless they are left at their default, and why.
PAPERS_PRESETS = {"preset": "is for the paper's methods, e.g. graphrule and fedrule; set single options"}


def one_encoder(encoder: Encoders) -> dict[str, str]:
    """What is not available where the encoder is always this one."""
    unused = dict.fromkeys(UNUSED[encoder], f"is no option of encoder {encoder!r}")
    return {"encoder": "cannot be changed here; graphrule has all encoders"} | unused


@dataclass(frozen=True)
class ModelOptions:
    """What the score is made of: by default Algorithm 1 and the paper's predictor."""

    UNAVAILABLE: ClassVar[dict[str, str]] = {}  # options that the method has no use for, and why

    preset: Presets = field(default="paper-text", metadata=ALWAYS)  # published sizes; paper: and its way of training
    hidden: int = derived(16, ALWAYS)  # size of hidden states and embeddings; 0: no network
    predictor_hidden: int = derived(0, NUMPY_NETWORK)  # units in the predictor; 0: as many as relations
    dropout: float = derived(0.0, TRAINING)  # of hidden states, of the encoder and of `evidence`
    encoder: Encoders = field(default="sage", metadata=NETWORK)  # the paper chose sage over gcn and gat
    self_loops: bool = field(default=False, metadata=NETWORK)  # gcn, gat: a device receives its own message too
    heads: int = field(default=1, metadata=NETWORK)  # gat, hgt: attention heads
    direction: Direction = field(default="in", metadata=NUMPY_NETWORK)  # messages to actions (in) or triggers (out)
    messages: Messages = field(default="type", metadata=NUMPY_NETWORK)  # the neighbour's state, or also the relation
    node_embedding: int = field(default=0, metadata=NETWORK)  # size of an embedding that numbers devices of one type
    bias: Biases = field(default="none", metadata=TERM)  # of each (type, relation, type): learned, or from counts
    context: int = field(default=0, metadata=TERM)  # size of a vector of all that the home has and owns; 0: none
    evidence: int = field(default=0, metadata=TERM)  # hidden units of a network on plain graph features; 0: none
    words: bool = field(default=False, metadata=TERM)  # of devices, mostly rooms: which devices share one

    def complete(self) -> None:
        """Fill in what was not given."""
        complete(self, PRESETS[self.preset])


def parameters_depend_on(method: type[object] = ModelOptions) -> list[str]:
    """The options that a saved model cannot change; those of a method are among them."""
    shared = [each.name for each in fields(ModelOptions) if each.metadata["parameters"]]
    declared = fields(cast("type[DataclassInstance]", method))
    return shared + [each.name for each in declared if each.name not in shared and each.metadata.get("parameters")]


def needs_defaults(supports: Supports) -> dict[str, object]:
    """The options that must keep their default, and that default, where only what `supports` says is handled."""
    handled = (each for each in fields(ModelOptions) if supports not in each.metadata["supports"])
    return {each.name: each.metadata.get("default", each.default) for each in handled}
