"""The service with several worker processes: one port, one set of models in memory, one reload, one set of counters."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from baselines.contract import planted_homes
from fedrule.inference import HomeRequest, Recommender
from fedrule.serving.errors import ApiError
from fedrule.serving.limits import Limits
from fedrule.serving.model_store import ModelStore
from fedrule.serving.shared_models import read_models, shared_file, write_models
from fedrule.serving.supervisor import Channel, SharedStore, WorkerOptions
from tests.support.evidence_models import evidence_model
from tests.support.served import COMMAND, PATIENCE, accepts, get, post, served
from tests.support.small_model import home, saved_model
from tests.support.waiting import wait_until

JSON = {"Content-Type": "application/json"}
MANY = 32  # new connections: the chance that one of two workers gets none of them is 2 ** -31


@pytest.fixture
def path(tmp_path):
    return saved_model(tmp_path / "model.safetensors")


@dataclass(frozen=True)
class HeldLoader:
    """A module for the service with which reading a model waits as long as a file is there."""

    folder: Path
    options: ClassVar = {"import": "held_loader"}
    code: ClassVar = """
import os, time
from pathlib import Path
from fedrule.models.file import SavedModel

hold, waits, load = Path(__file__).with_name("hold"), Path(__file__).with_name("waits"), SavedModel.load

def held(path):
    if hold.exists():
        written = waits.with_suffix(".new")
        written.write_text(str(os.getpid()))
        written.rename(waits)  # whoever reads it finds all of it
    while hold.exists():
        time.sleep(0.01)
    return load(path)

SavedModel.load = held
"""

    @contextmanager
    def holding(self):
        (self.folder / "hold").touch()
        try:
            yield
        finally:
            (self.folder / "hold").unlink()

    def waits(self):
        return (self.folder / "waits").exists()

    def pid(self):
        return int((self.folder / "waits").read_text())


@pytest.fixture
def held_loader(tmp_path, monkeypatch):
    (tmp_path / "held_loader.py").write_text(HeldLoader.code)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return HeldLoader(tmp_path)


def digests(service):
    return {get(service, "/v1/model").json()["digest"] for _ in range(MANY // 2)}


def counter(service, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", get(service, "/metrics").text, re.MULTILINE)[1])


def wait_until_settled(service):
    """Until all requests are counted, which they are a moment after their responses; but for the one that asks."""
    wait_until(lambda: counter(service, "fedrule_requests_in_flight") == 1)


def opened(pid, kind):
    """How many files of a kind a process has open; `realpath` bears one that it closes meanwhile."""
    return sum(kind in os.path.realpath(link) for link in Path(f"/proc/{pid}/fd").iterdir())


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_connections_are_spread_over_the_workers_and_counted_together(path):
    with served([path], workers=2) as service, ExitStack() as connections:
        assert len(digests(service)) == 1  # both have started
        before = [opened(pid, "socket:") for pid in service.workers()]
        assert len(before) == 2
        for _ in range(MANY):
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        after = [opened(pid, "socket:") for pid in service.workers()]
        # One more may be the last of those before, which was not closed yet.
        assert all(one > other + 1 for one, other in zip(after, before, strict=True))
        wait_until_settled(service)
        assert counter(service, 'fedrule_requests_total{route="/healthz",status="200"}') == MANY
        for _ in range(MANY):
            assert post(service, "/v1/recommend", {**home(), "k": 2}).status_code == 200
        wait_until_settled(service)
        assert counter(service, "fedrule_homes_total") == MANY
        assert counter(service, "fedrule_recommendations_total") == 2 * MANY
        assert counter(service, 'fedrule_request_seconds_count{route="/v1/recommend"}') == MANY
        assert get(service, "/metrics").text.count("\nfedrule_model_info{") == 1


def test_the_arrays_of_the_models_are_in_memory_once(path):
    with served([path], workers=2) as service:
        digests(service)  # both have started
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in service.workers()]
        mapped = [re.findall(r"^\S+ (\S+) \S+ \S+ (\d+) +/memfd:fedrule-models", each, re.MULTILINE) for each in maps]
        ((permissions, _),) = mapped[0]
        assert permissions == "r--s"  # nobody can write to it
        assert mapped[0] == mapped[1]  # the same inode


def test_the_compiler_of_evidence_models_is_imported_before_workers_are_forked(tmp_path):
    homes = planted_homes()
    evidence_model(homes).save(path := tmp_path / "model.safetensors")
    with served([path], workers=2) as service:
        asked = {"devices": [{"id": at, "type": name} for at, name in enumerate(homes.types)]}
        assert post(service, "/v1/recommend", asked).json()["model"]["method"] == "graphrank"
        assert "llvmlite" in Path(f"/proc/{service.process.pid}/maps").read_text()


def test_a_reload_reaches_all_workers_before_it_is_answered(path):
    with served([path], workers=3) as service:
        before = digests(service)
        saved_model(path, seed=5)
        answer = post(service, "/v1/model/reload", headers=JSON)
        expected = Recommender.load(path).digest
        assert (answer.status_code, answer.json()["models"][0]["digest"]) == (200, expected)
        assert digests(service) == {expected} != before
        path.write_bytes(path.read_bytes()[:1000])  # in place: workers must not read the file itself
        refused = post(service, "/v1/model/reload", headers=JSON)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "bad_model")
        assert str(path.parent) not in refused.text
        assert digests(service) == {expected}
        assert post(service, "/v1/recommend", home()).json()["model"]["digest"] == expected
        assert counter(service, 'fedrule_reloads_total{result="ok"}') == 1
        assert counter(service, 'fedrule_reloads_total{result="failed"}') == 1
        # A worker that is started later has the models of the last good reload.
        for pid in service.workers():
            os.kill(pid, signal.SIGKILL)
        assert digests(service) == {expected}


def test_so_does_a_hang_up(path):
    with served([path], workers=2) as service:
        digests(service)
        saved_model(path, seed=3)
        service.process.send_signal(signal.SIGHUP)
        expected = Recommender.load(path).digest
        wait_until(lambda: digests(service) == {expected})


def test_a_hang_up_while_workers_start_reaches_them_later(path):
    with served([path], workers=2) as service:  # from now on it has models, but no worker yet
        for seed in (1, 2):
            saved_model(path, seed=seed)
            service.process.send_signal(signal.SIGHUP)
            expected = Recommender.load(path).digest
            wait_until(lambda expected=expected: digests(service) == {expected})
            for pid in service.workers():
                os.kill(pid, signal.SIGKILL)


def test_a_reload_that_the_end_interrupts_is_answered(path, held_loader):
    with served([path], **held_loader.options, workers=2) as service, ThreadPoolExecutor(1) as pool:
        digests(service)
        with held_loader.holding():
            answer = pool.submit(post, service, "/v1/model/reload", headers=JSON)
            wait_until(held_loader.waits)
            service.process.send_signal(signal.SIGTERM)
            refused = answer.result(PATIENCE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert service.exit_code() == 0
        assert "Traceback" not in service.log.read_text()


def test_a_worker_that_asks_for_a_reload_is_answered_when_its_supervisor_is_gone(path):
    def refused(worker):
        try:
            worker.reload()
        except ApiError as error:
            codes.append(error.code)

    codes = []
    ours, theirs = socket.socketpair()
    file, ended = shared_file(), threading.Event()
    store = ModelStore([path], Limits())
    write_models({model.name: model for model in store.models}, file)
    before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        options = WorkerOptions([path], Limits(), None, access_log=False, grace=1, metrics=path.parent)
        worker = SharedStore(options, Channel(theirs), file)
        ours.close()
        for _ in range(2):
            asked = threading.Thread(target=refused, args=[worker], daemon=True)
            asked.start()
            asked.join(PATIENCE)
        assert codes == ["shutting_down", "shutting_down"]
        wait_until(ended.is_set)
    finally:
        signal.signal(signal.SIGTERM, before)
        theirs.close()


def test_a_worker_that_starts_during_a_reload_keeps_nothing_of_it_open(path, held_loader):
    with served([path], **held_loader.options, workers=2) as service:
        digests(service)
        first = service.workers()
        with held_loader.holding():
            service.process.send_signal(signal.SIGHUP)
            wait_until(held_loader.waits)
            os.kill(first[0], signal.SIGKILL)
            wait_until(lambda: len(service.workers()) == 3 and first[0] not in service.workers())
            (started,) = {*service.workers()} - {*first, held_loader.pid()}
            wait_until(lambda: opened(started, "/memfd:fedrule-models") == 1)  # what it uses


def test_workers_count_together_though_a_module_imports_the_counters_first(path, tmp_path, monkeypatch):
    (tmp_path / "counting.py").write_text("import prometheus_client\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with served([path], **{"import": "counting"}, workers=2) as service:
        for _ in range(MANY):
            assert post(service, "/v1/recommend", home()).status_code == 200
        wait_until_settled(service)
        assert counter(service, "fedrule_homes_total") == MANY


def test_a_worker_that_dies_is_started_again_and_its_counts_stay(path):
    with served([path], workers=2) as service:
        for _ in range(MANY):
            assert post(service, "/v1/recommend", home()).status_code == 200
        first = service.workers()
        os.kill(first[0], signal.SIGKILL)
        said = f"Worker {first[0]} ended with signal SIGKILL; starting another\n"
        wait_until(lambda: said in service.log.read_text())
        wait_until(lambda: len(service.workers()) == 2 and first[0] not in service.workers())
        assert first[1] in service.workers()
        for _ in range(MANY):
            assert post(service, "/v1/recommend", home()).status_code == 200
        wait_until_settled(service)
        assert counter(service, "fedrule_homes_total") == 2 * MANY


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_workers_finish_their_requests_before_the_service_ends(path, number):
    body = json.dumps(home()).encode()
    head = b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with served([path], workers=2) as service, ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) for _ in range(MANY)
        ]
        for connection in connections:
            connection.sendall(head % len(body) + body[:100])
        wait_until(lambda: counter(service, "fedrule_requests_in_flight") == MANY + 1)
        workers = service.workers()
        service.process.send_signal(number)
        wait_until(lambda: not accepts(service))
        for connection in connections:
            connection.sendall(body[100:])
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        assert service.exit_code() == 0
        assert not any(map(runs, workers))
        log = service.log.read_text()
    assert "Traceback" not in log
    assert "starting another" not in log


def test_workers_end_when_their_supervisor_is_killed(path):
    with served([path], workers=2) as service:
        digests(service)
        workers = service.workers()
        service.process.kill()
        wait_until(lambda: not any(map(runs, workers)))


def test_what_cannot_be_served_is_one_message_and_exit_code_1(path):
    def refused(*arguments):
        done = subprocess.run(
            [*COMMAND, *arguments, "--workers", "2"], capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 1
        return done.stderr

    with served([path], workers=2) as service:
        taken = refused(path, "--port", str(service.port))  # a shared port must not be joined by another service
    assert taken == (
        f"--host 127.0.0.1 --port {service.port}: Address already in use; choose another, or --port 0 for a free one\n"
    )
    missing = path.with_name("missing.safetensors")
    assert refused(missing, "--port", "0").startswith(f"{missing}: no such model")
    path.write_bytes(path.read_bytes()[:1000])
    assert refused(path, "--port", "0").count("\n") == 1


def test_models_in_shared_memory_answer_as_those_that_were_written(path):
    store = ModelStore([path], Limits())
    file = shared_file()
    write_models({model.name: model for model in store.models}, file)
    shared = read_models(file)["model"]
    os.close(file)  # what is mapped stays
    original = store.model(None)
    assert (shared.name, shared.summary, shared.rules) == (original.name, original.summary, original.rules)
    asked = HomeRequest.from_json(home(6, rules=2))
    assert shared.recommender.recommend(asked, k=20) == original.recommender.recommend(asked, k=20)
    with pytest.raises(ValueError, match="read-only"):
        shared.recommender.valid.cell[:] = np.int64(0)
