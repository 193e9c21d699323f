"""A small WebSocket server that answers as a recorded Home Assistant did, and can misbehave as real ones do."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of the protocol, RFC 6455
TOKEN = "the-right-token-of-the-test"
ANSWERS = Path(__file__).parents[1] / "fedrule" / "homeassistant" / "answers.json"

Answers = dict[str, object]


def recorded_answers() -> Answers:
    """The answers of answers.json by question."""
    return {_key(kind, fields): answer for kind, fields, answer in json.loads(ANSWERS.read_text("utf-8"))}


def _key(kind: str, fields: object) -> str:
    return json.dumps([kind, fields], sort_keys=True)


@dataclass
class RecordedServer:
    """What it says; `errors` are codes by kind of question, `closes` after so many messages for so many connections."""

    answers: Answers = field(default_factory=recorded_answers)
    errors: dict[str, str] = field(default_factory=dict)
    version: str = "2024.3.3"
    close_after: int = -1
    closings: int = 0
    silent: bool = False
    status: str = "101 Switching Protocols"
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def talk(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            if not (part := connection.recv(4096)):
                return
            request += part
            if request[0] == 0x16:  # the beginning of TLS, which a server without it answers like this
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
        key = next(
            line.split(b": ")[1] for line in request.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
        )
        accept = base64.b64encode(hashlib.sha1(key + MAGIC.encode()).digest()).decode()
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade"
        head = f"HTTP/1.1 {self.status}\r\n{upgrade}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
        connection.sendall(head.encode())
        if self.silent:
            connection.recv(1)  # until the other side gives up
            return
        _send(connection, {"type": "auth_required", "ha_version": self.version})
        count = 0
        while (message := _receive(connection)) is not None:
            count += 1
            if self.closings and count > self.close_after:
                self.closings -= 1
                return
            _send(connection, self._answer(message))
            if message["type"] == "auth" and message["access_token"] != TOKEN:
                return

    def _answer(self, message: dict[str, object]) -> object:
        kind = str(message.pop("type"))
        message["type"] = kind
        if kind == "auth":
            return {"type": "auth_ok" if message["access_token"] == TOKEN else "auth_invalid"}
        self.asked.append(kind)
        fields = {key: value for key, value in message.items() if key not in ("id", "type")}
        answer = {"id": message["id"], "type": "result"}
        if kind in self.errors:
            return {**answer, "success": False, "error": {"code": self.errors[kind], "message": "no"}}
        return {**answer, "success": True, "result": self.answers[_key(kind, fields)]}


@contextmanager
def serving(server: RecordedServer, *, context: ssl.SSLContext | None = None) -> Iterator[RecordedServer]:
    """The server on a free loopback port until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]
        threads: list[threading.Thread] = []

        def one(plain: socket.socket) -> None:
            with suppress(OSError), plain:
                talking = context.wrap_socket(plain, server_side=True) if context else plain
                talking.settimeout(20)
                server.talk(talking)
                if context:
                    talking.close()

        def listen() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                thread = threading.Thread(target=one, args=(connection,), daemon=True)
                thread.start()
                threads.append(thread)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        try:
            yield server
        finally:
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
    listener.join(5)
    for thread in threads:
        thread.join(5)


def _send(connection: socket.socket, message: object) -> None:
    body = json.dumps(message).encode()
    size = len(body)
    head = bytes([0x81, size]) if size < 126 else struct.pack("!BBH", 0x81, 126, size) if size < 2**16 else b""
    connection.sendall((head or struct.pack("!BBQ", 0x81, 127, size)) + body)


def _receive(connection: socket.socket) -> dict[str, object] | None:
    """One text message; None when the other side closes."""
    head = _exactly(connection, 2)
    if not head or head[0] & 0x0F == 8:
        return None
    size = head[1] & 0x7F
    if size == 126:
        size = struct.unpack("!H", _exactly(connection, 2))[0]
    elif size == 127:
        size = struct.unpack("!Q", _exactly(connection, 8))[0]
    mask = _exactly(connection, 4)
    body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(_exactly(connection, size)))
    message = json.loads(body)
    assert isinstance(message, dict)
    return message


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (part := connection.recv(size - len(found))):
            return b""
        found += part
    return found


def recorded_kinds(answers: Answers) -> Sequence[str]:
    """The kinds of questions that were recorded."""
    return sorted({json.loads(key)[0] for key in answers})
