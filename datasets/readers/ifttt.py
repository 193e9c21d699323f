"""The IFTTT data sets, with notes on how each differs from the counts of the paper (section 4.1)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from datasets.common.errors import DataError
from datasets.describe import PUBLISHED, number, statistics
from datasets.homes import Homes
from datasets.readers.bad_rows import BadRows
from datasets.readers.filters import cut_homes
from datasets.readers.ifttt_files import Recipes, read, to_homes
from datasets.registry import dataset

PAPER = "ifttt-paper"  # the entry of datasets.describe
FILES = ("rules", "trainset", "testset", "validationset")
ORIGIN = (
    "RecRules (Corno et al. 2019); the TSV of Ur et al. 2016 or the recipes.json of Mi et al. 2017 is read as well. "
    "Their authors give them out for research and forbid passing them on"
)


@dataset("ifttt-full", folder="ifttt", files=FILES, origin=ORIGIN)
def ifttt_full(path: Path, *, min_pair_count: int = 1, part: str = "all", on_error: str = "raise") -> Homes:
    """Every recipe of every user; services are the entities.

    min_pair_count: leave out trigger-action pairs that occur less often
    part: all, or one of RecRules' own trainset, testset and validationset
    on_error: raise, or skip to leave bad lines out and list them
    """
    return _load("ifttt-full", path, min_pair_count, part, on_error)


@dataset("ifttt-fedrule", folder="ifttt", files=FILES, origin=ORIGIN)
def ifttt_fedrule(
    path: Path, *, min_pair_count: int = 8, part: str = "all", cut: int = 0, on_error: str = "raise"
) -> Homes:
    """Recipes whose trigger-action pair is seen more than 7 times: the 53 entities of the FedRule paper.

    min_pair_count: leave out trigger-action pairs that occur less often
    part: all, or one of RecRules' own trainset, testset and validationset, before pairs are counted
    cut: cut users into pieces of about so many recipes, to study small ones; 0 does not cut
    on_error: raise, or skip to leave bad lines out and list them
    """
    return cut_homes(_load("ifttt-fedrule", path, min_pair_count, part, on_error), cut)


def _load(name: str, path: Path, min_pair_count: int, part: str, on_error: str) -> Homes:
    bad_rows = BadRows(on_error)
    recipes = read(path, part=part, bad_rows=bad_rows)
    skipped = bad_rows.report()
    if recipes.rows.empty:
        raise DataError(f"{path} holds no recipe that can be used" + "".join(f"; {sentence}" for sentence in skipped))
    homes = to_homes(name, recipes, min_pair_count=min_pair_count, skipped=skipped)
    notes = differences(homes, recipes, min_pair_count)
    published = PAPER if _is_recrules(recipes) else ""  # the paper used these files and no crawl
    return replace(homes, provenance=replace(homes.provenance, notes=notes, published=published))


def differences(homes: Homes, recipes: Recipes, min_pair_count: int) -> tuple[str, ...]:
    """One sentence per count of the paper: ours, theirs and, where it is known, what theirs counts."""
    ours, paper, seen = statistics(homes), PUBLISHED[PAPER].statistics, homes.provenance.counts
    why = _reasons(seen)
    notes = []
    if not _is_recrules(recipes):
        notes.append(f"The paper used RecRules' selection; this is {recipes.source}.")
    if min_pair_count > 1:
        notes.append(
            f"Only trigger-action pairs seen more than {min_pair_count - 1} times stay: {number(homes.n_rules)} rules "
            f"of {number(seen['rule rows'])} rows, {number(homes.n_homes)} users of {number(seen['users'])}."
        )
    for what, said in (
        ("homes", "users"),
        ("rules", "rules"),
        ("distinct rules", "distinct rules"),
        ("entity types", "entities"),
        ("relations", "trigger-action pairs"),
    ):
        same = ours[what] == paper[what]
        versus = "as in the paper" if same else f"against {number(paper[what])} in the paper{why.get(what, '')}"
        notes.append(f"{number(ours[what])} {said} {versus}.")
    return tuple(notes)


def _is_recrules(recipes: Recipes) -> bool:
    return "rules listed" in recipes.counts


def _reasons(seen: dict[str, int]) -> dict[str, str]:
    """What the paper counted, known only for the files that it used."""
    paper = PUBLISHED[PAPER].statistics
    counted = ("users in trainset", "rule rows", "distinct rules in trainset")
    if [seen.get(what) for what in counted] != [paper[what] for what in ("homes", "rules", "distinct rules")]:
        return {}
    unstated = ", which does not say how it chose them; no threshold gives both its 53 entities and its 132 pairs"
    return {
        "homes": f", the number of users in trainset (the three files have {number(seen['users'])})",
        "rules": f", the rows of the three files ({number(seen['distinct pairs of user and rule'])} without repeats)",
        "distinct rules": f", the number in trainset (the three files have {number(seen['distinct rules'])})",
        "entity types": unstated,
        "relations": unstated,
    }
