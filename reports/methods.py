"""A page per method: what it is, its numbers on every board, its paper's, its parameters, and how to run it.

Like the page of all methods, made from result files and from what this repository keeps beside them: formulations,
published numbers, and descriptions of our methods (benchmarks/results/methods.json). No method is imported; the page of
a method of another package has what its results say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.results.descriptions import read_description
from benchmarks.results.formulations import (
    CENTRAL_LEAVES,
    FEDERATED_METHODS,
    FORMULATIONS,
    OTHER,
    PROBE,
    federated_method,
    formulation_of,
)
from benchmarks.results.papers import published_numbers
from benchmarks.results.store import Result
from datasets.common.errors import DataError
from reports import boards
from reports.inputs import Inputs
from reports.outputs import About, Cell, Table
from reports.tables.published import OTHER_DATA, PAPERS, paper_row, published_facts
from reports.tables.results import board_label, board_order
from reports.tables.settings import STUDY, STUDY_NOTE, TUNE, parameter_rows, study_row
from reports.text.formats import (
    NONE,
    as_html,
    bytes_cell,
    count_cell,
    in_bytes,
    in_seconds,
    interval_cell,
    number_cell,
    round_number,
    seconds_cell,
)

FOLDER = "methods"
PROTOCOLS = {"ranking": "MRR", "paper": "AUC"}  # with the metric that lists are sorted by
PARAMETERS = ("parameter", "default", "meaning", "also run with", "tuned")
SHOW, RUN, COMPARE = "python -m benchmarks show", "python -m benchmarks run", "python -m benchmarks compare"
IMPORT_NOTE = (
    "It is of another package: add `--import MODULE` to each command, with the module that registers it, unless that "
    "package is installed with an entry point for `fedrule.methods`."
)
SUITES = ("default", "rivals", "smoke", "challenge", "paper")  # that the commands name, if the method was run in them


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page under a heading; a sentence where there is nothing to show."""

    title: str
    anchor: str
    caption: str = ""
    table: str = ""  # HTML
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MethodPage:
    """What the template shows of a method."""

    name: str
    summary: str
    about: tuple[str, ...]  # paragraphs: the paper, and what differs from it
    facts: tuple[tuple[str, str], ...]
    relatives: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # what they are, and names with addresses
    sections: tuple[Section, ...]
    commands: tuple[tuple[str, str], ...]  # and what each is for
    commands_note: str  # what they need besides
    warnings: tuple[str, ...]
    sources: tuple[str, ...]


def page_paths(inputs: Inputs) -> dict[str, str]:
    """Method -> path of its page below the report; methods that were run, or whose runs failed."""
    found: dict[str, str] = {}
    for method in sorted({run.key.method for run in (*inputs.runs, *inputs.failed)}):
        name = re.sub(r"[^\w.]+", "-", method, flags=re.ASCII).strip("-.") or "method"
        while f"{FOLDER}/{name}.html".lower() in map(str.lower, found.values()):
            name += "-"  # e.g. two methods that differ in their special characters
        found[method] = f"{FOLDER}/{name}.html"
    return found


def by_formulation(methods: Sequence[str]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Formulation -> its methods, and whether each is federated, in the order of `formulations`; unknown ones last."""
    groups: dict[str, list[tuple[str, bool]]] = {name: [] for name in (*(each.name for each in FORMULATIONS), OTHER)}
    for method in sorted(methods, key=lambda method: (federated_method(method) is not None, method)):
        known = formulation_of(method)
        groups[known.name if known else OTHER].append((method, federated_method(method) is not None))
    return [(name, found) for name, found in groups.items() if found]


def method_pages(inputs: Inputs) -> Iterator[tuple[str, MethodPage]]:
    """The path and the content of each page."""
    paths = page_paths(inputs)
    beside = {method: path.removeprefix(f"{FOLDER}/") for method, path in paths.items()}
    order = board_order(inputs)
    every = {
        protocol: sorted(boards.ranked_boards(inputs, protocol)[0], key=lambda each: order(each.board))
        for protocol in PROTOCOLS
    }
    for method, path in paths.items():
        runs = [run for run in inputs.runs if run.key.method == method]
        said = read_description(method)
        found = {protocol: _placed(shown, method) for protocol, shown in every.items()}
        results = [_results(method, protocol, shown) for protocol, shown in found.items() if shown]
        sections = [
            *(results or [Section("Results", "ranking", "No run of it is on a leaderboard.")]),
            _published(inputs, method),
            _parameters(inputs, method, runs),
            _tuning(inputs, method),
        ]
        yield (
            path,
            MethodPage(
                method,
                said.summary if said else "A method of another package.",
                tuple(said.about.split("\n\n")) if said else (),
                tuple(_facts(method, runs)),
                tuple(_relatives(method, beside)),
                tuple(sections),
                tuple(_commands(method, runs)),
                "" if said else IMPORT_NOTE,
                tuple(_warnings(inputs, method, found)),
                tuple(sorted(f"{run.key.hash}.json" for run in runs)),
            ),
        )


def _placed(shown: Sequence[boards.RankedBoard], method: str) -> list[tuple[boards.RankedBoard, str]]:
    """The boards that a method is on, with each of its rows."""
    return [
        (ranking, label)
        for ranking in shown
        for label in ranking.ordered
        if boards.runs_of(ranking.board, label)[0].key.method == method
    ]


def _facts(method: str, runs: Sequence[Result]) -> Iterator[tuple[str, str]]:
    formulation, federated = formulation_of(method), federated_method(method)
    sends = federated is not None or any(map(boards.sends, runs))
    yield "Formulation", formulation.name if formulation else "not known here"
    if formulation and formulation.family == PROBE:
        yield "What it is for", "a probe: what a hint in the data alone is worth; not a competitor"
    yield "Trained", "in the homes, one home per client" if sends else "with all data in one place"
    yield "Leaves a home", federated.leaves if federated else "updates" if sends else CENTRAL_LEAVES
    if sends and (sent := [value for run in runs if not math.isnan(value := boards.sent(run))]):
        least, most = in_bytes(min(sent)), in_bytes(max(sent))
        yield "Sent by a home", f"{least}{f' to {most}' if most != least else ''} in a whole training, by data set"
    if times := [run.seconds["fit"] for run in runs if run.seconds.get("fit", 0) > 0]:
        yield "Time of a fit, fastest to slowest run", _range(in_seconds(min(times)), in_seconds(max(times)))
    if memory := [run.memory["fit"] * 1e6 for run in runs if run.memory.get("fit", 0) > 0]:
        yield "Memory of a fit", f"{_range(in_bytes(min(memory)), in_bytes(max(memory)))}, imports included"
    data = sorted({run.key.data for run in runs})
    yield "Runs", f"{len(runs):,} on {', '.join(data)}" if runs else "none finished"


def _range(least: str, most: str) -> str:
    return least if least == most else f"{least} to {most}"


def _relatives(method: str, beside: Mapping[str, str]) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Its twins and the other methods of its formulation, those that have a page with their address."""
    federated, formulation = federated_method(method), formulation_of(method)
    twins = federated.twins if federated else tuple(each.name for each in FEDERATED_METHODS if method in each.twins)
    if twins:
        what = "The same kind of model with all data in one place" if federated else "Trained in the homes"
        yield what, _linked(twins, beside)
    others = [
        name for name in beside if formulation and formulation_of(name) == formulation and name not in (method, *twins)
    ]
    if others:
        yield "Others of its formulation", _linked(others, beside)


def _linked(names: Sequence[str], beside: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, beside.get(name, "")) for name in names)


def _results(method: str, protocol: str, shown: Sequence[tuple[boards.RankedBoard, str]]) -> Section:
    """A row per board and setting."""
    metric = PROTOCOLS[protocol]
    settings = any(label != method for _, label in shown)
    sends = any(map(boards.sends, (run for ranking, label in shown for run in boards.runs_of(ranking.board, label))))
    columns = [
        "data",
        *(["settings"] if settings else []),
        *(metric, "place", "group"),
        *(["HR@10"] if protocol == "ranking" else []),
        *("the best there", "homes", "seeds", "time of a fit", "memory"),
        *(["sent by a home"] if sends else []),
    ]
    rows = tuple(_result_row(method, *each, settings=settings, sends=sends) for each in shown)
    lists = [ranking.board for ranking, _ in shown]
    notes = [
        f"{metric} [{boards.interval_name(lists)}], mean over seeds; bold: the best of its list; {boards.UNDERLINED}.",
        f"Place: by the mean among all rows of the list. Group: of so many groups. {boards.GROUPS}",
        "Time and memory: of one fit in a process of its own; median time and mean memory over seeds.",
    ]
    if protocol == "ranking":
        title, anchor, caption = "Ranking all candidates", "ranking", boards.HEADLINE_NOTE
    else:
        title, anchor, caption = "The paper's measures", "paper-measures", "Hidden rules against sampled non-rules."
    about = About(caption, (), RUN)
    return Section(title, anchor, caption, as_html(Table(tuple(columns), rows, about)), tuple(notes))


def _result_row(
    method: str, ranking: boards.RankedBoard, label: str, *, settings: bool, sends: bool
) -> tuple[Cell, ...]:
    board, runs = ranking.board, boards.runs_of(ranking.board, label)
    place = ranking.ordered.index(label)
    row = ranking.table.iloc[place]
    first = ranking.table.iloc[0]
    sign = boards.row_sign(board, label)
    style = {"strong": place == 0 and len(ranking.ordered) > 1, "underlined": label in ranking.tied}
    sent = sum(map(boards.sent, runs)) / len(runs)
    homes = runs[0].counts.get("homes")
    cells = [Cell(board_label(board))]
    cells += [Cell(label.removeprefix(method).strip(" ()") or "the defaults")] if settings else []
    cells += [
        interval_cell(float(row[ranking.metric]), float(row["low"]), float(row["high"]), **style, sign=sign),
        Cell(f"{place + 1} of {len(ranking.ordered)}", place + 1),
        Cell(f"{int(row['group'])} of {int(ranking.table['group'].max())}", int(row["group"])),
    ]
    cells += [number_cell(float(row[board.metric("hr@10{list}")]), 3)] if board.protocol == "ranking" else []
    best = "itself" if place == 0 else f"{first['method']} {round_number(float(first[ranking.metric]))}"
    cells += [
        Cell(best),
        count_cell(float(homes)) if homes else Cell(NONE, ""),
        count_cell(len(runs)),
        seconds_cell(float(row["fit s"])),
        bytes_cell(float(row["fit MB"]) * 1e6),
    ]
    return (*cells, *([bytes_cell(sent)] if sends else []))


def _published(inputs: Inputs, method: str) -> Section:
    title, anchor = "Beside its paper", "published"
    try:
        facts = published_facts(inputs, method)
    except DataError as error:  # its runs are of different data
        return Section(title, anchor, f"Published: {'; '.join(published_numbers(method))}. Ours are left out: {error}.")
    if facts:
        rows = tuple(paper_row(*each)[1:] for each in facts)
        table = Table(PAPERS[1:], rows, About("", (), RUN))
        return Section(title, anchor, "Its published number, and ours.", as_html(table), (OTHER_DATA,))
    return Section(title, anchor, "We know of no number that its paper reports on rules of homes under these metrics.")


def _parameters(inputs: Inputs, method: str, runs: Sequence[Result]) -> Section:
    """With the meaning where it is known, tuned ones first."""
    title, anchor, more = "Parameters", "parameters", f"`{SHOW} {method}` lists those of the installed version."
    said = read_description(method)
    known = said.parameters if said else {}
    rows = []
    for _, name, default, also in parameter_rows(inputs, method, runs):
        about = known.get(name.text)
        if known and about is None:  # inherited, and not available for this method
            continue
        meaning, tuned = (about.meaning, about.tuned) if about else ("", "")
        rows.append((name, default, Cell(meaning), also, Cell(tuned)))
    if not rows:
        return Section(title, anchor, "It has none." if runs else f"Not known without a finished run. {more}")
    ordered = sorted(rows, key=lambda row: not row[-1].text)
    shown = [number for number in range(len(PARAMETERS)) if number < 2 or any(row[number].text for row in ordered)]
    columns = tuple(PARAMETERS[number] for number in shown)
    table = Table(columns, tuple(tuple(row[number] for number in shown) for row in ordered), About("", (), RUN))
    searched = sum(bool(row[-1].text) for row in rows)
    caption = f"{len(rows)} in all" + (f", of which {searched} are tuned, in these ranges." if searched else ".")
    notes = ("The default: that of the runs here; a dash where none has it.", more)
    return Section(title, anchor, caption, as_html(table), notes)


def _tuning(inputs: Inputs, method: str) -> Section:
    title, anchor = "Tuning", "tuning"
    studies = [study for study in inputs.studies if study.method == method]
    if not studies and not _may_be_tuned(method):
        return Section(title, anchor, "It has no parameters to tune.")
    if not studies:
        return Section(title, anchor, "No study of it is among these results; the commands below make one.")
    trials = sum(len(study.trials) for study in studies)
    said = []
    for study in studies:
        if study.confirmation is None:
            said.append("the best trial was not measured again on other splits")
        elif study.confirmation.confirmed:
            said.append("the best trial is better than the defaults at the time, also on splits that no trial has seen")
        else:
            said.append("on splits that no trial has seen, the best trial is no better than the defaults at the time")
    caption = f"{trials} trials on validation rules; {'; '.join(dict.fromkeys(said))}."
    table = Table(STUDY[1:], tuple(study_row(study)[1:] for study in studies), About("", (), TUNE))
    return Section(title, anchor, caption, as_html(table), (STUDY_NOTE,))


def _may_be_tuned(method: str) -> bool:
    """Unless it is known to have nothing to tune."""
    said = read_description(method)
    return said is None or said.is_tunable


def _commands(method: str, runs: Sequence[Result]) -> Iterator[tuple[str, str]]:
    yield f"{SHOW} {method}", "what it is, and each parameter with its type, default and meaning"
    suites = [suite for suite in SUITES if suite in {run.suite for run in runs}]
    for suite in suites or SUITES[:1]:
        yield f"{RUN} {suite} --methods {method}", f"runs it as in the suite {suite}"
    if _may_be_tuned(method):
        yield f"python -m benchmarks tune {method} --suite tuning", "chooses its parameters on validation rules"
    federated = federated_method(method)
    twins = federated.twins[:1] if federated else [each.name for each in FEDERATED_METHODS if method in each.twins][:1]
    for twin in twins:
        yield f"{COMPARE} {method} {twin}", f"is it significantly better than {twin}?"
    if federated:
        yield f"{RUN} federated --methods {method} --curves 10", "its curves by round"


def _warnings(
    inputs: Inputs, method: str, found: Mapping[str, Sequence[tuple[boards.RankedBoard, str]]]
) -> Iterator[str]:
    """What went wrong: in training, in lists that it has no answer to, and runs that failed."""
    for shown in found.values():
        for ranking, label in shown:
            where = f"{label} on {board_label(ranking.board)}"
            if status := ranking.board.status(label):
                yield f"{boards.row_sign(ranking.board, label)} {where}: {status}.".lstrip()
            row = ranking.table.iloc[ranking.ordered.index(label)]
            if row["hidden"] and row["unanswered"] == row["hidden"]:
                yield f"{where}: it gives none of the hidden rules a score."
            elif row["hidden"] and row["unanswered"] > 0:
                share = 100 * row["unanswered"] / row["hidden"]
                yield f"{where}: {round_number(share, 2)} % of the hidden rules get no score and count as misses."
    for run in inputs.failed:
        if run.key.method == method:
            yield f"Failed: {run.key}: {run.failure}"
