"""`python -m fedrule train`: from homes to a model file."""

from __future__ import annotations

import argparse
import sys
import typing
from collections.abc import Mapping
from pathlib import Path

from datasets.common.cli import add_import, import_all
from datasets.common.environment import set_threads
from datasets.common.options import read_assignments
from datasets.common.progress import Progress, progress
from fedrule.commands import HOMES_HELP, HOMES_METAVAR, load_homes

if typing.TYPE_CHECKING:
    from baselines.method import Fitted, OnRound
    from fedrule.models.card import Card

SHOWN = {
    "ranking": {"mrr": "mean reciprocal rank", "hr@1": "hit rate at 1", "hr@5": "hit rate at 5"}
    | {"hr@10": "hit rate at 10", "mrr, closed": "MRR, devices with rules", "ndcg@10": "NDCG at 10, by home"},
    "paper": {"auc": "AUC", "loss": "loss", "mr": "mean rank in its pair", "mr_rt": "the same, known rules removed"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--data", required=True, metavar=HOMES_METAVAR, help=HOMES_HELP)
    add("--out", required=True, type=Path, metavar="MODEL", help="the model file to write")
    add("--method", metavar="NAME", help="graphrule (default), fedrule, graphrank, fedrank, ...")
    add("--set", dest="options", action="append", default=[], metavar="KEY=VALUE", help="an option of the method")
    add("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    about = "fraction of each home's rules held out for the test (default: %(default)s)"
    add("--test", type=float, default=0.2, metavar="FRACTION", help=about)
    about = "stop after ROUNDS rounds without a better validation loss; 0: never"
    add("--patience", type=int, metavar="ROUNDS", help=about)
    add("--continue-from", type=Path, metavar="MODEL", help="saved model to continue training on new homes")
    add("--checkpoints", type=Path, metavar="PATH", help="file or folder to resume from if killed; federated methods")
    add("--every", type=int, default=10, metavar="N", help="rounds between checkpoints (default: %(default)s)")
    add("--merge-types", action="store_true", help="one device of each entity type in a home")
    about = "leave out rules that fewer than N homes have between devices of the same types (default: %(default)s)"
    add("--min-homes", type=int, default=1, metavar="N", help=about)
    add("--threads", type=int, default=1, help="1 gives the same bits every time (default: %(default)s)")
    add_import(parser)
    add("--quiet", action="store_true", help="no progress")


def run(chosen: argparse.Namespace) -> int:
    """Train, save, and print the test metrics."""
    set_threads(chosen.threads)
    from baselines.registry import get
    from benchmarks.evaluation import evaluate
    from fedrule.federated.checkpoint import Checkpoint
    from fedrule.models.file import SavedModel, refuse_unwritable
    from fedrule.models.train import train

    import_all(chosen.modules)
    refuse_unwritable(chosen.out)
    checkpoint = None
    if chosen.checkpoints is not None:
        path = chosen.checkpoints
        if path.is_dir() or not path.suffix:
            path /= f"{chosen.out.name}.npz"
        checkpoint = Checkpoint(path, chosen.every)
    earlier = None if chosen.continue_from is None else SavedModel.load(chosen.continue_from)
    method = chosen.method or (earlier.card.method if earlier else "graphrule")
    homes = load_homes(chosen.data)
    with progress(None, "round", quiet=chosen.quiet) as bar:
        model = train(
            homes,
            method,
            options=read_assignments(get(method), chosen.options, where=method),
            seed=chosen.seed,
            test=chosen.test,
            patience=chosen.patience,
            merge_types=chosen.merge_types,
            min_homes=chosen.min_homes,
            on_round=_show_round(bar),
            continue_from=earlier,
            checkpoint=checkpoint,
            evaluate=evaluate,
        )
    model.save(chosen.out)
    if checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    sys.stdout.write(_summary(model.card, chosen.out))
    return 0


def _show_round(bar: Progress) -> OnRound:
    """Advance the progress bar, with the training and the validation loss."""
    shown = 0

    def on_round(done: int, of: int, fitted: Fitted, values: Mapping[str, float]) -> None:  # noqa: ARG001
        nonlocal shown
        losses = {"loss": values.get("loss"), "validation": values.get("validation_loss")}
        bar.expect(of)
        bar.note(", ".join(f"{name} {value:.4f}" for name, value in losses.items() if value is not None))
        bar.step(done - shown)
        shown = done

    return on_round


def _summary(card: Card, out: Path) -> str:
    last, others = card.trainings[-1], sum(each.homes for each in card.trainings[:-1])
    before = f" and, before, {others:,} others" if others else ""
    lines = [f"{card.method}: trained on {last.homes:,} homes of {last.data}{before}; kept round {last.rounds}."]
    lines += [f"WARNING: {warning}." for warning in last.warnings]
    if card.metrics:
        lines.append(f"On {card.metrics['ranking']['hidden']:,.0f} held-out test rules:")
    for protocol, names in SHOWN.items():
        found = card.metrics.get(protocol, {})
        lines += [f"  {words:<30} {found[name]:8.4f}" for name, words in names.items() if name in found]
    lines += [f"Saved to {out}. Get recommendations with:", f"    python -m fedrule recommend {out} HOME.json"]
    return "\n".join([*lines, ""])
