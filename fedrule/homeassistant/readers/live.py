"""An installation from a running Home Assistant, by its WebSocket interface and a long-lived access token.

Only questions are asked (`READS`): nothing is ever written to the server. The token goes to the server and nowhere
else: it is in no error, no log line and no repr.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from datasets.common.errors import DataError, install_hint
from fedrule.homeassistant.installation import (
    Automation,
    Installation,
    Problem,
    Script,
    items,
    mapping,
    read_json,
    text,
)
from fedrule.homeassistant.readers import registries
from fedrule.homeassistant.server import Server, check_token, locate, network_error, tls_context, wrong_token

READS = (
    "get_config",
    "get_states",
    "get_services",
    "config/area_registry/list",
    "config/device_registry/list",
    "config/entity_registry/list",
    "automation/config",
    "script/config",
)
OLDEST = (2022, 12)  # the first version that tells the configuration of automations
NEWEST = (2026, 12)  # the last one whose formats are known
AT_ONCE = 50  # questions under way; the server drops who sends too many
MESSAGE_BYTES = 200_000_000
PAUSE = 5.0  # seconds before a second try, for a server that restarts


class Connection(Protocol):
    """What is used of a WebSocket."""

    def send(self, payload: str) -> object: ...

    def recv(self) -> str | bytes: ...

    def close(self) -> object: ...


class Interrupted(DataError):
    """The connection broke in the middle: the server may be restarting."""


class Refused(DataError):
    """The server answered a question with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_live(
    address: str,
    token: str,
    *,
    ca_file: Path | str | None = None,
    check_certificate: bool = True,
    timeout: float = 20.0,
    pause: float = PAUSE,
) -> Installation:
    """Everything that `Installation` holds, from a running server; a `DataError` says what is wrong and what to do.

    address: e.g. http://homeassistant.local:8123
    token: a long-lived access token (profile, security); of an administrator where the server asks for one
    ca_file: the certificate authority of a server with a certificate of its own; or `check_certificate=False`
    timeout: seconds to wait for each answer
    pause: seconds before the one retry if the connection breaks, as when the server restarts
    """
    check_token(token)
    server = locate(address, ca_file=ca_file, check_certificate=check_certificate, timeout=timeout)
    try:
        return _read(server, token)
    except Interrupted:
        time.sleep(pause)
    try:
        return _read(server, token)
    except Interrupted as error:
        https = "" if server.address.startswith("https") else ", or answer https only"
        again = f"the connection broke twice: it may be restarting{https}; wait until it is up and try again"
        raise DataError(f"{server.address}: {again} ({error})") from None


def _read(server: Server, token: str) -> Installation:
    with connected(server) as connection:
        session = Session(connection, server.address)
        session.sign_in(token)
        return read_session(session)


class Session:
    """A connection on which questions are asked; answers may come in any order."""

    def __init__(self, connection: Connection, address: str) -> None:
        self.address = address
        self.version = ""
        self._connection = connection
        self._number = 0

    def __repr__(self) -> str:
        return f"<session with {self.address}>"

    def sign_in(self, token: str) -> None:
        """Say who asks; the server's version comes with its greeting."""
        greeting = self._receive()
        if greeting.get("type") != "auth_required":
            raise DataError(f"{self.address}: it does not answer as a Home Assistant does; check the address")
        self.version = text(greeting.get("ha_version"))
        refuse_old(self.version, self.address)
        self._send({"type": "auth", "access_token": token})
        answer = self._receive()
        if answer.get("type") != "auth_ok":
            raise wrong_token(self.address)

    def ask(self, kind: str, **fields: str) -> object:
        """The answer to one question; `Refused` if it is an error."""
        (answer,) = self.ask_all([(kind, fields)])
        if isinstance(answer, Refused):
            raise answer
        return answer

    def ask_all(self, questions: Sequence[tuple[str, Mapping[str, str]]]) -> list[object]:
        """The answers in the order of the questions, an error in place of its answer."""
        found: list[object] = []
        for first in range(0, len(questions), AT_ONCE):
            found += self._batch(questions[first : first + AT_ONCE])
        return found

    def _batch(self, questions: Sequence[tuple[str, Mapping[str, str]]]) -> list[object]:
        place: dict[int, int] = {}
        for at, (kind, fields) in enumerate(questions):
            assert kind in READS, f"{kind} is not a question"
            self._number += 1
            place[self._number] = at
            self._send({"id": self._number, "type": kind, **fields})
        answers: list[object] = [None] * len(questions)
        while place:
            answer = self._receive()
            number = answer.get("id")
            if answer.get("type") != "result" or not isinstance(number, int) or number not in place:
                continue
            error = mapping(answer.get("error"))
            ok = answer.get("success") is True
            code = text(error.get("code"))
            answers[place.pop(number)] = answer.get("result") if ok else Refused(code, text(error.get("message"))[:200])
        return answers

    def _send(self, message: Mapping[str, object]) -> None:
        with _said_plainly(self.address):
            self._connection.send(json.dumps(message))

    def _receive(self) -> Mapping[str, object]:
        with _said_plainly(self.address):
            received = self._connection.recv()
        if not received:
            raise Interrupted("the server closed the connection")
        if len(received) > MESSAGE_BYTES:
            raise DataError(f"{self.address}: an answer of more than {MESSAGE_BYTES:,} bytes")
        try:
            return mapping(read_json(received))
        except (ValueError, RecursionError):
            raise DataError(f"{self.address}: an answer is not JSON; is this a Home Assistant?") from None


def read_session(session: Session) -> Installation:
    """The installation behind a session that is signed in."""
    problems: list[Problem] = []
    kinds = ("get_config", "get_states", "get_services", *(f"config/{kind}_registry/list" for kind in _REGISTRIES))
    answers = dict(zip(kinds, session.ask_all([(kind, {}) for kind in kinds]), strict=True))
    for kind, answer in answers.items():
        if isinstance(answer, Refused):
            if kind == "get_states":
                raise DataError(f"{session.address}: it does not tell its states ({answer})")
            problems.append(Problem(kind, f"the server refuses it ({answer.code or 'no reason given'})"))
    config = mapping(answers["get_config"])
    version = text(config.get("version")) or session.version
    if _number(version) > NEWEST:
        problems.append(
            Problem(f"Home Assistant {version}", "newer than this reader knows; what it cannot read is counted")
        )
    if text(config.get("state")) not in ("RUNNING", ""):
        problems.append(Problem("the server", "it is still starting: entities may be missing; read it again later"))
    states = items(answers["get_states"])
    area, device, entity = (_listed(answers[f"config/{kind}_registry/list"]) for kind in _REGISTRIES)
    devices = registries.devices(device)
    entities = registries.with_states(registries.entities(entity, devices), states)
    services = mapping(answers["get_services"])
    return Installation(
        session.address,
        version=version,
        entities=dict(sorted(entities.items())),
        areas=registries.areas(area),
        devices=devices,
        automations=_automations(session, states, problems),
        scripts=_scripts(session, states, problems),
        scenes=tuple(Script(id_, where=id_) for id_ in sorted(entities) if id_.startswith("scene.")),
        services={domain: mapping(of_domain) for domain, of_domain in services.items()},
        problems=tuple(problems),
        live=True,
    )


_REGISTRIES = ("area", "device", "entity")


def _listed(answer: object) -> list[object]:
    return answer if isinstance(answer, list) else []


def _of_domain(states: Sequence[object], domain: str) -> list[Mapping[str, object]]:
    return [s for s in map(mapping, states) if text(s.get("entity_id")).startswith(f"{domain}.")]


def _automations(session: Session, states: Sequence[object], problems: list[Problem]) -> tuple[Automation, ...]:
    known = _of_domain(states, "automation")
    asked = session.ask_all([("automation/config", {"entity_id": text(s.get("entity_id"))}) for s in known])
    found = []
    for state, answer in zip(known, asked, strict=True):
        entity_id = text(state.get("entity_id"))
        config = mapping(mapping(answer).get("config"))
        problem = ""
        if isinstance(answer, Refused) and answer.code == "unauthorized":
            raise DataError(
                f"{session.address}: the access token is of a user who may not read automations; use the token of an "
                "administrator (settings, people, administrator), or read the configuration folder"
            )
        if isinstance(answer, Refused) and answer.code == "unknown_command":
            raise too_old(session.version, session.address)
        if not config:
            problem = "the server does not tell its configuration"
            problems.append(Problem(entity_id, problem))
        id_ = config.get("id", mapping(state.get("attributes")).get("id"))
        found.append(
            Automation(
                config,
                entity_id,
                id=str(id_) if isinstance(id_, (str, int)) else "",
                entity_id=entity_id,
                enabled=state.get("state") != "off",
                blueprint=text(mapping(config.get("use_blueprint")).get("path")),
                problem=problem,
            )
        )
    return tuple(found)


def _scripts(session: Session, states: Sequence[object], problems: list[Problem]) -> tuple[Script, ...]:
    ids = sorted(text(state.get("entity_id")) for state in _of_domain(states, "script"))
    answers = session.ask_all([("script/config", {"entity_id": id_}) for id_ in ids])
    refused = [id_ for id_, answer in zip(ids, answers, strict=True) if isinstance(answer, Refused)]
    if refused:
        problems.append(Problem(f"{len(refused)} scripts", "the server does not tell their configuration"))
    return tuple(
        Script(id_, mapping(mapping(answer).get("config")), id_) for id_, answer in zip(ids, answers, strict=True)
    )


def _number(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else OLDEST


def refuse_old(version: str, address: str) -> None:
    """An error for a server that cannot tell what its automations are."""
    if _number(version) < OLDEST:
        raise too_old(version, address)


def too_old(version: str, address: str) -> DataError:
    """The error for such a server."""
    return DataError(
        f"{address}: Home Assistant {version or 'of an old version'} does not tell the configuration of automations; "
        f"update it to {OLDEST[0]}.{OLDEST[1]} or later, or read its configuration folder"
    )


@contextmanager
def connected(server: Server) -> Iterator[Connection]:
    """A connection to the server, closed at the end."""
    connect = _connector()
    context = tls_context(server) if server.websocket.startswith("wss") else None
    with _said_plainly(server.address, opening=True):
        connection = connect(server.websocket, timeout=server.timeout, context=context)
    try:
        yield connection
    finally:
        with _said_plainly(server.address, closing=True):
            connection.close()


def _connector() -> Callable[..., Connection]:
    try:
        import websocket
    except ModuleNotFoundError:
        raise DataError(f"reading a running Home Assistant needs {install_hint('hass')}") from None

    def connect(url: str, *, timeout: float, context: ssl.SSLContext | None) -> Connection:
        made: Connection = websocket.create_connection(
            url,
            timeout=timeout,
            sslopt={"context": context},
            # No proxy of the environment, as the token is for the server alone: the library asks whom not to reach by a
            # proxy only if one is given.
            http_proxy_host="none.invalid",
            http_no_proxy=["*"],
            enable_multithread=False,
        )
        return made

    return connect


@contextmanager
def _said_plainly(address: str, *, opening: bool = False, closing: bool = False) -> Iterator[None]:
    """Errors of the network as sentences. `from None`: what they carry may be what was sent."""
    import websocket

    try:
        yield
    except (ssl.SSLError, TimeoutError) as error:
        raise network_error(address, error) from None
    except websocket.WebSocketBadStatusException as error:
        raise DataError(
            f"{address}: it answers with status {error.status_code} where Home Assistant has its WebSocket; check the "
            "address, and that a proxy before it passes WebSockets on"
        ) from None
    except websocket.WebSocketAddressException:
        raise DataError(f"{address}: there is no such host; check the address and the network") from None
    except websocket.WebSocketTimeoutException:
        raise network_error(address, TimeoutError()) from None
    except (websocket.WebSocketException, OSError) as error:
        if closing:
            return
        if isinstance(error, ConnectionRefusedError) or (opening and isinstance(error, OSError)):
            raise network_error(address, error) from None
        if opening and not isinstance(error, websocket.WebSocketConnectionClosedException):
            raise DataError(f"{address}: it does not answer as a WebSocket does; check the address") from None
        raise Interrupted("the connection was closed") from None
