"""Installing: what is sent, what is left alone, and each refusal as a sentence in which the token is not.

The server here answers as a real one was seen to; test_proof.py installs on a real one.
"""

from __future__ import annotations

import ast
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import fedrule.homeassistant
from datasets.common.errors import DataError
from fedrule.homeassistant.writing import install as installing
from fedrule.homeassistant.writing.automation import WrittenAutomation
from fedrule.homeassistant.writing.install import install

TOKEN = "the-right-token-of-the-test"
ONE, TWO = "fedrule_00000000000a", "fedrule_00000000000b"
CONFIG = {"id": ONE, "alias": "Lamp", "trigger": [], "condition": [], "action": [], "mode": "single"}
LAMP = WrittenAutomation(CONFIG)
OTHER = WrittenAutomation({**CONFIG, "id": TWO, "alias": "Other"})


class AnsweringServer(ThreadingHTTPServer):
    """Keeps what is posted; `refuses` are statuses by method, `loads` whether it loads what it keeps.

    With `restores` an automation that is saved again has the state that it had, as on a real server.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.kept: dict[str, dict[str, object]] = {}
        self.in_packages: set[str] = set()
        self.refuses: dict[str, int] = {}
        self.refused_posts: dict[int, int] = {}  # statuses by the number of the POST, from 1
        self.redirect = ""
        self.slow = False
        self.asked_since_post = 0
        self.loads = self.restores = True
        self.state: dict[str, str] = {}
        self.posted: list[dict[str, object]] = []
        self.requests: list[tuple[str, str]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def state_now(self, id_: str) -> str:
        """Unavailable at the first question after a change, while it is loaded again."""
        self.asked_since_post += 1
        return "unavailable" if self.slow and self.asked_since_post == 1 else self.state.get(id_, "on")

    def posts(self) -> int:
        return sum(method == "POST" for method, _ in self.requests)


class Answering(BaseHTTPRequestHandler):
    server: AnsweringServer

    def _answer(self, method: str) -> None:
        self.server.requests.append((method, self.path))
        id_ = self.path.rpartition("/")[2]
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
        status, answer = 200, {"result": "ok"}
        key = f"{method} {'config' if 'config' in self.path else id_}"
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status = 401
        elif key in self.server.refuses:
            status, answer = self.server.refuses[key], {"message": "Message malformed: no trigger"}
        elif method == "POST" and self.server.refused_posts.get(self.server.posts()):
            status, answer = self.server.refused_posts[self.server.posts()], {"message": "no"}
        elif self.path == "/api/states":
            loaded = [*self.server.kept, *self.server.in_packages] if self.server.loads else []
            answer = [
                {
                    "entity_id": f"automation.{each}",
                    "state": self.server.state_now(each),
                    "last_updated": str(self.server.posts()),
                    "attributes": {"id": each},
                }
                for each in loaded
            ]
        elif method == "POST":
            self.server.kept[id_] = body
            self.server.posted.append(body)
            self.server.asked_since_post = 0
            before = self.server.state.get(id_, "on") if self.server.restores else "on"
            self.server.state[id_] = "off" if body.get("initial_state") is False else before
        elif "config" in self.path and id_ not in self.server.kept:
            status, answer = 404, {"message": "Resource not found"}
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.redirect)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[AnsweringServer]:
    server = AnsweringServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def test_what_is_installed_is_switched_off_until_its_owner_switches_it_on():
    with answering() as server:
        results = install(server.address, TOKEN, [LAMP, OTHER])
    assert [str(each) for each in results] == ["Lamp: installed", "Other: installed"]
    assert server.state == {ONE: "off", TWO: "off"}
    assert server.posted[:2] == [{**each.config, "initial_state": False} for each in (LAMP, OTHER)]  # never on
    assert server.kept == {ONE: LAMP.config, TWO: OTHER.config}


def test_where_the_server_does_not_keep_it_off_it_starts_off():
    with answering() as server:
        server.restores = False
        install(server.address, TOKEN, [LAMP])
    assert server.state == {ONE: "off"}
    assert server.kept == {ONE: {**LAMP.config, "initial_state": False}}


def test_an_automation_that_is_loaded_slowly_is_waited_for():
    with answering() as server:
        server.slow = True
        (result,) = install(server.address, TOKEN, [LAMP])
    assert str(result) == "Lamp: installed"
    assert server.kept == {ONE: LAMP.config}


def test_what_can_do_harm_is_off_after_a_power_cut_too():
    # The server saves what is on or off every 15 minutes only.
    lock = WrittenAutomation(OTHER.config, warnings=("It unlocks the door.",))
    with answering() as server:
        lamp_result, lock_result = install(server.address, TOKEN, [LAMP, lock])
    assert server.kept == {ONE: LAMP.config, TWO: {**lock.config, "initial_state": False}}
    assert lamp_result.message == ""
    assert "off again after every restart" in lock_result.message


def test_a_server_that_fails_in_the_middle_has_what_it_did_before_reported():
    with answering() as server:
        server.refused_posts = {2: 500}
        results = install(server.address, TOKEN, [LAMP, OTHER, OTHER])
    assert [each.result for each in results] == ["installed", "refused", "refused"]
    assert "status 500; look at its log" in results[1].message
    assert server.kept == {ONE: LAMP.config}
    assert server.state == {ONE: "off"}


def test_an_automation_that_is_not_saved_again_says_that_it_keeps_its_line():
    with answering() as server:
        server.refused_posts = {2: 500}
        (result,) = install(server.address, TOKEN, [LAMP])
    assert result.result == "installed"
    assert "until you delete the line `initial_state: false`" in result.message
    assert server.kept == {ONE: {**LAMP.config, "initial_state": False}}


def test_an_automation_that_may_be_on_says_so():
    with answering() as server:
        server.restores = False
        server.refused_posts = {3: 500}  # where its line would come back
        (result,) = install(server.address, TOKEN, [LAMP])
    assert result.message == "look whether it is switched off: that could not be made sure"
    assert server.state == {ONE: "on"}


def test_a_server_that_goes_away_after_installing_is_a_note(monkeypatch):
    def gone(*_: object) -> set[str]:
        raise DataError("it went away")

    with answering() as server:
        monkeypatch.setattr(installing._Client, "not_loaded", gone)
        (result,) = install(server.address, TOKEN, [LAMP])
    assert str(result) == (
        "Lamp: installed (look whether it is switched off: that could not be made sure; it went away)"
    )


def test_what_is_there_is_left_alone():
    with answering() as server:
        server.kept[ONE] = {"alias": "changed by its owner"}
        server.in_packages = {TWO}
        results = install(server.address, TOKEN, [LAMP, OTHER])
    assert [each.result for each in results] == ["already there", "already there"]
    assert server.kept == {ONE: {"alias": "changed by its owner"}}
    assert {method for method, _ in server.requests} == {"GET"}


def test_what_is_there_and_not_loaded_is_left_alone_too():
    with answering() as server:
        server.kept[ONE] = {"alias": "changed by its owner"}
        server.loads = False
        assert [each.result for each in install(server.address, TOKEN, [LAMP])] == ["already there"]
    assert {method for method, _ in server.requests} == {"GET"}


def test_the_same_automation_twice_is_installed_once():
    with answering() as server:
        assert [each.result for each in install(server.address, TOKEN, [LAMP, LAMP])] == ["installed", "already there"]


def test_an_automation_that_the_server_does_not_take_is_reported_and_the_next_is_tried():
    with answering() as server:
        server.refuses["POST config"] = 400
        results = install(server.address, TOKEN, [LAMP, OTHER])
    assert [each.result for each in results] == ["refused", "refused"]
    assert str(results[0]) == "Lamp: refused (Message malformed: no trigger)"


@pytest.mark.parametrize("id_", ["../../states/light.x", "morning_lights", "fedrule_1", ONE + "0", ONE + "\n"])
def test_an_id_that_is_not_ours_is_not_sent(id_):
    with answering() as server:
        (result,) = install(server.address, TOKEN, [WrittenAutomation({**CONFIG, "id": id_})])
    assert result.result == "refused"
    assert server.requests == [("GET", "/api/states")]


def test_a_server_that_does_not_load_its_automations_yaml_is_said(monkeypatch):
    monkeypatch.setattr(installing, "APPEARS", 0.1)
    with answering() as server:
        server.loads = False
        (result,) = install(server.address, TOKEN, [LAMP])
    assert "automation: !include automations.yaml" in result.message


def test_a_wrong_token_is_said_and_not_shown(caplog):
    caplog.set_level(logging.DEBUG)
    wrong = "wrong-token-1234"
    with answering() as server, pytest.raises(DataError, match="refuses the access token") as caught:
        install(server.address, wrong, [LAMP])
    shown = [str(caught.value), repr(caught.value), repr(caught.value.__context__), caplog.text]
    assert not any(wrong in text for text in shown)


@pytest.mark.parametrize("refused", ["GET config", "POST config"])
def test_a_token_that_may_only_look_says_whose_is_needed(refused):
    with answering() as server:
        server.refuses[refused] = 401
        with pytest.raises(DataError, match="may not change automations; use the token of an administrator"):
            install(server.address, TOKEN, [LAMP])
    assert server.kept == {}


def test_the_token_does_not_follow_to_another_address():
    with answering() as server, answering() as elsewhere:
        server.refuses["GET states"] = 302
        server.redirect = f"{elsewhere.address}/api/states"
        with pytest.raises(DataError, match="sends us to another address"):
            install(server.address, TOKEN, [LAMP])
    assert server.requests == [("GET", "/api/states")]
    assert elsewhere.requests == []


def test_the_token_does_not_go_through_a_proxy_of_the_environment(monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with answering() as server, answering() as proxy:
        monkeypatch.setenv("http_proxy", proxy.address)
        assert [each.result for each in install(server.address, TOKEN, [LAMP])] == ["installed"]
    assert proxy.requests == []


@pytest.mark.parametrize(("status", "said"), [(404, "does not answer as a Home Assistant"), (500, "status 500")])
def test_other_refusals_are_sentences(status, said):
    with answering() as server:
        server.refuses["GET states"] = status
        with pytest.raises(DataError, match=said):
            install(server.address, TOKEN, [LAMP])


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:1", "refused; is Home Assistant running"),
        ("http://no-such-host.invalid", "check the address and the network"),
        ("homeassistant", "not an address"),
    ],
)
def test_an_address_that_is_wrong_is_a_sentence(address, said):
    with pytest.raises(DataError, match=said):
        install(address, TOKEN, [LAMP])


def test_https_to_a_server_without_it_is_a_sentence():
    with answering() as server, pytest.raises(DataError, match="does it answer https, or only http"):
        install(server.address.replace("http", "https"), TOKEN, [LAMP])


def test_a_token_that_cannot_be_one_is_refused_before_anything_is_sent():
    with pytest.raises(DataError, match="copy it again"):
        install("http://127.0.0.1:1", "two words", [LAMP])


def test_nothing_else_in_the_package_sends_requests():
    # Requests by HTTP are made in install.py, and the WebSocket of live.py sends its READS only (test_live.py).
    root = Path(fedrule.homeassistant.__file__).parent
    senders = {"urllib.request", "http.client", "requests", "httpx", "aiohttp", "socket", "websocket"}
    found = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if used := senders & set(names):
                found.setdefault(path.relative_to(root).as_posix(), set()).update(used)
    assert found == {"writing/install.py": {"urllib.request", "http.client"}, "readers/live.py": {"websocket"}}
