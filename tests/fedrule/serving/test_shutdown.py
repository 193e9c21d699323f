"""How the service ends at SIGTERM: soon, whatever it is at, and with an answer to those who wait."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest

from tests.support.served import served
from tests.support.small_model import home, saved_model, slow_model

PATIENCE = 30.0  # seconds
# Told to end in the moment before uvicorn listens to signals.
AT_ONCE = """
import os, signal, sys
from fedrule.__main__ import main
from fedrule.serving.server import Server
run = Server.run
def told_to_end(self, **given):
    os.kill(os.getpid(), signal.SIGTERM)
    run(self, **given)
Server.run = told_to_end
sys.exit(main(["serve", sys.argv[1], "--port", "0"]))
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    return slow_model(tmp_path_factory.mktemp("models") / "slow.safetensors")


def ended_while_asking(service, path, body):
    """What a client is answered whose request is being worked on when the service is told to end."""
    answers: list[httpx.Response] = []

    def ask():
        answers.append(httpx.post(f"{service.url}{path}", json=body, timeout=PATIENCE))

    asker = threading.Thread(target=ask)
    asker.start()
    until = time.monotonic() + PATIENCE
    while "in_flight 2.0" not in httpx.get(f"{service.url}/metrics").text and time.monotonic() < until:
        time.sleep(0.05)
    service.process.send_signal(signal.SIGTERM)
    asker.join()
    assert service.ended(within=PATIENCE) == 0
    assert "Traceback" not in service.log.read_text()
    return answers[0]


def test_a_long_batch_ends_with_the_homes_that_are_done(slow):
    # 200 homes that take more than a tenth of a second each
    batch = {"homes": [home(60, rules=0)] * 200}
    with served([slow], grace=2, max_work_seconds=1_000) as service:
        answer = ended_while_asking(service, "/v1/recommend/batch", batch)
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert len(results) == 200
    assert results[-1]["error"]["code"] == "ending"


def test_a_search_that_cannot_be_broken_off_does_not_hold_the_end_up(slow):
    # Twenty seconds and more: 500 x 500 x 1,000 candidates
    with served([slow], grace=2, max_work_seconds=1_000) as service:
        answer = ended_while_asking(service, "/v1/recommend", home(500, rules=0))
        assert "The service ends in the midst of a search" in service.log.read_text()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ending")


def test_a_signal_before_the_service_listens_to_signals_ends_it_too(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    done = subprocess.run([sys.executable, "-c", AT_ONCE, path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
