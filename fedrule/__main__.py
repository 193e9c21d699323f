"""`python -m fedrule`: train a model, get recommendations from it, serve it."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Protocol, cast

from datasets.common.cli import run
from datasets.common.environment import set_threads

COMMANDS = {
    "train": "train a graph method on homes and save the model",
    "recommend": "recommend rules for one home, or for all homes of a data set",
    "hass": "recommend automations for a Home Assistant: a running one, or its configuration folder",
    "serve": "serve models over HTTP, with a web page",
    "show": "print the card of a model",
    "deploy": "write a federation of real nodes by Flower to a folder, or run one on this machine",
    "audit": "attack updates, counts and models of federated methods, and say what can be told of a home",
    "pipeline": "check a file that describes databases, or write its homes to a file",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    set_threads(1)  # before NumPy is loaded, which comes with the commands
    chosen = _parser(arguments).parse_args(arguments)
    return run(lambda: _module(chosen.command).run(chosen), interrupted="Stopped. No output was written.")


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """Only the chosen command is imported: showing a card needs no torch, training no server."""
    parser = argparse.ArgumentParser(
        prog="python -m fedrule", description="Rule recommendation for real homes: train, recommend, serve."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        if name == next((word for word in arguments if not word.startswith("-")), None):
            _module(name).add_arguments(command)
    return parser


class _Version(argparse.Action):
    """Looks the version up only if asked: importlib.metadata takes longer to import than a home to answer."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        sys.stdout.write(f"fedrule {version('fedrule')}\n")
        parser.exit()


class Command(Protocol):
    """A module of `fedrule.commands`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, chosen: argparse.Namespace) -> int: ...


def _module(command: str) -> Command:
    return cast(Command, importlib.import_module(f"fedrule.commands.{command}"))


if __name__ == "__main__":
    sys.exit(main())
