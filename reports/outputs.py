"""Every figure and table in the order of the page; a new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from datasets.common.errors import unknown
from reports.inputs import Inputs
from reports.output_types import Drawing, Table
from reports.selection import IFTTT, INSTANCES, WYZE, Role


@dataclass(frozen=True, slots=True)
class Output:
    """One figure or table."""

    name: str  # of its files and of --only
    title: str
    section: str  # of the page
    kind: Literal["figure", "table"]
    make: Callable[[Inputs], Drawing | Table]  # raises `Missing` where the results do not have what it needs


def _output(name: str, title: str, section: str, path: str, *arguments: Role) -> Output:
    """Made by a function of reports/figures or reports/tables that is imported then: tables need no matplotlib."""

    def make(inputs: Inputs) -> Drawing | Table:
        module, _, function = path.rpartition(".")
        found: Callable[..., Drawing | Table] = getattr(import_module(f"reports.{module}"), function)
        return found(inputs, *arguments)

    return Output(name, title, section, "figure" if path.startswith("figures.") else "table", make)


RANKING = "Leaderboard"
FORMULATIONS = "Two formulations"
LISTS = "The recommendation list"
ROUNDS = "Training by round"
SYSTEM = "Time, memory and bytes"
DATA = "The data"
DETAILS = "Settings and environment"

OUTPUTS: tuple[Output, ...] = (
    _output("leaderboard", "Leaderboard", RANKING, "tables.results.leaderboard"),
    _output("example-home", "A home as a row and as a graph", FORMULATIONS, "figures.data.example_home"),
    _output("example-rules", "One home and its rules", FORMULATIONS, "tables.example.example_rules"),
    _output("recommendations", "What each method recommends to it", FORMULATIONS, "tables.example.recommendations"),
    _output("leaderboard-intervals", "Leaders and ties", LISTS, "figures.leaderboard.intervals"),
    _output("hit-rate", "Hit rate of the formulations", LISTS, "figures.ranking.formulations"),
    _output("hit-rate-wyze", "Hit rate in smart homes", LISTS, "figures.ranking.federated", WYZE),
    _output("hit-rate-ifttt", "Hit rate for recipes", LISTS, "figures.ranking.federated", IFTTT),
    _output("hit-rate-instances", "Hit rate among single devices", LISTS, "figures.ranking.federated", INSTANCES),
    _output("home-sizes", "By home size, seen and unseen rules", LISTS, "figures.ranking.sizes"),
    _output("results-wyze", "Final results in smart homes", ROUNDS, "tables.results.final_results", WYZE),
    _output("rounds-wyze", "Smart homes by round", ROUNDS, "figures.by_round.federated", WYZE),
    _output("results-ifttt", "Final results for recipes", ROUNDS, "tables.results.final_results", IFTTT),
    _output("rounds-ifttt", "Recipes by round", ROUNDS, "figures.by_round.federated", IFTTT),
    _output("rounds-instances", "Single devices by round", ROUNDS, "figures.by_round.federated", INSTANCES),
    _output("rounds-gnn", "GraphSAGE, GCN and GAT by round", ROUNDS, "figures.by_round.encoders"),
    _output("learning-rates", "Learning rates of the clients", ROUNDS, "figures.by_round.learning_rates"),
    _output("leaderboard-paper", "The paper's measures", ROUNDS, "tables.results.paper_protocol"),
    _output("time", "Accuracy against training time", SYSTEM, "figures.tradeoffs.time"),
    _output("bytes", "Accuracy against bytes sent", SYSTEM, "figures.tradeoffs.bytes_sent"),
    _output("scaling", "Time and memory against number of homes", SYSTEM, "figures.scaling.scaling"),
    _output("inference-time", "Inference time against home size", SYSTEM, "figures.inference.delay"),
    _output("inference-memory", "Memory of inference", SYSTEM, "figures.inference.memory"),
    _output("data", "Data sets and published numbers", DATA, "tables.data.statistics"),
    _output("home-counts", "Sizes of homes", DATA, "figures.data.home_counts"),
    _output("entities", "Entity types", DATA, "tables.data.entities"),
    _output("pairs", "Trigger-action pairs", DATA, "tables.data.pairs"),
    _output("parameters", "Parameters", DETAILS, "tables.settings.parameters"),
    _output("tuning", "Tuning", DETAILS, "tables.settings.tuning"),
    _output("environment", "Environment", DETAILS, "tables.settings.environment"),
)


def chosen_outputs(names: Sequence[str], besides: Sequence[str] = ()) -> list[Output]:
    """The named outputs in the order of the page, or all; `besides` are other names to accept."""
    known = [output.name for output in OUTPUTS]
    for name in names:
        if name not in (*known, *besides):
            raise unknown("output", name, (*known, *besides))
    return [output for output in OUTPUTS if not names or output.name in names]
