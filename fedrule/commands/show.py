"""`python -m fedrule show`: the card of a model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from fedrule.models.file import SavedModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file")
    parser.add_argument("--json", action="store_true", help="the whole card and the shape of every array")


def run(chosen: argparse.Namespace) -> int:
    """Print a few lines, or with --json everything."""
    saved = SavedModel.load(chosen.model)
    sys.stdout.write(_json(saved) if chosen.json else "\n".join(_lines(saved)) + "\n")
    return 0


def _json(saved: SavedModel) -> str:
    arrays = {name: f"{array.dtype} {list(array.shape)}" for name, array in sorted(saved.arrays.items())}
    about = {"digest": saved.digest, **asdict(saved.card), "arrays": arrays}
    return json.dumps(about, indent=1, ensure_ascii=False) + "\n"


def _lines(saved: SavedModel) -> Iterator[str]:
    card = saved.card
    numbers = sum(array.size for array in saved.weights.values())
    yield f"{card.method}, {numbers:,} weights, digest {saved.digest[:12]}"
    yield f"{len(card.types):,} types, {len(card.relations):,} relations, {len(saved.valid):,} valid rules"
    for run in card.trainings:
        which = "" if run.fingerprint is None else f" ({run.fingerprint})"
        seed = "a secret seed" if run.seed is None else f"seed {run.seed}"
        yield f"trained on {run.homes:,} homes of {run.data}{which}, {run.rounds:,} rounds, {seed}, {run.trained_at}"
        yield from (f"WARNING: {warning}" for warning in run.warnings)
    if not card.metrics:
        yield "no test metrics"
    for protocol, metrics in card.metrics.items():
        yield f"{protocol}: " + ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
    yield "types: " + ", ".join(card.types)
    yield "more: --json"
