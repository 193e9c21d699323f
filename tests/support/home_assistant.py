"""A real Home Assistant on this machine: started on a free loopback port with a user of its own, stopped at the end."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.waiting import wait_until

DEMO_HOME = Path(__file__).parents[1] / "fedrule" / "homeassistant" / "demo_home"
CLIENT = "http://127.0.0.1/"  # who asks for a token, by Home Assistant's form
USER, PASSWORD = "tester", "only-for-tests"
STARTED = 120  # seconds that a server may take
LIMITS = {"seconds": STARTED, "interval": 0.5}


class RunningServer(NamedTuple):
    """Where it is, how to sign in, and its configuration folder."""

    address: str
    token: str
    folder: Path


def hass_command() -> str | None:
    """The command `hass`, by the variable HASS or on the path; None where Home Assistant is not installed."""
    return os.environ.get("HASS") or shutil.which("hass")


@contextmanager
def running_home_assistant(folder: Path) -> Iterator[RunningServer]:
    """A server with the demo home of our own and Home Assistant's `demo` integration, in an empty folder."""
    command = hass_command()
    assert command is not None
    shutil.copytree(DEMO_HOME, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".storage", ".HA_VERSION"))
    port = _free_port()
    main = folder / "configuration.yaml"
    main.write_text(main.read_text().replace("server_port: 18765", f"server_port: {port}"))
    account = [command, "--script", "auth", "-c", str(folder), "add", USER, PASSWORD]
    subprocess.run(account, check=True, capture_output=True, timeout=STARTED)
    log = (folder / "server.log").open("wb")
    process = subprocess.Popen([command, "-c", str(folder), "--skip-pip"], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _is_up(address, process), "Home Assistant to start", **LIMITS)
        token = _token(address)
        wait_until(lambda: _is_complete(address, token), "Home Assistant to finish starting", **LIMITS)
        yield RunningServer(address, token, folder)
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        log.close()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _is_up(address: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Home Assistant stopped while starting"
    try:
        urllib.request.urlopen(f"{address}/api/", timeout=5).close()
    except urllib.error.HTTPError:  # it wants a token: it is up
        return True
    except OSError:
        return False
    return False


def _is_complete(address: str, token: str) -> bool:
    """It answers before all of its entities are there."""
    request = urllib.request.Request(f"{address}/api/config", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bool(json.load(answer)["state"] == "RUNNING")


def _token(address: str, user: str = USER) -> str:
    """An access token by the login form; the first user is an administrator."""
    begin = {"client_id": CLIENT, "handler": ["homeassistant", None], "redirect_uri": CLIENT}
    flow = _post(f"{address}/auth/login_flow", json.dumps(begin).encode(), "application/json")
    filled = {"client_id": CLIENT, "username": user, "password": PASSWORD}
    done = _post(f"{address}/auth/login_flow/{flow['flow_id']}", json.dumps(filled).encode(), "application/json")
    grant = {"grant_type": "authorization_code", "code": str(done["result"]), "client_id": CLIENT}
    kind = "application/x-www-form-urlencoded"
    return str(_post(f"{address}/auth/token", urllib.parse.urlencode(grant).encode(), kind)["access_token"])


def _post(url: str, body: bytes, kind: str) -> Mapping[str, object]:
    request = urllib.request.Request(url, body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


FURNISHED: tuple[Mapping[str, object], ...] = (
    {"type": "config/area_registry/create", "name": "Kitchen"},
    {"type": "config/area_registry/create", "name": "Back garden"},
    {"type": "config/entity_registry/update", "entity_id": "light.kitchen_lights", "area_id": "kitchen"},
    {"type": "config/entity_registry/update", "entity_id": "switch.decorative_lights", "area_id": "kitchen"},
    {"type": "config/entity_registry/update", "entity_id": "binary_sensor.movement_backyard", "area_id": "back_garden"},
    {"type": "config/entity_registry/update", "entity_id": "light.bed_light", "name": "Reading lamp"},
    {"type": "config/entity_registry/update", "entity_id": "light.office_rgbw_lights", "hidden_by": "user"},
    {"type": "config/entity_registry/update", "entity_id": "sensor.carbon_dioxide", "disabled_by": "user"},
)


def furnish(server: RunningServer) -> None:
    """Give the demo home rooms, a name of its owner's, a hidden and a disabled entity."""
    command(server, FURNISHED)


def reader_token(server: RunningServer) -> str:
    """The token of a new user who may only look."""
    create = {"type": "config/auth/create", "name": "Reader", "group_ids": ["system-read-only"]}
    (created,) = command(server, [create])
    user = created["user"]
    assert isinstance(user, dict)
    account = {"type": "config/auth_provider/homeassistant/create", "user_id": user["id"]}
    command(server, [{**account, "username": "reader", "password": PASSWORD}])
    return _token(server.address, "reader")


def command(server: RunningServer, commands: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Send commands as the administrator; all of them must succeed."""
    import websocket

    connection = websocket.create_connection(server.address.replace("http", "ws") + "/api/websocket", timeout=30)
    answers = []
    try:
        connection.recv()
        connection.send(json.dumps({"type": "auth", "access_token": server.token}))
        connection.recv()
        for number, each in enumerate(commands, 1):
            connection.send(json.dumps({"id": number, **each}))
            answer = json.loads(connection.recv())
            assert answer["success"], answer["error"]
            answers.append(answer["result"])
    finally:
        connection.close()
    return answers
