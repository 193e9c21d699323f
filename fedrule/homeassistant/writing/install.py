"""Puts automations into a running Home Assistant, switched off: the only code of the package that writes to a server.

for result in install("http://homeassistant.local:8123", token, automations):
    print(result)

An automation that is there already, by its id, is left alone. The token goes to the server and nowhere else.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Literal, NamedTuple

from datasets.common.errors import DataError
from fedrule.homeassistant.installation import items, mapping, text
from fedrule.homeassistant.server import Server, check_token, locate, network_error, tls_context, wrong_token
from fedrule.homeassistant.writing.automation import WrittenAutomation

ANSWER_BYTES = 100_000_000
APPEARS = 10.0  # seconds in which a new automation is loaded
SAVED = (200, 201)
OURS = re.compile(r"fedrule_[0-9a-f]{12}")  # as `automation.AutomationWriter` makes them
NOT_LOADED = "it is saved but not loaded: does configuration.yaml have `automation: !include automations.yaml`?"
OFF_AT_START = "it is off again after every restart, until you delete the line `initial_state: false` in it"
MAY_BE_ON = "look whether it is switched off: that could not be made sure"


class Installed(NamedTuple):
    """What became of one automation."""

    id: str
    alias: str
    result: Literal["installed", "already there", "refused"]
    message: str = ""  # why it was refused, or what to look at

    def __str__(self) -> str:
        return f"{self.alias}: {self.result}{f' ({self.message})' if self.message else ''}"


def install(
    address: str,
    token: str,
    automations: Sequence[WrittenAutomation],
    *,
    ca_file: Path | str | None = None,
    check_certificate: bool = True,
    timeout: float = 20.0,
) -> list[Installed]:
    """Add automations that are not there yet, each switched off; what became of each, in their order.

    A `DataError` is about the server or the token, before anything was done. Where the server fails later, nothing more
    is added: what was done before is in the list, and the rest as refused. Arguments are those of `read_live`.
    """
    check_token(token)
    server = locate(address, ca_file=ca_file, check_certificate=check_certificate, timeout=timeout)
    found: list[Installed] = []
    client = _Client(server, token)
    there = set(client.automation_states())
    for automation in automations:
        try:
            found.append(client.install(automation, there))
        except DataError as error:
            if not found:
                raise
            found += [Installed(each.id, each.alias, "refused", str(error)) for each in automations[len(found) :]]
            break
        there.add(automation.id)
    new = {each.id for each in found if each.result == "installed"}
    notes = client.keep_off({each.id: each for each in automations if each.id in new})
    return [each._replace(message=notes.get(each.id, "")) if each.result == "installed" else each for each in found]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token must not follow to another address."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class _Answer(NamedTuple):
    status: int
    body: object


class _State(NamedTuple):
    """Of an automation."""

    word: str  # on, off, or unavailable while it is loaded again
    updated: str


class _Client:
    """Requests with the token; none of them shows it."""

    def __init__(self, server: Server, token: str) -> None:
        self.server = server
        self._token = token
        secure = server.address.startswith("https")
        handlers = [urllib.request.HTTPSHandler(context=tls_context(server))] if secure else []
        # No proxy of the environment: the token is for the server alone.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect(), *handlers)

    def __repr__(self) -> str:
        return f"<client of {self.server.address}>"

    def install(self, automation: WrittenAutomation, there: set[str]) -> Installed:
        """Add one automation."""
        alias = automation.alias
        if not OURS.fullmatch(automation.id):
            return Installed(automation.id, alias, "refused", "its id is not one of ours")
        path = _path(automation)
        if automation.id in there:
            return Installed(automation.id, alias, "already there")
        kept = self._ask(path)
        if kept.status == 200:
            return Installed(automation.id, alias, "already there")
        if kept.status != 404:
            raise self._refusal(kept.status)
        answer = self._ask(path, {**automation.config, "initial_state": False})
        if answer.status == 400:
            said = text(mapping(answer.body).get("message"))[:300]
            return Installed(automation.id, alias, "refused", said or "the server does not take it")
        if answer.status not in SAVED:
            raise self._refusal(answer.status)
        return Installed(automation.id, alias, "installed")

    def keep_off(self, automations: Mapping[str, WrittenAutomation]) -> dict[str, str]:
        """Let new automations stay off until their owner switches them on, and then on; what to look at, by id.

        Those with a warning keep `initial_state: false`: the server saves what is on or off every 15 minutes and when
        it is shut down, so that after a power cut in that time an automation without this line starts switched on. An
        error of the server is said in the notes, as the automations are there.
        """
        notes: dict[str, str] = {}
        try:
            notes |= dict.fromkeys(self.not_loaded(automations), NOT_LOADED)
            warned = [id_ for id_, automation in automations.items() if automation.warnings and id_ not in notes]
            notes |= dict.fromkeys(warned, OFF_AT_START)
            return notes | self._forget_initial_state([automations[id_] for id_ in automations.keys() - notes.keys()])
        except DataError as error:
            return dict.fromkeys(automations, f"{MAY_BE_ON}; {error}") | notes

    def _forget_initial_state(self, automations: Sequence[WrittenAutomation]) -> dict[str, str]:
        """Save them again without `initial_state`, by which they would be off again after every restart.

        The server gives an automation the state that it had before, which is off. One that is not keeps the line, and
        so does one that is not saved again; these have notes.
        """
        notes: dict[str, str] = {}
        before = self.automation_states() if automations else {}
        for automation in automations:
            if self._ask(_path(automation), automation.config).status not in SAVED:
                notes[automation.id] = OFF_AT_START
        missing = self.not_loaded({each.id for each in automations if each.id not in notes}, before)
        states = self.automation_states() if automations else {}
        for automation in automations:
            if automation.id in missing or automation.id not in states or states[automation.id].word != "off":
                again = self._ask(_path(automation), {**automation.config, "initial_state": False})
                notes[automation.id] = OFF_AT_START if again.status in SAVED else MAY_BE_ON
        return notes

    def automation_states(self) -> dict[str, _State]:
        """By the ids of the automations that the server has loaded, wherever they are defined."""
        answer = self._ask("/api/states")
        if answer.status != 200:
            raise self._refusal(answer.status)
        found: dict[str, _State] = {}
        for state in map(mapping, items(answer.body)):
            id_ = mapping(state.get("attributes")).get("id")
            if text(state.get("entity_id")).startswith("automation.") and id_ is not None:
                found[str(id_)] = _State(text(state.get("state")), text(state.get("last_updated")))
        return found

    def not_loaded(self, ids: Iterable[str], before: Mapping[str, _State] | None = None) -> set[str]:
        """Those that the server does not load, or not again since `before`; it does so a moment after its answer."""
        wanted = set(ids)
        until = time.monotonic() + APPEARS
        while wanted:
            states = self.automation_states()
            known = before or {}
            loaded = {id_ for id_, state in states.items() if state.word in ("on", "off") and state != known.get(id_)}
            wanted -= loaded
            if not wanted or time.monotonic() > until:
                break
            time.sleep(0.2)
        return wanted

    def _refusal(self, status: int) -> DataError:
        """Why the server does not do it."""
        address = self.server.address
        if status == 401:
            if self._ask("/api/").status == 401:
                return wrong_token(address)
            return DataError(
                f"{address}: the access token is of a user who may not change automations; use the token of an "
                "administrator (settings, people, administrator), or paste the automations yourself"
            )
        if 300 <= status < 400:
            return DataError(f"{address}: it sends us to another address; give that one")
        if status == 404:
            return DataError(f"{address}: it does not answer as a Home Assistant with its `config` and `api` does")
        return DataError(f"{address}: it answers with status {status}; look at its log, and try again")

    def _ask(self, path: str, body: Mapping[str, object] | None = None) -> _Answer:
        """GET, or POST where there is a body."""
        address = self.server.address
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{address}{path}", sent, headers)
        try:
            with self._opener.open(request, timeout=self.server.timeout) as answer:
                return _Answer(answer.status, _json(answer.read(ANSWER_BYTES)))
        except urllib.error.HTTPError as error:
            with error:
                return _Answer(error.code, _json(error.read(100_000)))
        except urllib.error.URLError as error:
            cause = error.reason if isinstance(error.reason, OSError) else OSError(None, "no such host")
            raise network_error(address, cause) from None
        except OSError as error:
            raise network_error(address, error) from None
        except HTTPException:
            raise DataError(f"{address}: it does not answer as a web server does; check the address") from None


def _path(automation: WrittenAutomation) -> str:
    return f"/api/config/automation/config/{automation.id}"


def _json(body: bytes) -> object:
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found
