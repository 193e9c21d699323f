"""The method of a run as server and nodes agree on it: one text, and what of it can be deployed at all."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.valid import ValidRules
from fedrule.federated.array_file import AnyArray
from fedrule.federated.vectors import FlatParameters
from fedrule.flower.messages import Refusal
from fedrule.flower.vocabulary import Vocabulary

if TYPE_CHECKING:
    from baselines.method import Method
    from fedrule.methods.federated import Federated

SECURE_NODES = 3  # of two in a sum each can take its own vector from it and see the other's
NO_ATTACK: dict[str, object] = {"attack": "none", "attackers": 0.0, "promoted": ""}  # options of a simulation
OWN_METHODS = ("fedrule.methods.federated", "fedrule.methods.fedrank")  # modules


def method_text(name: str, parameters: Mapping[str, object]) -> str:
    """A method and what is given of its parameters, as one text that says whether two are equal."""
    if odd := [key for key, value in parameters.items() if isinstance(value, float) and not math.isfinite(value)]:
        raise DataError(f"{name}: {odd[0]} must be a finite number, got {parameters[odd[0]]}")
    return json.dumps({"name": name, "parameters": dict(parameters)}, sort_keys=True, allow_nan=False)


def federated_method(text: str) -> Federated:
    """The method that a text of `method_text` describes; refused where it is for the simulation only."""
    from baselines.registry import build

    content = json.loads(text)
    federated_class(content["name"])
    # Before the method is built, which refuses half of an attack by naming the other half.
    parameters = content["parameters"]
    if simulated := [name for name, no in NO_ATTACK.items() if parameters.get(name, no) != no]:
        raise DataError(
            f"{content['name']}: {simulated[0]} is for the simulation, where some homes are made attackers; homes of a "
            "deployment attack or not by themselves: leave it out"
        )
    method = cast("Federated", build(content["name"], **content["parameters"]))
    method.refuse_deployment()
    if method.validation:
        raise DataError(
            f"{method.NAME}: validation {method.validation} needs rules that no home may show; set it to 0 and choose "
            "the number of rounds in a simulation"
        )
    return method


def federated_class(name: str) -> type[Method]:
    """The class of a federated method."""
    for module in OWN_METHODS:  # imported by name: a node need not have all packages of the extra that they belong to
        importlib.import_module(module)
    from baselines.registry import get
    from fedrule.methods.federated import Federated

    found = get(name)
    if not issubclass(found, Federated):
        raise DataError(f"{name} is not trained in the homes; deploy a federated method: fedrank, fedgnn, fedrule, ...")
    return found


def check_deployment(method: Federated, nodes: int, *, with_rules: AnyArray | None = None) -> None:
    """Refuse what no run on so many nodes could do; more of it where it is known which homes there are.

    Secure sums of too few nodes, or of cohorts on too few; an epsilon that no noise meets; homes without any rule.
    """
    secure, engine = method.secure_threshold > 0, method.engine()
    if secure and nodes < SECURE_NODES:
        raise DataError(
            f"secure sums need at least {SECURE_NODES} nodes, got {nodes}: of two nodes each can take its own vector "
            "from the sum and see the other's; set nodes, or secure_threshold to 0"
        )
    cohort = engine.cohorts.size
    if with_rules is not None:
        if not with_rules.any():
            raise DataError("no home of this federation has a rule; there is nothing to learn from")
        n_clients = engine.n_clients(with_rules)
        fraction = engine.cohorts.fraction(n_clients)
        cohort = round(fraction * int(with_rules.sum()))
        if method.privacy.noisy:
            method.privacy.account(n_clients, fraction)
    if secure and (cohort or with_rules is not None) and cohort < (needed := threshold_of_nodes(method, nodes)):
        raise DataError(
            f"a cohort of {cohort} homes is too small for secure sums of {nodes} nodes, which need a home on each "
            f"of {needed} nodes at least; set a larger cohort or participation, or a smaller secure_threshold"
        )


def threshold_of_nodes(method: Federated, n: int) -> int:
    """How many of n nodes a secure sum needs at least."""
    return max(SECURE_NODES, method.engine().secure_threshold_of(n))


def layout_text(layout: FlatParameters) -> Json:
    return {
        "names": [*layout.names],
        "shapes": [[*shape] for shape in layout.shapes],
        "n_theta": layout.n_theta,
        "n_rows": layout.n_rows,
        "row_length": layout.row_length,
    }


def layout_of(content: object) -> FlatParameters:
    """The layout of `layout_text`."""
    if not isinstance(content, dict):
        raise Refusal("the setup of this run has no layout; the server has another version of fedrule")
    shapes = tuple(tuple(map(int, shape)) for shape in content["shapes"])
    numbers = (int(content[name]) for name in ("n_theta", "n_rows", "row_length"))
    layout = FlatParameters(tuple(map(str, content["names"])), shapes, *numbers)
    if any(math.prod(shape) < 0 for shape in shapes) or layout.size < 1:
        raise Refusal("the setup of this run has a layout without parameters")
    return layout


def valid_rules(vocabulary: Vocabulary, cell: AnyArray) -> ValidRules:
    return ValidRules.of_cells(len(vocabulary.types), len(vocabulary.relations), cell.astype(np.int64))
