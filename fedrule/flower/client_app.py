"""The ClientApp of Flower: one function for all requests, which `fedrule.flower.node` answers."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from datasets.common.environment import set_threads
from datasets.common.errors import DataError

log = logging.getLogger(__name__)

NAME = "fedrule"  # of the action, behind "query."


def log_to(stream: TextIO) -> None:
    """Show our messages, and not those of all libraries that Flower uses."""
    handler, ours = logging.StreamHandler(stream), logging.getLogger("fedrule")
    handler.setFormatter(logging.Formatter("%(message)s"))
    ours.handlers, ours.propagate = [handler], False
    ours.setLevel(logging.INFO)


def client_app(folder: Path) -> ClientApp:
    """The app of a federation whose vocabulary lies in this folder."""
    app = ClientApp()

    @app.query(NAME)
    def answer(message: Message, context: Context) -> Message:
        log_to(sys.stderr)
        set_threads(1)  # sums in parallel would depend on the machine
        # Imported here: Flower tells the server of an error in a request, not of one in an import.
        from fedrule.flower.messages import refusal
        from fedrule.flower.node import Node, NodeOptions
        from fedrule.flower.records import from_record, to_record
        from fedrule.flower.vocabulary import FILE, Vocabulary

        request = from_record(message.content)
        try:
            node = Node(NodeOptions.of(context.node_config), Vocabulary.read(folder / FILE))
        except DataError as error:
            log.error("%s", error)
            return Message(to_record(refusal(request, error)), reply_to=message)
        return Message(to_record(node.answer(request)), reply_to=message)

    return app
