"""How the service shuts down at SIGTERM: soon, whatever it is doing, and with a response to clients that wait."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading

import httpx
import pytest
import uvicorn

from fedrule.serving.routes import application
from fedrule.serving.server import Server
from tests.support.served import PATIENCE, get, post, served
from tests.support.small_model import saved_model, slow_home, slow_model
from tests.support.waiting import wait_until

GRACE = 3_600  # seconds: the share of it that is meant to pass is 0 in these tests
# The service with other shares of the grace after which batches stop and clients get an error.
WITH_SHARES = "import sys; from fedrule.serving import server; server.STOP, server.ABANDON = {}, {}; "
WITH_SHARES += "from fedrule.__main__ import main; sys.exit(main(['serve', *sys.argv[1:]]))"
# SIGTERM just before uvicorn installs its signal handlers.
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


def ended_during(service, path, body, begun):
    """The response to a request that is in progress, by the metrics, when the service gets SIGTERM."""
    answers: list[httpx.Response] = []
    client = threading.Thread(target=lambda: answers.append(post(service, path, body)))
    client.start()
    wait_until(lambda: re.search(begun, get(service, "/metrics").text) is not None)
    service.process.send_signal(signal.SIGTERM)
    client.join()
    assert service.exit_code() == 0
    assert "Traceback" not in service.log.read_text()
    return answers[0]


def test_a_long_batch_ends_with_the_homes_that_are_done(slow):
    # 200 homes that take more than a tenth of a second each
    batch = {"homes": [slow_home(60)] * 200}
    command = [sys.executable, "-c", WITH_SHARES.format(0.0, 1.0)]
    with served([slow], command=command, grace=GRACE) as service:
        answer = ended_during(service, "/v1/recommend/batch", batch, r"\nfedrule_homes_total [1-9]")
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert len(results) == 200
    assert results[0]["recommendations"]
    assert results[-1]["error"]["code"] == "shutting_down"


def test_a_search_that_cannot_be_interrupted_does_not_delay_the_end(slow):
    # Twenty seconds and more: 500 x 500 x 1,000 candidates
    command = [sys.executable, "-c", WITH_SHARES.format(1.0, 0.0)]
    with served([slow], command=command, grace=GRACE) as service:
        answer = ended_during(service, "/v1/recommend", slow_home(500), "in_flight 2.0")
        assert "Shutting down during a search" in service.log.read_text()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")


def test_batches_stop_at_70_percent_of_the_grace_and_clients_get_an_error_at_90(tmp_path, monkeypatch):
    app = application([saved_model(tmp_path / "model.safetensors")])
    workers, calls = app.service.workers, []

    async def no_connections(*_, **__):
        pass

    async def shut_down():
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *call: calls.append(call), raising=False)
        await Server(uvicorn.Config(app, timeout_graceful_shutdown=20), app).shutdown()

    monkeypatch.setattr(uvicorn.Server, "shutdown", no_connections)
    asyncio.run(shut_down())
    app.service.close()
    assert calls == [(14.0, workers.stop), (18.0, workers.abandon)]


def test_a_signal_before_the_service_listens_to_signals_ends_it_too(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    done = subprocess.run([sys.executable, "-c", AT_ONCE, path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
