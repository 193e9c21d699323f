"""`python -m fedrule`: train a model, ask it about homes, serve it."""

from __future__ import annotations

import argparse
import importlib
import sys
from importlib.metadata import version
from typing import Protocol, cast

from datasets.common.cli import run
from datasets.common.threads import set_threads

COMMANDS = {
    "train": "train a graph method on homes and save the model",
    "recommend": "ask a model about one home, or about all homes of a data set",
    "serve": "answer requests over HTTP, with a page for people",
    "show": "print what a model says about itself",
    "pipeline": "try out a file that describes databases, or write its homes to a file",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    set_threads(1)  # before NumPy is loaded, which comes with the commands
    chosen = _parser(arguments).parse_args(arguments)
    return run(lambda: _module(chosen.command).run(chosen), interrupted="Stopped. Nothing was written.")


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """Only the command that is asked for is imported: to show a card needs no torch, to train needs no server."""
    parser = argparse.ArgumentParser(
        prog="python -m fedrule", description="Rule recommendation for real homes: train, recommend, serve."
    )
    parser.add_argument("--version", action="version", version=f"fedrule {version('fedrule')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        if name == next((word for word in arguments if not word.startswith("-")), None):
            _module(name).add_arguments(command)
    return parser


class Command(Protocol):
    """A module of `fedrule.commands`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, chosen: argparse.Namespace) -> int: ...


def _module(command: str) -> Command:
    return cast(Command, importlib.import_module(f"fedrule.commands.{command}"))


if __name__ == "__main__":
    sys.exit(main())
