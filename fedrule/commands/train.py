"""`python -m fedrule train`: from homes to a model file."""

from __future__ import annotations

import argparse
import sys
import typing
from collections.abc import Mapping
from pathlib import Path

from datasets.common.cli import add_import, import_all
from datasets.common.options import read_assignments
from datasets.common.progress import Progress, progress
from datasets.common.threads import set_threads
from fedrule.commands import homes as asked_homes

if typing.TYPE_CHECKING:
    from baselines.method import Fitted, OnRound
    from fedrule.models.card import Card

SHOWN = {
    "ranking": {"mrr": "mean reciprocal rank", "hr@1": "hit rate at 1", "hr@5": "hit rate at 5"}
    | {"hr@10": "hit rate at 10", "ndcg@10": "NDCG at 10"},
    "paper": {"auc": "AUC", "loss": "loss", "mr": "mean rank in its pair", "mr_rt": "the same, known rules removed"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--data", required=True, metavar=asked_homes.METAVAR, help=asked_homes.ABOUT)
    parser.add_argument("--out", required=True, type=Path, metavar="MODEL", help="the model file to write")
    parser.add_argument("--method", metavar="NAME", help="graphrule (default), fedrule, graphrank, fedrank, ...")
    parser.add_argument(
        "--set", dest="options", action="append", default=[], metavar="KEY=VALUE", help="an option of the method"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: %(default)s)")
    parser.add_argument(
        "--test", type=float, default=0.2, metavar="SHARE", help="of each home's rules kept back (default: %(default)s)"
    )
    parser.add_argument(
        "--patience", type=int, metavar="ROUNDS", help="without a better watched loss before it stops; 0: never"
    )
    parser.add_argument("--go-on-from", type=Path, metavar="MODEL", help="a model to teach these homes, new to it")
    parser.add_argument("--merge-types", action="store_true", help="one device of each entity type in a home")
    parser.add_argument("--threads", type=int, default=1, help="1 repeats bit for bit (default: %(default)s)")
    add_import(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(chosen: argparse.Namespace) -> int:
    """Train, save, and say how well it does."""
    set_threads(chosen.threads)
    from fedrule.models.file import SavedModel, refuse_unwritable
    from fedrule.models.train import train

    import_all(chosen.modules)
    refuse_unwritable(chosen.out)
    earlier = None if chosen.go_on_from is None else SavedModel.load(chosen.go_on_from)
    method = chosen.method or (earlier.card.method if earlier else "graphrule")
    homes = asked_homes.homes_of(chosen.data)
    with progress(None, "round", quiet=chosen.quiet) as bar:
        model = train(
            homes,
            method,
            options=_options(method, chosen.options),
            seed=chosen.seed,
            test=chosen.test,
            patience=chosen.patience,
            merge_types=chosen.merge_types,
            on_round=_shown(bar),
            go_on_from=earlier,
        )
    model.save(chosen.out)
    sys.stdout.write(_told(model.card, chosen.out))
    return 0


def _options(method: str, texts: list[str]) -> dict[str, object]:
    """Options of a method from texts such as "rounds=50"."""
    from baselines.registry import get

    return read_assignments(get(method), texts, where=method)


def _shown(bar: Progress) -> OnRound:
    """A bar over rounds with the loss, and that on the watched rules."""
    shown = 0

    def on_round(done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:  # noqa: ARG001
        nonlocal shown
        losses = {"loss": values.get("loss"), "watched": values.get("validation_loss")}
        bar.expect(of)
        bar.note(", ".join(f"{name} {value:.4f}" for name, value in losses.items() if value is not None))
        bar.step(done - shown)
        shown = done

    return on_round


def _told(card: Card, out: Path) -> str:
    """What a person wants to know now."""
    lesson, others = card.lessons[-1], sum(each.homes for each in card.lessons[:-1])
    before = f" and, before, {others:,} others" if others else ""
    learned = f"{card.method} has learned from {lesson.homes:,} homes of {lesson.data}{before}"
    lines = [f"{learned}; round {lesson.rounds} is kept."]
    if card.metrics:
        lines.append(f"On {card.metrics['ranking']['hidden']:,.0f} rules that it was not told:")
    for protocol, names in SHOWN.items():
        found = card.metrics.get(protocol, {})
        lines += [f"  {words:<30} {found[name]:8.4f}" for name, words in names.items() if name in found]
    lines += [f"{out} is the model. Ask it about a home with:", f"    python -m fedrule recommend {out} HOME.json"]
    return "\n".join([*lines, ""])
