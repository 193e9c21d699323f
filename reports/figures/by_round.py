"""Six panels, train and test by loss, AUC and mean rank, as training goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.results.results import Result
from reports.curves import sheet
from reports.drawing.lines import Row, rows
from reports.output_types import RUN, About, Drawing, Missing, sources_of
from reports.material import Material
from reports.text.paper import PAPER_METHODS
from reports.selection import WYZE, Place, Role, place_of

ENCODERS = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT"}
PARTS = ("train", "test")


def federated(role: Role) -> Callable[[Material], Drawing]:
    """GraphRule, FedGNN and FedRule with their defaults on the data of a role."""

    def make(material: Material) -> Drawing:
        place = place_of(role, material, lambda run: _is_measured(run, PAPER_METHODS) and material.is_default(run))
        if place is None:
            raise Missing(f"no curves by round of {', '.join(PAPER_METHODS)} on {' or '.join(role.data)}", RUN)
        absent = [method for method in PAPER_METHODS if method not in {run.key.method for run in place.runs}]
        notes = [f"Not run: {', '.join(absent)}."] if absent else []
        notes.append(
            "In the paper FedGNN diverges and FedRule does not. The methods are shown here as we recommend them, with "
            "Adam at the server; the readings of the paper's setting, with Adam in the homes, are in docs/federated.md."
        )
        return _drawing(place, lambda label: label, notes)

    return make


def encoders(material: Material) -> Drawing:
    """GraphSAGE, GCN and GAT, alike in everything else."""
    place = place_of(WYZE, material, lambda run: _is_measured(run, ("graphrule",)))
    groups: dict[tuple[tuple[str, str], ...], list[Result]] = {}
    for run in place.runs if place else ():
        rest = {name: str(value) for name, value in run.key.parameters.items() if name not in ("encoder", "self_loops")}
        groups.setdefault(tuple(sorted(rest.items())), []).append(run)
    best = max(groups.values(), key=lambda runs: len({run.key.parameters["encoder"] for run in runs}), default=[])
    there = {str(run.key.parameters["encoder"]) for run in best}
    if len(there) < 2:
        raise Missing("no curves by round of graphrule with different encoders", "python -m benchmarks run gnn")
    named = {material.label(run): _encoder(run) for run in best}
    absent = [name for encoder, name in ENCODERS.items() if encoder not in there]
    return _drawing(Place(tuple(best)), named.__getitem__, [f"Not run: {', '.join(absent)}."] if absent else [])


def _drawing(place: Place, named: Callable[[str], str], notes: Sequence[str]) -> Drawing:
    shown = {part: _renamed(rows(place.runs, part)[0], named) for part in PARTS}
    about = About(_caption(shown["train"], shown["test"]), sources_of(place.runs), RUN, tuple(notes))
    return Drawing(sheet(list(shown.items())), about)


def _renamed(row: Row, named: Callable[[str], str]) -> Row:
    """With other labels; lines with names of their own have colours of their own."""
    lines = [
        line if named(line.label) == line.label else replace(line, label=named(line.label), method=named(line.label))
        for line in row.lines
    ]
    return replace(row, lines=tuple(lines))


def _caption(train: Row, test: Row) -> str:
    """Where each line ends, and whose loss has turned up again."""
    ends = []
    for line in test.lines:
        auc = [course.curve("auc")[-1, 1] for course in line.courses if len(course.curve("auc"))]
        if auc:
            ends.append(f"{line.label} {sum(auc) / len(auc):.3f}")
    caption = f"Test AUC at the end: {', '.join(ends)}." if ends else ""
    rising, diverging = _turned_up(test), _turned_up(train)
    for names, why in (
        ([name for name in rising if name not in diverging], "while that of training does not: overfitting"),
        ([name for name in rising if name in diverging], "and so does that of training: divergence"),
    ):
        if names:
            caption += f" The test loss of {', '.join(names)} ends more than a fifth above its lowest point, {why}."
    return caption.strip()


def _turned_up(row: Row) -> list[str]:
    """The lines whose loss ends more than a fifth above its lowest point, in the mean over seeds."""
    found = []
    for line in row.lines:
        losses = [course.curve("loss")[:, 1] for course in line.courses if len(course.curve("loss"))]
        if losses and sum(loss[-1] for loss in losses) > 1.2 * sum(loss.min() for loss in losses):
            found.append(line.label)
    return found


def _is_measured(run: Result, methods: Sequence[str]) -> bool:
    return bool(run.key.curves) and run.key.method in methods and any("test_auc" in row for row in run.history)


def _encoder(run: Result) -> str:
    loops = run.key.parameters.get("self_loops")
    return ENCODERS[str(run.key.parameters["encoder"])] + (", self loops" if loops else "")
