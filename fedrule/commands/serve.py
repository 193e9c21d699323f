"""`python -m fedrule serve`: serve models over HTTP."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from datasets.common.cli import add_import, import_all
from datasets.common.errors import DataError
from fedrule.serving.limits import Limits

VARIABLE = "FEDRULE_TOKEN"
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read when prometheus_client is imported

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="model files; the first is the default")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port; 0 takes a free one (default: %(default)s)")
    token = f"file with the token that clients must send; or set ${VARIABLE}"
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=token)
    parser.add_argument("--access-log", action="store_true", help="log the client, route and status of every request")
    grace = "time to finish open requests at SIGTERM (default: %(default)s)"
    parser.add_argument("--grace", type=int, default=10, metavar="SECONDS", help=grace)
    workers = "processes that serve requests; more than 1 use more cores, and share the models (default: %(default)s)"
    parser.add_argument("--workers", type=int, default=1, metavar="N", help=workers)
    add_import(parser)
    for part in fields(Limits):
        option, about = f"--max-{part.name.replace('_', '-')}", f"{part.metadata['about']} (default: {part.default:,})"
        parser.add_argument(option, type=int, default=part.default, metavar="N", help=about)


def run(chosen: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    limits = Limits(**{part.name: getattr(chosen, f"max_{part.name}") for part in fields(Limits)})
    if chosen.grace < 1:
        raise DataError(f"--grace must be at least 1, got {chosen.grace}")
    if chosen.workers < 1:
        raise DataError(f"--workers must be at least 1, got {chosen.workers}")
    token = _token(chosen.token_file)
    if chosen.workers == 1:
        _serve(chosen, limits, token)
    else:
        _serve_by_workers(chosen, limits, token)
    return 0


def _serve(chosen: argparse.Namespace, limits: Limits, token: str | None) -> None:
    """In this process."""
    import_all(chosen.modules)
    from fedrule.serving.routes import application  # an extra
    from fedrule.serving.server import listen, serve

    app = application(chosen.models, limits=limits, token=token)
    listener = listen(chosen.host, chosen.port)
    _announce([model.name for model in app.service.store.models], listener, token)
    serve(app, listener, access_log=chosen.access_log, grace=chosen.grace)


def _serve_by_workers(chosen: argparse.Namespace, limits: Limits, token: str | None) -> None:
    """In processes of their own."""
    if not (hasattr(os, "fork") and hasattr(socket, "SO_REUSEPORT")):
        raise DataError(f"--workers {chosen.workers} needs an operating system such as Linux; use --workers 1")
    with tempfile.TemporaryDirectory(prefix="fedrule-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder  # before prometheus_client is imported, here or by one of the modules
        import_all(chosen.modules)
        from fedrule.serving.server import listen_together  # an extra
        from fedrule.serving.supervisor import Supervisor, WorkerOptions

        options = WorkerOptions(chosen.models, limits, token, chosen.access_log, chosen.grace, Path(folder))
        listeners = listen_together(chosen.host, chosen.port, chosen.workers)
        supervisor = Supervisor(options, listeners)
        if models := supervisor.load():
            _announce(models, listeners[0], token)
        supervisor.run()


def _announce(models: Sequence[str], listener: socket.socket, token: str | None) -> None:
    host, port = listener.getsockname()[:2]
    log.info("Serving %s on http://%s:%d", ", ".join(models), f"[{host}]" if ":" in host else host, port)
    if token is None and not ipaddress.ip_address(host).is_loopback:
        log.warning("Anyone who can reach %s can query and reload the models; set a token, see --token-file", host)


def _token(path: Path | None) -> str | None:
    """From the file or the environment; never from the command line, which every user of the machine can read."""
    if path is None:
        token, place = os.environ.get(VARIABLE), f"${VARIABLE}"
    else:
        place = f"--token-file {path}"
        try:
            token = path.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{place}: cannot read it ({getattr(error, 'strerror', None) or 'not UTF-8'})") from None
    if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
        raise DataError(f"{place}: a token must be one non-empty word of printable ASCII characters")
    return token
