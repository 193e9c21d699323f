"""The ten questions, and their answers: a sentence each, the numbers behind it, and a command that shows more of them.

The wording follows the numbers. A question whose results are missing says which command makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.results.status import SIGN
from datasets.common.errors import DataError
from reports import boards
from reports.findings.federation import cost_of_federation, what_algorithm_2_buys
from reports.findings.formulations import (
    by_number_of_homes,
    homes_not_seen_in_training,
    more_than_user_item,
    which_formulation,
)
from reports.findings.hidden_rules import by_size_of_homes, rules_unseen_in_training, what_remains_open
from reports.findings.numbers import AHEAD, BEHIND, HIGHER, LOWER, UNDECIDED
from reports.findings.protocol import what_the_protocol_hides
from reports.findings.statement import Statement
from reports.inputs import Inputs
from reports.outputs import BUILD, Missing, Table, run_files

HOW_TO_READ = (
    "A list is a data set with the devices of one type merged, or with single devices. Lists of the same homes are not "
    "independent. A data set with other options than its defaults is another one.",
    f"Brackets: {boards.CONFIDENCE} intervals over homes and seeds; over homes alone with one seed; over seeds alone "
    "where it says so.",
    "Ranges go from the lowest list to the highest. The best method is picked on the list that it is shown on, and its "
    "interval does not know of the choice: it looks better than it is.",
    f"{AHEAD.capitalize()}, {BEHIND}, told apart: by the {boards.TIE_TEST}. The test knows of all pairs and can leave "
    "open what an interval alone would not.",
    f"{HIGHER.capitalize()}, {LOWER}, else {UNDECIDED}: of two that were to be compared before anything was run. The "
    f"{boards.CONFIDENCE} interval of their ratio excludes 1, or that of their difference 0 (in the paper's setting). "
    "It is paired by seed and home and not corrected for several lists. `compare` corrects, and may say otherwise.",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """A question to the results."""

    name: str  # of its anchor
    title: str
    command: str  # shows numbers behind its answer
    state: Callable[[Inputs], Statement]  # raises Missing


@dataclass(frozen=True, slots=True)
class Answer:
    """What results say to it."""

    finding: Finding
    headline: str  # one sentence; what is missing, where they say nothing
    details: tuple[str | Table, ...]
    command: str  # shows numbers behind it, or makes what is missing
    sources: tuple[str, ...]  # none where they say nothing

    @property
    def known(self) -> bool:
        """Whether they say something."""
        return bool(self.sources)

    @property
    def signed(self) -> bool:
        """Whether the training of some method that it names went wrong."""
        cells = [cell.text for each in self.details if isinstance(each, Table) for row in each.rows for cell in row]
        return any(SIGN in text for text in (self.headline, *cells))


def findings(inputs: Inputs) -> list[Answer]:
    """The answers to all of FINDINGS."""
    return [_answer(finding, inputs) for finding in FINDINGS]


def _answer(finding: Finding, inputs: Inputs) -> Answer:
    try:
        stated = finding.state(inputs)
    except Missing as missing:
        return _unknown(finding, missing.what, missing.command)
    except DataError as error:  # results of different data, or their tables are gone
        return _unknown(finding, str(error), f"{BUILD} --results DIR")
    return Answer(finding, stated.headline, stated.details, finding.command, run_files(stated.runs))


def _unknown(finding: Finding, why: str, command: str) -> Answer:
    return Answer(finding, f"These results do not say: {why.rstrip('.')}.", (), command, ())


SHOW = "python -m reports.build --no-run"
FINDINGS = (
    Finding("formulation", "Which formulation wins", "python -m benchmarks leaderboard", which_formulation),
    Finding("user-item", "How much more than user-item methods", f"{SHOW} --only ratios", more_than_user_item),
    Finding(
        "federation", "What federation costs", "python -m benchmarks compare fedrank graphrank", cost_of_federation
    ),
    Finding(
        "algorithm-2", "What Algorithm 2 buys", "python -m benchmarks compare fedrule fedgnn", what_algorithm_2_buys
    ),
    Finding("protocol", "What the paper's protocol hides", f"{SHOW} --only leaderboard-paper", what_the_protocol_hides),
    Finding("homes", "How it changes with the number of homes", f"{SHOW} --only scaling-table", by_number_of_homes),
    Finding("home-size", "How it changes with the size of homes", f"{SHOW} --only home-sizes", by_size_of_homes),
    Finding("unseen-rules", "Rules unseen in training", f"{SHOW} --only home-sizes", rules_unseen_in_training),
    Finding("new-homes", "Homes not seen in training", f"{SHOW} --only ratios", homes_not_seen_in_training),
    Finding("open", "What remains open", f"{SHOW} --only leaderboard", what_remains_open),
)
