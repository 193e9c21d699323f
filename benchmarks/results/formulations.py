"""What each method is: the formulation of the problem that it belongs to, and where it is trained.

By name, since a result has the name of its method and not its code, and a list of methods imports none of them. A
method that is not here is of no known formulation; whether it is federated then shows in the history of its runs.
"""

from __future__ import annotations

from dataclasses import dataclass

NON_PERSONALIZED, USER_ITEM, KNOWLEDGE_GRAPH = "non-personalized", "user-item", "knowledge graph"
GRAPH, FEATURES, PROBE = "graph", "features", "probe"
FEDERATED, OTHER = "federated", "other"
CENTRAL_LEAVES = "all devices and rules"  # what leaves a home for a method that is trained in one place


@dataclass(frozen=True, slots=True)
class Formulation:
    """A way to pose the problem, and the methods of it that have all data in one place."""

    name: str
    family: str  # of figures, which tell fewer apart
    central: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FederatedMethod:
    """A method that is trained in the homes."""

    name: str
    twins: tuple[str, ...]  # the same kind of model with all data in one place; its formulation is that of the first
    leaves: str  # what leaves a home


FORMULATIONS = (
    Formulation("non-personalized", NON_PERSONALIZED, ("popularity", "random")),
    Formulation("user-item, neighbours", USER_ITEM, ("itemknn",)),
    Formulation("user-item, linear", USER_ITEM, ("ease",)),
    Formulation("user-item, factors", USER_ITEM, ("mf",)),
    Formulation("user-item, graph convolution", USER_ITEM, ("gcmc", "lightgcn")),
    Formulation("knowledge graph", KNOWLEDGE_GRAPH, ("complex", "rotate")),
    Formulation("graph neural network", GRAPH, ("graphrule", "sagerank")),
    Formulation("relational graph neural network", GRAPH, ("compgcn", "rgcn", "hetgnn")),
    Formulation("evidence ranking", GRAPH, ("graphrank",)),
    Formulation("features", FEATURES, ("graphfeatures", "recrules", "takg")),
    Formulation("probe of the data", PROBE, ("orphans",)),  # not a competitor
)
UPDATE = "update of the network"
TYPED_RULES = "its typed rules as zeros and ones, once; then"
FEDERATED_METHODS = (
    FederatedMethod("fedease", ("ease",), "its typed rules, owned types and pairs of them as zeros and ones, once"),
    FederatedMethod("fcf", ("mf",), f"{TYPED_RULES} gradients of the item factors"),
    FederatedMethod("fedmf", ("mf",), f"{TYPED_RULES} gradients of the item factors"),
    FederatedMethod("fedlightgcn", ("lightgcn",), f"{TYPED_RULES} gradients of item embeddings"),
    FederatedMethod("fede", ("complex", "rotate"), f"{TYPED_RULES} updates of the rows of its types and relations"),
    FederatedMethod("fedgnn", ("graphrule",), UPDATE),
    FederatedMethod("fedrule", ("graphrule",), UPDATE),
    FederatedMethod("fedprox", ("graphrule",), UPDATE),
    FederatedMethod("fedgate", ("graphrule",), UPDATE),
    FederatedMethod("scaffold", ("graphrule",), UPDATE),
    FederatedMethod("fedcompgcn", ("compgcn",), f"{TYPED_RULES} {UPDATE}"),
    FederatedMethod("fedrank", ("graphrank",), "counts of patterns in its rules, once; then updates of their weights"),
)

_FORMULATION = {method: each for each in FORMULATIONS for method in each.central}
_FEDERATED = {each.name: each for each in FEDERATED_METHODS}


def formulation_of(method: str) -> Formulation | None:
    """Of a method or of its twin; None where it is not known."""
    federated = _FEDERATED.get(method)
    return _FORMULATION.get(federated.twins[0] if federated else method)


def federated_method(method: str) -> FederatedMethod | None:
    """What is known of a federated method; None for any other."""
    return _FEDERATED.get(method)


def families() -> dict[str, tuple[str, ...]]:
    """Family -> methods, as figures tell them apart: those of a formulation, and the federated ones of all together."""
    found: dict[str, tuple[str, ...]] = {}
    for each in FORMULATIONS:
        found[each.family] = (*found.get(each.family, ()), *each.central)
    return found | {FEDERATED: tuple(_FEDERATED)}
