"""Six panels, train and test by loss, AUC and mean rank, as training goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks.results import Result
from reports.curves import sheet
from reports.lines import Row, rows
from reports.made import RUN, About, Drawing, Missing, sources_of
from reports.material import Material
from reports.places import WYZE, Place, Role, place_of

FEDERATED = ("graphrule", "fedgnn", "fedrule")
ENCODERS = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT"}
PARTS = ("train", "test")


def federated(role: Role) -> Callable[[Material], Drawing]:
    """GraphRule, FedGNN and FedRule with their defaults on the data of a role."""

    def make(material: Material) -> Drawing:
        place = place_of(role, material, lambda run: _is_measured(run, FEDERATED) and material.is_default(run))
        if place is None:
            raise Missing(f"no curves by round of {', '.join(FEDERATED)} on {' or '.join(role.data)}", RUN)
        absent = [method for method in FEDERATED if method not in {run.key.method for run in place.runs}]
        notes = [f"Not run: {', '.join(absent)}."] if absent else []
        notes.append(
            "The paper's FedGNN diverges where its FedRule does not; that happens here only with Adam in the homes "
            "(docs/federated.md). The methods are shown as we recommend them, with Adam at the server."
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
    about = About(_caption(shown["test"]), sources_of(place.runs), RUN, tuple(notes))
    return Drawing(sheet(list(shown.items())), about)


def _renamed(row: Row, named: Callable[[str], str]) -> Row:
    """With other labels; lines with names of their own have colours of their own."""
    lines = [
        line if named(line.label) == line.label else replace(line, label=named(line.label), method=named(line.label))
        for line in row.lines
    ]
    return replace(row, lines=tuple(lines))


def _caption(row: Row) -> str:
    """Where each line ends, and which loss has turned up again."""
    ends, turned = [], []
    for line in row.lines:
        auc = [course.curve("auc")[-1, 1] for course in line.courses if len(course.curve("auc"))]
        losses = [course.curve("loss") for course in line.courses if len(course.curve("loss"))]
        if auc:
            ends.append(f"{line.label} {sum(auc) / len(auc):.3f}")
        lowest = [curve[:, 1].min() for curve in losses]
        last = [curve[-1, 1] for curve in losses]
        if losses and sum(last) > 1.2 * sum(lowest):
            turned.append(line.label)
    caption = f"Test AUC at the end: {', '.join(ends)}." if ends else ""
    if turned:
        caption += f" The test loss of {', '.join(turned)} ends more than a fifth above its lowest point: it overfits."
    return caption.strip()


def _is_measured(run: Result, methods: Sequence[str]) -> bool:
    return bool(run.key.curves) and run.key.method in methods and any("test_auc" in row for row in run.history)


def _encoder(run: Result) -> str:
    loops = run.key.parameters.get("self_loops")
    return ENCODERS[str(run.key.parameters["encoder"])] + (", self loops" if loops else "")
