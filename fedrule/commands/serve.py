"""`python -m fedrule serve`: answer requests over HTTP."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
from dataclasses import fields
from pathlib import Path

from datasets.common.cli import add_import, import_all
from datasets.common.errors import DataError
from fedrule.serving.limits import ABOUT, Limits

VARIABLE = "FEDRULE_TOKEN"

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="model files; the first is the default")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default: %(default)s)")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help=f"file with a token that clients must send; or set ${VARIABLE}"
    )
    parser.add_argument("--access-log", action="store_true", help="log every request: client, route and status")
    parser.add_argument(
        "--grace", type=int, default=10, metavar="SECONDS", help="to finish at SIGTERM (default: %(default)s)"
    )
    add_import(parser)
    for part in fields(Limits):
        option = f"--max-{part.name.replace('_', '-')}"
        says = f"{ABOUT[part.name]} (default: {part.default:,})"
        parser.add_argument(option, type=int, default=part.default, metavar="N", help=says)


def run(chosen: argparse.Namespace) -> int:
    """Serve until the process is told to end."""
    limits = Limits(**{part.name: getattr(chosen, f"max_{part.name}") for part in fields(Limits)})
    if chosen.grace < 1:
        raise DataError(f"--grace {chosen.grace}: give at least 1")
    token = _token(chosen.token_file)
    import_all(chosen.modules)
    try:
        from fedrule.serving.routes import application
        from fedrule.serving.server import listening, serve
    except ModuleNotFoundError as error:
        raise DataError(f'to serve needs {error.name}: pip install "fedrule[serve]"') from None
    application_of_models = application(chosen.models, limits=limits, token=token)
    listener = listening(chosen.host, chosen.port)
    host, port = listener.getsockname()[:2]
    names = ", ".join(model.name for model in application_of_models.service.shelf.models)
    log.info("Serving %s on http://%s:%d", names, f"[{host}]" if ":" in host else host, port)
    if token is None and not ipaddress.ip_address(host).is_loopback:
        log.warning("Whoever reaches %s can ask and reload: set a token, see --token-file", host)
    serve(application_of_models, listener, access_log=chosen.access_log, grace=chosen.grace)
    return 0


def _token(path: Path | None) -> str | None:
    """From the file, else from the environment; never from the command line, which everybody on a machine can read."""
    if path is None:
        token, place = os.environ.get(VARIABLE), f"${VARIABLE}"
    else:
        place = f"--token-file {path}"
        try:
            token = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{place}: cannot be read ({getattr(error, 'strerror', None) or 'no text'})") from None
    if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
        raise DataError(f"{place}: a token is one word of ASCII letters, digits and signs, and not empty")
    return token
