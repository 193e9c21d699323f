"""What every command line shares: errors as one message, types of arguments, and `--import` for modules of the user."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from datasets.common.errors import DataError, install_hint

_PACKAGES = {  # the optional packages that each extra of this project installs
    "mf": "implicit",
    "graph": "torch torch_geometric numba",
    "infer": "safetensors",
    "serve": "fastapi uvicorn httptools prometheus_client",
    "pipeline": "sqlalchemy psycopg",
    "private": "opacus",
    "secure": "cryptography",
    "hass": "yaml websocket",
    "learn": "sklearn",
    "tune": "optuna",
    "report": "matplotlib jinja2",
    "flower": "flwr",
}
EXTRAS = {package: extra for extra, packages in _PACKAGES.items() for package in packages.split()}


def run(command: Callable[[], int], *, interrupted: str = "Stopped.") -> int:
    """The exit code of a command: bad input is one message and 1, Ctrl-C is 130, never a traceback."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        code = command()
        sys.stdout.flush()  # here, where a closed pipe is handled
        return code
    except BrokenPipeError:  # the reader of the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at exit
        return 0
    except KeyboardInterrupt:
        sys.stderr.write(f"{interrupted}\n")
        return 130
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(str(error.name).partition(".")[0])
        remedy = f"; install {install_hint(extra)}" if extra else ""
        sys.stderr.write(f"{error}{remedy}\n")
        return 1
    except (DataError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def say(text: str) -> None:
    """Write a line to the standard output at once, so that a reader such as `head` that has gone is noticed."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def comma_separated(text: str) -> list[str]:
    """The type of an argument such as "a,b"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def count(text: str, least: int = 1) -> int:
    """The type of an argument such as "4"."""
    if not text.strip().isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number, {least} or more, got {text!r}")
    return int(text)


def add_import(parser: argparse.ArgumentParser, name: str = "modules") -> None:
    """Add `--import MODULE`, which may be given several times; the modules are `chosen.<name>`."""
    parser.add_argument(
        "--import",
        dest=name,
        action="append",
        default=[],
        metavar="MODULE",
        help="your module that registers methods (@register) or data sets (@dataset)",
    )


def import_all(modules: Iterable[str]) -> None:
    """Import the modules given by `--import`; the error for a missing one says where it was looked for."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"--import {module}: {error}. Modules are looked for in {Path.cwd()}, in the folders of $PYTHONPATH "
                "and among the installed packages"
            ) from None
