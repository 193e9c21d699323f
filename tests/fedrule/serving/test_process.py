"""The service as a process: reloads under load, signals, and bad arguments."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import httpx
import pytest

from fedrule.__main__ import main
from fedrule.inference import Recommender
from tests.support.served import COMMAND, PATIENCE, accepts, get, post, served
from tests.support.small_model import home, saved_model
from tests.support.waiting import wait_until

JSON = {"Content-Type": "application/json"}


def digest(service):
    return get(service, "/v1/model").json()["digest"]


@pytest.mark.parametrize("workers", [1, 2])
def test_models_are_exchanged_under_load_without_a_failed_request(tmp_path, workers):
    path = saved_model(tmp_path / "model.safetensors")
    good = [path.read_bytes(), saved_model(tmp_path / "other.safetensors", seed=9).read_bytes()]
    digests = {Recommender.load(tmp_path / name).digest for name in ("model.safetensors", "other.safetensors")}
    answers: list[tuple[int, str]] = []
    done = threading.Event()

    def ask(url):
        with httpx.Client(timeout=PATIENCE) as client:
            while not done.is_set():
                answer = client.post(f"{url}/v1/recommend", json=home())
                answers.append((answer.status_code, answer.json()["model"]["digest"]))

    with served([path], workers=workers) as service:
        askers = [threading.Thread(target=ask, args=(service.url,)) for _ in range(4)]
        for asker in askers:
            asker.start()
        reloads = []
        for content in (good[1], b"garbage", good[0], good[0][:-7], b"", good[1], os.urandom(5_000), good[0]):
            path.write_bytes(content)
            reloads.append((content in good, post(service, "/v1/model/reload", headers=JSON).status_code))
            before = len(answers)
            wait_until(lambda before=before: len(answers) >= before + 5)  # at least one began after the reload
        done.set()
        for asker in askers:
            asker.join()
        assert {status for was_good, status in reloads if was_good} == {200}
        assert {status for was_good, status in reloads if not was_good} == {422}
        assert {status for status, _ in answers} == {200}
        assert {told for _, told in answers} == digests


def test_a_hang_up_reads_the_models_again_and_garbage_changes_nothing(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with served([path]) as service:
        first = digest(service)
        saved_model(path, seed=3)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: digest(service) != first)
        second = digest(service)
        path.write_bytes(b"garbage")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "the current models stay in use" in service.log.read_text())
        assert digest(service) == second
        assert post(service, "/v1/recommend", home()).status_code == 200


def test_what_is_being_answered_is_finished_before_the_service_ends(tmp_path):
    body = json.dumps(home()).encode()
    head = b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with served([saved_model(tmp_path / "model.safetensors")]) as service:
        with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as connection:
            connection.sendall(head % len(body) + body[:100])
            wait_until(lambda: "in_flight 2.0" in get(service, "/metrics").text)
            service.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not accepts(service))
            connection.sendall(body[100:])
            answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert service.exit_code() == 0
        assert "Traceback" not in service.log.read_text()


def test_a_port_in_use_is_one_message_and_exit_code_1(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run([*COMMAND, path, "--port", str(port)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert done.stderr == (
        f"--host 127.0.0.1 --port {port}: Address already in use; choose another, or --port 0 for a free one\n"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("missing.safetensors",), "missing.safetensors: no such model"),
        (("garbage.safetensors",), "garbage.safetensors: not a fedrule model"),
        (("model.safetensors", "--max-devices", "0"), "--max-devices must be at least 1, got 0"),
        (("model.safetensors", "--port", "65536"), "--port must be in 0..65535"),
        (("model.safetensors", "--workers", "0"), "--workers must be at least 1, got 0"),
        (("model.safetensors", "--token-file", "missing"), "cannot read it (No such file or directory)"),
        (("model.safetensors", "--token-file", "garbage.safetensors"), "a token must be one non-empty word"),
        (("model.safetensors", "model.safetensors"), "two models are named 'model'"),
    ],
)
def test_what_cannot_be_served_is_one_message(tmp_path, arguments, complaint, monkeypatch, capsys):
    saved_model(tmp_path / "model.safetensors")
    (tmp_path / "garbage.safetensors").write_text("two words")
    monkeypatch.chdir(tmp_path)
    assert main(["serve", *arguments]) == 1
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1


def test_without_the_extra_it_is_one_message(tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("fedrule.serving.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert main(["serve", str(saved_model(tmp_path / "model.safetensors"))]) == 1
    assert capsys.readouterr().err.endswith('; install the extra serve: pip install -c constraints.txt -e ".[serve]"\n')


def test_the_token_and_what_people_ask_are_never_logged(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with served([path], token="hush-hush", access_log=True) as service:
        for token in ("hush-hush", "wrong-word"):
            headers = {"Authorization": f"Bearer {token}"}
            post(service, "/v1/recommend", {**home(), "user": "Ann"}, headers=headers)
        log = service.log.read_text()
    assert '"POST /v1/recommend HTTP/1.1" 200' in log
    assert '"POST /v1/recommend HTTP/1.1" 401' in log
    for secret in ("hush-hush", "wrong-word", "Ann", "ContactSensor"):
        assert secret not in log
