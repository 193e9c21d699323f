"""The ServerApp of Flower: reads the configuration of a run and trains by way of Flower's grid."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flwr.app import Context
from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid, ServerApp

from datasets.common.environment import set_threads
from datasets.common.errors import DataError
from fedrule.flower import RESEND
from fedrule.flower.client_app import NAME, log_to
from fedrule.flower.messages import Message
from fedrule.flower.records import from_record, to_record

if TYPE_CHECKING:
    from fedrule.federated.rounds import RoundReport
    from fedrule.flower.server.rounds import RoundTraffic

log = logging.getLogger(__name__)

POLL = 0.3  # seconds between two looks for answers
AGAIN = 5.0  # seconds before a request that failed is sent again
ERRORS = 5  # of one node, after which it is given up for this request
PARAMETERS = "parameters."  # how options of the method begin in a run's configuration


@dataclass(frozen=True, slots=True)
class FlowerTransport:
    """Requests as Flower's messages.

    Flower hands a message out once: a node that is killed with it in hand never answers, also if it starts again. So a
    request without an answer is sent again after `resend` seconds, then after twice as many, and so on, to nodes that
    are connected; a node that was only slow answers both, and its answers are equal.
    """

    grid: Grid
    resend: float = RESEND

    def nodes(self) -> Sequence[int]:
        return sorted(self.grid.get_node_ids())

    def exchange(self, requests: Mapping[int, Message], *, seconds: float) -> Mapping[int, Message]:
        end = time.monotonic() + seconds
        answers: dict[int, Message] = {}
        waiting: dict[str, int] = {}  # nodes by the ids of messages
        due = dict.fromkeys(requests, 0.0)  # when to send to each node
        errors, times = dict.fromkeys(requests, 0), dict.fromkeys(requests, 0)
        while len(answers) < len(requests) and (now := time.monotonic()) < end:
            ready = [node for node, at in due.items() if at <= now and node not in answers]
            if ready:
                there = set(self.nodes())
                for node in ready:
                    due[node] = now + (self.resend * 2 ** times[node] if node in there else AGAIN)
                    if node in there:
                        times[node] += 1
                        waiting |= self._send(node, requests[node], end - now)
            for reply in self.grid.pull_messages([*waiting]) if waiting else ():
                node = waiting.pop(reply.metadata.reply_to_message_id)
                if reply.has_error():
                    errors[node] += 1
                    again = errors[node] < ERRORS
                    log.warning("node %d: %s%s", node, reply.error.reason, "; it is asked again" if again else "")
                    due[node] = min(due[node], time.monotonic() + AGAIN) if again else end
                elif node not in answers:
                    try:
                        answers[node] = from_record(reply.content)
                    except DataError as error:
                        log.warning("node %d is left out: %s", node, error)
                        due[node] = end
            if len(answers) < len(requests):
                time.sleep(POLL)
        return answers

    def _send(self, node: int, request: Message, seconds: float) -> dict[str, int]:
        message = FlowerMessage(to_record(request), node, f"query.{NAME}", ttl=max(seconds, 1.0))
        return {str(sent): node for sent in self.grid.push_messages([message]) if sent}


def server_app(folder: Path) -> ServerApp:
    """The app of a federation whose vocabulary lies in this folder."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        log_to(sys.stdout)
        set_threads(1)
        config = dict(context.run_config)
        try:
            train(grid, config, folder)
        except DataError as error:
            log.error("%s", error)
            write_failure(config, error)
            raise error.with_traceback(None) from None  # Flower prints it once more; where we are is of no help

    return app


def write_failure(config: Mapping[str, object], error: DataError) -> None:
    """Say in the server's folder why a run failed, for whoever does not read Flower's log."""
    from fedrule.flower.server.folder import ServerFolder

    if isinstance(path := config.get("folder"), str) and path:
        with suppress(OSError):  # of a folder that cannot be written the error itself says so
            ServerFolder(Path(path)).write_status("failed", error=str(error))


def train(grid: Grid, config: Mapping[str, object], folder: Path) -> None:
    """One run as configured; the model and the record of the rounds are in the server's folder."""
    from fedrule.flower.method import federated_method, method_text
    from fedrule.flower.server.federation import Federation
    from fedrule.flower.server.membership import ServerOptions
    from fedrule.flower.vocabulary import FILE, Vocabulary

    own = {name: value for name, value in config.items() if not name.startswith(PARAMETERS)}
    known = {"method", "folder", "nodes", "seed", "wait", "limit", "resend", "clock"}
    if unknown := sorted(own.keys() - known):
        raise DataError(f"run-config: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    if missing := sorted({"method", "folder"} - own.keys()):
        raise DataError(f"run-config: {', '.join(missing)} is missing")
    parameters = {name.removeprefix(PARAMETERS): value for name, value in config.items() if name.startswith(PARAMETERS)}
    method = federated_method(method_text(str(own["method"]), parameters))
    options = ServerOptions(
        Path(str(own["folder"])),
        nodes=_whole(own, "nodes", 1),
        seed=_whole(own, "seed", 0),
        **{name: _number(own, name) for name in ("wait", "limit", "clock") if name in own},
    )
    transport = FlowerTransport(grid, _number(own, "resend") if "resend" in own else RESEND)
    federation = Federation(transport, method, Vocabulary.read(folder / FILE), options)
    log.info("%s: run %s in %s", method.NAME, federation.run, options.folder)
    begin = time.monotonic()

    def on_round(done: int, report: RoundReport, traffic: RoundTraffic) -> None:
        log.info("round %d of %d after %.1f s: %s", done, method.rounds, time.monotonic() - begin, round_text(report))
        log.info("%s", traffic)

    federation.train(on_round)
    log.info("%s: done; the model is in %s", method.NAME, options.folder)


def round_text(report: RoundReport) -> str:
    """A round for the log, without what a private run does not tell."""
    return " ".join(f"{name}={value:g}" for name, value in report.values().items())


def _whole(config: Mapping[str, object], name: str, default: int) -> int:
    value = config.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"run-config: {name} must be a whole number, got {value!r}")
    return value


def _number(config: Mapping[str, object], name: str) -> float:
    value = config[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(f"run-config: {name} must be a number, got {value!r}")
    return float(value)
