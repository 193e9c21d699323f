"""Modules of somebody else that a command imports first, for the methods that they register: `--import my_module`."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from pathlib import Path


def add_import(parser: argparse.ArgumentParser, name: str = "modules") -> None:
    """An option that may be given several times; what was named is `chosen.<name>`."""
    parser.add_argument(
        "--import",
        dest=name,
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of yours that registers methods with @register",
    )


def import_all(modules: Iterable[str]) -> None:
    """Import them; one that is not found is an error that says where it was looked for."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"--import {module}: {error}. Modules are looked for in {Path.cwd()}, in the folders of $PYTHONPATH "
                "and among the installed packages"
            ) from None
