"""Every figure and table in the order of the page; a new one is a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from datasets.common.errors import unknown
from reports.figures import by_round, inference, scaling, tradeoffs
from reports.figures import by_round as sensitivity
from reports.figures import data as formulations
from reports.figures import data as home_counts
from reports.figures import leaderboard as leaderboards
from reports.figures import ranking as breakdown
from reports.figures import ranking as hit_rates
from reports.inputs import Inputs
from reports.output_types import Drawing, Missing, Table
from reports.selection import IFTTT, INSTANCES, WYZE
from reports.tables import data as data_statistics
from reports.tables import example, settings
from reports.tables import results as final_results
from reports.tables import results as leaderboard
from reports.tables import settings as environment

Make: TypeAlias = Callable[[Inputs], Drawing] | Callable[[Inputs], Table]


@dataclass(frozen=True, slots=True)
class Output:
    """One figure or table."""

    name: str  # of its files and of --only
    title: str
    section: str  # of the page
    kind: Literal["figure", "table"]
    make: Make


@dataclass(frozen=True, slots=True, eq=False)
class BuiltOutput:
    """An output and its files; `refused` where its runs must not be put together."""

    output: Output
    content: Drawing | Table | Missing
    files: dict[str, bytes]  # by path below the page's folder
    refused: bool = False


RANKING = "Leaderboard"
FORMULATIONS = "Two ways to see a home"
LISTS = "What a person sees: the list"
ROUNDS = "Training by round"
SYSTEM = "Time, memory and bytes"
DATA = "The data"
DETAILS = "Settings and circumstances"

OUTPUTS: tuple[Output, ...] = (
    Output("leaderboard", "Leaderboard", RANKING, "table", leaderboard.leaderboard),
    Output("example-home", "A home as a row and as a graph", FORMULATIONS, "figure", formulations.example_home),
    Output("example-rules", "One home and its rules", FORMULATIONS, "table", example.example_rules),
    Output("recommendations", "What each method recommends to it", FORMULATIONS, "table", example.recommendations),
    Output("leaderboard-intervals", "Who is ahead, and who is tied", LISTS, "figure", leaderboards.intervals),
    Output("hit-rate", "Hit rate of the formulations", LISTS, "figure", hit_rates.formulations),
    Output("hit-rate-wyze", "Hit rate in smart homes", LISTS, "figure", hit_rates.federated(WYZE)),
    Output("hit-rate-ifttt", "Hit rate for recipes", LISTS, "figure", hit_rates.federated(IFTTT)),
    Output("hit-rate-instances", "Hit rate among single devices", LISTS, "figure", hit_rates.federated(INSTANCES)),
    Output("home-sizes", "By home size, seen and unseen rules", LISTS, "figure", breakdown.sizes),
    Output("results-wyze", "Final results in smart homes", ROUNDS, "table", final_results.final_results(WYZE)),
    Output("rounds-wyze", "Smart homes by round", ROUNDS, "figure", by_round.federated(WYZE)),
    Output("results-ifttt", "Final results for recipes", ROUNDS, "table", final_results.final_results(IFTTT)),
    Output("rounds-ifttt", "Recipes by round", ROUNDS, "figure", by_round.federated(IFTTT)),
    Output("rounds-instances", "Single devices by round", ROUNDS, "figure", by_round.federated(INSTANCES)),
    Output("rounds-gnn", "GraphSAGE, GCN and GAT by round", ROUNDS, "figure", by_round.encoders),
    Output("learning-rates", "Learning rates of the homes", ROUNDS, "figure", sensitivity.learning_rates),
    Output("leaderboard-paper", "The paper's measures", ROUNDS, "table", leaderboard.paper_protocol),
    Output("time", "Accuracy against training time", SYSTEM, "figure", tradeoffs.time),
    Output("bytes", "Accuracy against bytes sent", SYSTEM, "figure", tradeoffs.bytes_sent),
    Output("scaling", "Time and memory against homes", SYSTEM, "figure", scaling.scaling),
    Output("inference-time", "Inference time against home size", SYSTEM, "figure", inference.delay),
    Output("inference-memory", "Memory of inference", SYSTEM, "figure", inference.memory),
    Output("data", "Data beside the published numbers", DATA, "table", data_statistics.statistics),
    Output("home-counts", "How large homes are", DATA, "figure", home_counts.home_counts),
    Output("entities", "Entity types", DATA, "table", data_statistics.entities),
    Output("pairs", "Trigger-action pairs", DATA, "table", data_statistics.pairs),
    Output("parameters", "Parameters", DETAILS, "table", settings.parameters),
    Output("tuning", "Tuning", DETAILS, "table", settings.tuning),
    Output("environment", "Circumstances", DETAILS, "table", environment.environment),
)


def chosen_outputs(names: Sequence[str], besides: Sequence[str] = ()) -> list[Output]:
    """Those that are named, in the order of the page; all of them where none is. `besides` are other names to allow."""
    known = [output.name for output in OUTPUTS]
    for name in names:
        if name not in (*known, *besides):
            raise unknown("output", name, (*known, *besides))
    return [output for output in OUTPUTS if not names or output.name in names]
