"""`python -m fedrule show`: what a model says about itself, as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from fedrule.inference.model_file import SavedModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model file")


def run(chosen: argparse.Namespace) -> int:
    """Print the card, the digest and the shape of every array."""
    saved = SavedModel.load(chosen.model)
    arrays = {name: f"{array.dtype} {list(array.shape)}" for name, array in sorted(saved.arrays.items())}
    about = {"digest": saved.digest, **asdict(saved.card), "arrays": arrays}
    sys.stdout.write(json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    return 0
