"""`recommend --cluster` on a real Dask cluster and as jobs of submitit: the file of `--jobs`, whatever dies."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from argparse import Namespace
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra cluster")
pytest.importorskip("submitit", reason="needs the extra cluster")

import psutil

import datasets
from benchmarks.cluster import dask_cluster
from benchmarks.cluster.batch_system import BatchSystem
from benchmarks.cluster.cluster import ATTEMPTS, Cluster
from benchmarks.runs.history import ignore_progress
from datasets.common.errors import DataError
from datasets.common.progress import Progress
from fedrule.__main__ import main
from fedrule.commands import cluster_lists
from fedrule.commands.cluster_lists import ClusterLists
from fedrule.commands.list_handler import HOMES, ListHandler, code_of
from fedrule.inference import Recommender
from fedrule.inference.arrow_lists import ArrowLists
from tests.support.crowded import crowded
from tests.support.dask_cluster import ROOT, DaskProcesses
from tests.support.homes_database import write_database
from tests.support.random_models import random_model
from tests.support.waiting import is_running, wait_until

METHOD = """
from dataclasses import dataclass
from typing import ClassVar
from baselines.registry import register
from fedrule.methods.graphrule import GraphRule

@register("THIS")
@dataclass(frozen=True)
class Travelled(GraphRule):
    NAME: ClassVar[str] = "THIS"
    EDITED: ClassVar[int] = WHERE
"""


DEADLY = """
# Where a file says so, processes of lists print a warning and are killed.
import os, pathlib, signal, sys
if "fedrule.commands.list_handler" in sys.orig_argv and pathlib.Path(__file__).with_name("deadly").exists():
    print("UserWarning: little memory is left", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


CONTENT = {"method": "graphrule", "modules": [], "code": "", "k": 1, "unknown": "ignore", "max_similar": 0}


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """A cluster with two workers, which have a method with other code than here."""
    modules = tmp_path_factory.mktemp("modules")
    (modules / "travelled_graph.py").write_text(METHOD.replace("THIS", "travelled-graph").replace("WHERE", "1"))
    (modules / "sitecustomize.py").write_text(DEADLY)
    processes = DaskProcesses(tmp_path_factory.mktemp("dask"), modules)
    try:
        for _ in range(2):
            processes.add_worker()
        yield processes
    finally:
        processes.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and homes of 80 devices on average in a file: four batches of them."""
    folder = tmp_path_factory.mktemp("homes")
    some = datasets.load("wyze-synthetic", homes=120)
    homes = crowded(some, np.full(some.n_devices, 19), seed=0)
    homes.save(folder / "homes.parquet")
    random_model(homes.types[:-1], homes.relations, valid=0.1, hidden=8).save(folder / "model.safetensors")
    return folder


def arguments(folder, out, *options, data="homes.parquet"):
    given = ["recommend", str(folder / "model.safetensors"), "--all", str(folder / data), "--out", str(out)]
    return [*given, "--ignore-unknown", "--quiet", *options]


@contextmanager
def started(given):
    """A running command, which a test that fails does not leave behind."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-m", "fedrule", *given], cwd=ROOT, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def stopped_at_a_batch(workers):
    """A worker, and its process that makes a batch and never will: it is stopped while it starts."""
    found = []

    def look():
        for worker in workers:
            for child in psutil.Process(worker.pid).children():
                if "fedrule.commands.list_handler" in child.cmdline() and child.status() != psutil.STATUS_STOPPED:
                    child.suspend()
                    found.append((worker, child))
                    return True
        return False

    wait_until(look, interval=0.005)
    return found[0]


def homes_of_workers(dask):
    """The files of homes that workers have on their disks."""
    return list(dask.folder.rglob(HOMES))


def workers_of(dask, least):
    """The workers that are alive, at least so many."""
    while len(alive := [worker for worker in dask.workers if worker.poll() is None]) < least:
        dask.add_worker()
    return alive


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_the_file_of_a_dask_cluster_is_that_of_this_machine_byte_for_byte(folder, dask, ending, tmp_path, capsys):
    here, there = tmp_path / f"here{ending}", tmp_path / f"there{ending}"
    options = ["-k", "5", "--max-similar", "2"] if ending == ".csv" else []
    assert main(arguments(folder, here, *options)) == 0
    said = capsys.readouterr().out
    assert main(arguments(folder, there, *options, "--cluster", dask.address)) == 0
    assert capsys.readouterr().out == said.replace("here", "there")
    assert "ignored, unknown to the model: " in said
    assert there.read_bytes() == here.read_bytes()


def test_a_database_is_read_here_and_its_homes_travel(folder, dask, tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
    write_database(datasets.load("saved", path=folder / "homes.parquet"), tmp_path)
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    monkeypatch.setattr("fedrule.commands.recommend.USERS_AT_ONCE", 50)  # three parts
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    assert main(arguments(tmp_path, here, data="homes.toml")) == 0
    assert main(arguments(tmp_path, there, "--cluster", dask.address, data="homes.toml")) == 0
    assert there.read_bytes() == here.read_bytes()


def test_a_worker_that_is_killed_in_the_middle_of_a_batch_costs_nothing_but_time(folder, dask, tmp_path):
    with started(arguments(folder, tmp_path / "there.csv", "--cluster", dask.address)) as command:
        worker, process = stopped_at_a_batch(workers_of(dask, 2))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert homes_of_workers(dask)
        process.resume()
        output, errors = command.communicate(timeout=600)
    assert command.returncode == 0, errors
    assert "recommendations for 120 homes" in output
    wait_until(lambda: not is_running(process.pid))  # nobody waits for it any more
    assert main(arguments(folder, tmp_path / "here.csv")) == 0
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert homes_of_workers(dask)  # of the killed worker
    assert main(arguments(folder, tmp_path / "again.csv", "--cluster", dask.address)) == 0
    wait_until(lambda: not homes_of_workers(dask))


@pytest.mark.slow
def test_a_batch_that_takes_worker_after_worker_with_it_ends_the_command(folder, dask, tmp_path):
    workers_of(dask, ATTEMPTS + 1)
    with started(arguments(folder, tmp_path / "lists.csv", "--cluster", dask.address, "--jobs", "1")) as command:
        for _ in range(ATTEMPTS):
            worker, process = stopped_at_a_batch(workers_of(dask, 1))
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            process.kill()
        _, errors = command.communicate(timeout=600)
    assert command.returncode == 1
    assert re.fullmatch(
        rf"batch \d \(homes \d+ to \d+\): {ATTEMPTS} workers died while running it, the last one was tcp://\S+",
        errors.splitlines()[-1],
    )
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_while_its_worker_lives_ends_the_command_and_says_so(folder, dask, tmp_path, capsys):
    deadly = dask.path / "deadly"
    deadly.touch()
    try:
        assert main(arguments(folder, tmp_path / "lists.csv", "--cluster", dask.address)) == 1
    finally:
        deadly.unlink()
    assert re.fullmatch(
        rf"batch \d \(homes \d+ to \d+\): its process was killed by SIGKILL, perhaps out of memory "
        rf"\(on {socket.gethostname()}\)",
        capsys.readouterr().err.splitlines()[-1],
    )
    assert main(arguments(folder, tmp_path / "lists.csv", "--cluster", dask.address)) == 0


def test_ctrl_c_cancels_what_is_queued_and_ends_what_is_running(folder, dask, tmp_path):
    with started(arguments(folder, tmp_path / "lists.csv", "--cluster", dask.address)) as command:
        _, process = stopped_at_a_batch(workers_of(dask, 1))
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=600)
    assert command.returncode == 130
    assert errors.splitlines()[-1] == "Stopped. No output was written."
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
    wait_until(lambda: not is_running(process.pid))
    wait_until(lambda: not any(psutil.Process(worker.pid).children() for worker in workers_of(dask, 1)))


def test_other_code_at_a_worker_is_refused_in_words(folder, dask, tmp_path, monkeypatch, capsys):
    code = "0" * 12
    monkeypatch.setattr(cluster_lists, "code_of", lambda _: code)
    assert main(arguments(folder, tmp_path / "lists.csv", "--cluster", dask.address)) == 1
    assert re.fullmatch(
        rf"the worker tcp://127\.0\.0\.1:\d+ has other code of graphrule \({code_of([])}, .*; it is "
        rf"{code} here\): install the same version there .*, start its workers again, and repeat the command",
        capsys.readouterr().err.splitlines()[-1],
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "complaint"),
    [
        ("travelled-graph", "has other code of travelled-graph ("),
        ("stayed-graph", "has no stayed-graph as it is here (No module named 'stayed_graph'; "),
    ],
)
@pytest.mark.usefixtures("own_registry")
def test_a_method_that_a_worker_lacks_or_has_otherwise_is_refused_in_words(
    method, complaint, dask, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("torch", reason="needs the extra graph")
    module = method.replace("-", "_")
    (tmp_path / f"{module}.py").write_text(METHOD.replace("THIS", method).replace("WHERE", "2"))
    monkeypatch.syspath_prepend(tmp_path)
    try:
        homes = datasets.load("wyze-synthetic", homes=40)
        homes.save(tmp_path / "homes.parquet")
        given = ["--data", str(tmp_path / "homes.parquet"), "--out", str(tmp_path / "model.safetensors"), "--quiet"]
        context = ["--set", "rounds=1", "--set", "context=2", "--import", module]  # more than the plain network
        assert main(["train", *given, "--method", method, *context]) == 0
        capsys.readouterr()
        lists = arguments(tmp_path, tmp_path / "lists.csv", "--cluster", dask.address, "--import", module)
        assert main(lists) == 1
        assert complaint in capsys.readouterr().err.splitlines()[-1]
    finally:
        sys.modules.pop(module, None)


def test_a_machine_that_lacks_a_package_refuses_in_words(folder, tmp_path, monkeypatch):
    block = "import sys\nclass Absent:\n    def find_spec(self, name, path=None, target=None):\n"
    block += "        if name == 'safetensors':\n            raise ModuleNotFoundError('No module named safetensors')\n"
    (tmp_path / "sitecustomize.py").write_text(block + "sys.meta_path.insert(0, Absent())\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    with closing(ListHandler()) as handler:
        reply = handler.run(
            "batch", CONTENT, tmp_path / "model.safetensors", (folder / HOMES).read_bytes(), ignore_progress
        )
    assert reply["refusal"].startswith("cannot use the model of graphrule (a model file needs the extra infer: pip ")
    assert "files" not in reply


def test_a_model_that_was_damaged_on_its_way_is_an_error_and_no_refusal(folder, tmp_path):
    model = tmp_path / "model.safetensors"
    model.write_bytes((folder / "model.safetensors").read_bytes()[:-1])
    with closing(ListHandler()) as handler:
        reply = handler.run("batch", CONTENT, model, (folder / HOMES).read_bytes(), ignore_progress)
    assert reply["error"].startswith("its arrays cannot be read, it may be truncated (")
    assert not {"refusal", "files"} & reply.keys()


def test_the_file_of_jobs_is_that_of_this_machine_byte_for_byte(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_lists, "SEARCHES_OF_JOB", 16)  # two jobs
    asked, left, ask = [], [], BatchSystem._ask

    def ask_and_look(*given):
        asked.append(ask(*given))
        left.extend(tmp_path.glob(".cluster-*/*.pkl"))
        return asked[-1]

    monkeypatch.setattr(BatchSystem, "_ask", ask_and_look)
    assert main(arguments(folder, tmp_path / "here.parquet")) == 0
    options = ["--cluster", "local", "--cluster-option", "timeout_min=10", "--jobs", "1"]
    assert main(arguments(folder, tmp_path / "there.parquet", *options)) == 0
    assert (len(asked), left) == (2, [])  # no file of a job stays until the command ends
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ["--cluster", "tcp://127.0.0.1:1"],
            "--cluster tcp://127.0.0.1:1: no Dask scheduler answers there (.*); start",
        ),
        (["--cluster", "dask"], "--cluster dask: write tcp://HOST:PORT of a Dask scheduler, or slurm or local"),
        (["--cluster", "local", "--cluster-option", "mem_gb"], "--cluster-option mem_gb: write KEY=VALUE, e.g. "),
        (["--cluster", "local", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["--cluster", "local", "-k", "0"], "k must be an integer of at least 1, got 0"),
    ],
)
def test_what_cannot_work_is_one_line(folder, tmp_path, monkeypatch, capsys, options, complaint):
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT", 1.0)
    assert main(arguments(folder, tmp_path / "lists.csv", *options)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(re.escape(complaint).replace(r"\.\*", ".*"), line), line
    assert list(tmp_path.iterdir()) == []


def test_a_type_that_the_model_does_not_know_is_the_same_line_as_without_a_cluster(folder, dask, tmp_path, capsys):
    given = [each for each in arguments(folder, tmp_path / "lists.csv") if each != "--ignore-unknown"]
    assert main(given) == 1
    expected = capsys.readouterr().err
    assert main([*given, "--cluster", dask.address]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == expected.strip()


class Here(Cluster):
    """A cluster of threads of this process; the first batch waits for `go_on`."""

    def __init__(self, recommender, error=""):
        super().__init__(repeat="")
        self.recommender, self.error = recommender, error
        self.go_on, self.asked = threading.Event(), 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def capacity(self):
        return 2

    def stop(self):
        self.stopped = True
        self.go_on.set()

    def _ask(self, job, on_progress):
        self.asked += 1
        if job.name.startswith("batch 1 "):
            assert self.go_on.wait(60)
        elif self.error:
            return {"error": self.error, "final": True}
        with self.sent_homes(job.data) as homes:
            lists = self.recommender.recommend_many(homes, 3)
        on_progress(homes.n_homes, homes.n_homes)
        stream = ArrowLists.of(lists).streams[0]
        return {"files": {"lists.arrow": stream}, "versions": {}, "machine": "here"}

    @contextmanager
    def sent_homes(self, data):
        path = self.folder / f"{threading.get_ident()}.parquet"
        path.write_bytes(data)
        yield datasets.load("saved", path=path)


class Steps(Progress):
    def __init__(self):
        super().__init__()
        self.done = 0

    def step(self, many=1):
        self.done += many


@pytest.fixture
def here(tmp_path):
    homes = datasets.load("wyze-synthetic", homes=12)
    recommender = Recommender(random_model(homes.types, homes.relations))
    cluster, bar = Here(recommender), Steps()
    cluster.folder = tmp_path
    chosen = Namespace(k=3, unknown="refuse", max_similar=0, cluster="tcp://here:1")
    return homes, recommender, cluster, ClusterLists(recommender, tmp_path / "model", [], chosen, cluster, bar), bar


def test_a_few_batches_are_read_ahead_of_the_slowest_and_lists_come_in_order(here):
    homes, recommender, cluster, lists, bar = here
    read = []

    def parts():
        for home in range(homes.n_homes):
            read.append(home)
            yield homes.subset(np.array([home]))

    found = lists.of(parts())
    results = []
    thread = threading.Thread(target=lambda: results.extend(found))
    thread.start()
    wait_until(lambda: cluster.asked >= 2)
    threading.Event().wait(0.2)
    assert len(read) <= 5  # 2 at a time, twice as many wait or are done, and the next one is read
    assert not results
    cluster.go_on.set()
    thread.join()
    assert [part.frame()["user"].unique().tolist() for part in results if len(part)] == [
        [user] for user in homes.users.tolist() if user in set(recommender.recommend_many(homes, 3).frame()["user"])
    ]
    assert bar.done == homes.n_homes == sum(part.n_homes for part in results)


def test_an_error_of_one_batch_ends_the_others_and_names_its_homes(here):
    homes, _, cluster, lists, _ = here
    cluster.error = "datasets.common.errors.DataError: too many rules"
    with pytest.raises(DataError, match=r"^batch 2 \(homes 2 to 2\): too many rules$"):
        list(lists.of(homes.subset(np.array([home])) for home in range(homes.n_homes)))
    assert cluster.stopped
    assert cluster.asked < homes.n_homes


@pytest.mark.parametrize("n_homes", [0, 3])
def test_homes_are_none_or_have_no_devices(here, n_homes):
    homes, recommender, cluster, lists, _ = here
    cluster.go_on.set()
    none = np.zeros(0, dtype=np.int64)
    some = homes.subset(np.arange(n_homes)).with_rules(none)
    bare = replace(some, device_home=none, device_type=none, device_ids=none, words=None)
    (found,) = lists.of([bare])
    assert found.frame().equals(recommender.recommend_many(bare, 3).frame())
    assert (found.n_homes, found.n_lists, len(found), cluster.asked) == (n_homes, 0, 0, 1)
