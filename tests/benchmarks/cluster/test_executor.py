"""Runs on a real Dask cluster and as jobs of submitit: the same results as on this machine, whatever dies."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

pytest.importorskip("distributed", reason="needs the extra cluster")
pytest.importorskip("submitit", reason="needs the extra cluster")

import psutil

from benchmarks.__main__ import main
from benchmarks.cluster import dask_cluster, remote
from benchmarks.cluster.cluster import ATTEMPTS, open_cluster, other_versions
from benchmarks.cluster.dask_cluster import Call, DaskCluster, _remote
from benchmarks.cluster.executor import ClusterExecutor
from benchmarks.results.store import Store, load_failures, load_results
from benchmarks.runs.experiment import make_experiment, make_source
from benchmarks.runs.history import ignore_progress
from benchmarks.runs.scheduler import run_all, write_homes
from datasets.common.environment import versions
from datasets.common.errors import DataError
from tests.support.dask_cluster import ROOT, DaskProcesses
from tests.support.fake_slurm import write_commands
from tests.support.single_run import comparable
from tests.support.toys import toys
from tests.support.waiting import is_running, lines, wait_until

assert toys  # a fixture

METHOD = """
from dataclasses import dataclass
from baselines.registry import register
from tests.support.toy_methods import Count

@register("travelled")
@dataclass(frozen=True)
class Travelled(Count):
    rounds: int = ROUNDS
"""


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """A cluster with two workers, which have a method with other code than here."""
    modules = tmp_path_factory.mktemp("modules")
    (modules / "travelled_method.py").write_text(METHOD.replace("ROUNDS", "2"))
    processes = DaskProcesses(tmp_path_factory.mktemp("dask"), modules)
    try:
        for _ in range(2):
            processes.add_worker()
        yield processes
    finally:
        processes.close()


def experiments(*methods, seeds=(0,), **parameters):
    source = make_source("wyze-synthetic", options={"homes": 80})
    return [
        make_experiment(method, source, parameters=parameters, options={}, seed=seed, suite="mine")
        for method in methods
        for seed in seeds
    ]


def tables(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def assert_equal(one, other):
    """The same results in two folders, but for seconds, memory and dates."""
    found, expected = load_results(one), load_results(other)
    assert comparable(found) == comparable(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.code, a.versions, a.commit, a.threads) == (b.code, b.versions, b.commit, b.threads)
        assert (a.overrides, a.suite, a.warnings, a.calibrated) == (b.overrides, b.suite, b.warnings, b.calibrated)
    assert tables(one) == tables(other) != {}
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())


def executor_of(*given, **options):
    return ClusterExecutor(open_cluster(*given, **options))


def worker_of(process):
    """The worker of Dask that a run is a descendant of."""
    (worker,) = (each for each in psutil.Process(int(process)).parents() if "dask_worker" in " ".join(each.cmdline()))
    return worker


def listening(process):
    """The addresses on which a process waits for connections."""
    return {each.laddr.ip for each in psutil.Process(process).net_connections("inet") if each.status == "LISTEN"}


def command(suite, folder, address):
    options = ["--import", "tests.support.toy_methods", "--quiet", "--results", str(folder), "--cluster", address]
    return [sys.executable, "-m", "benchmarks", "run", str(suite), *options]


@contextmanager
def started(arguments):
    """A running command, which a test that fails does not leave behind."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(arguments, cwd=ROOT, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def write_suite(path, fits, methods="", seeds=1):
    path.write_text(
        f'methods = [{methods}{{ name = "toy-waiting", fits = "{fits}" }}]\nseeds = {seeds}\nprotocols = ["ranking"]\n'
        '[[data]]\nname = "wyze-synthetic"\noptions = { homes = 80 }\n'
    )
    return path


@pytest.mark.usefixtures("toys")
def test_results_of_a_dask_cluster_are_those_of_one_process_bit_for_bit(tmp_path, dask, monkeypatch):
    asked = experiments("popularity", "ease", "toy-log-odds", "toy-threads", seeds=(0, 1))
    asked += experiments("toy-broken")
    run_all(asked, store=Store(tmp_path / "here"))
    sent, send = [], DaskCluster._send
    monkeypatch.setattr(DaskCluster, "_send", lambda *given: sent.append(given[2]["process"]) or send(*given))
    with open_cluster(dask.address, folder=tmp_path / "there") as executor:
        assert executor.capacity() == 2
        for process in (dask.scheduler, *dask.workers):
            assert listening(process.pid) == {"127.0.0.1"}
        assert listening(os.getpid()) <= {"127.0.0.1"}
    outcome = run_all(asked, store=Store(tmp_path / "there"), executor=executor_of(dask.address, folder=tmp_path))
    assert (outcome.made, len(outcome.failed)) == (16, 2)
    assert_equal(tmp_path / "there", tmp_path / "here")
    assert len(sent) == len(set(sent)) == 2  # homes travel once to each worker
    for folder in ("here", "there"):
        failures = load_failures(tmp_path / folder)
        assert [each.failure for each in failures] == ["RuntimeError: the weather is bad"] * 2
    assert {r.history[0]["OMP_NUM_THREADS"] for r in outcome.finished if r.key.method == "toy-threads"} == {1.0}
    nobody = executor_of("tcp://nobody:1", folder=tmp_path)
    again = run_all(asked[:8], store=Store(tmp_path / "there"), executor=nobody)
    assert (again.made, len(again.finished)) == (0, 16)  # nothing is missing, so nobody is asked


@pytest.mark.usefixtures("toys")
def test_a_worker_that_is_killed_in_the_middle_of_a_run_costs_nothing_but_time(tmp_path, dask):
    fits = tmp_path / "fits"
    suite = write_suite(tmp_path / "mine.toml", fits, '"toy-count", ')
    with started(command(suite, tmp_path / "there", dask.address)) as client:
        wait_until(lambda: lines(fits))
        (run,) = lines(fits)
        worker = worker_of(run)
        worker.send_signal(signal.SIGKILL)
        assert "2 results made" in client.communicate(timeout=600)[0]
    assert client.returncode == 0
    wait_until(lambda: not is_running(run))
    dask.add_worker()
    assert len(lines(fits)) == 2
    assert main(["run", str(suite), "--results", str(tmp_path / "here"), "--quiet"]) == 0
    assert_equal(tmp_path / "there", tmp_path / "here")


@pytest.mark.slow
def test_a_run_that_takes_worker_after_worker_with_it_is_a_failed_run(tmp_path, dask):
    fits, killed = tmp_path / "fits", 0
    suite = write_suite(tmp_path / "mine.toml", fits)
    with started(command(suite, tmp_path / "kept", dask.address)) as client:
        while True:
            wait_until(lambda: lines(fits) or client.poll() is not None)
            if client.poll() is not None:
                break
            (run,) = lines(fits)
            fits.unlink()  # so the next one waits as well
            worker_of(run).send_signal(signal.SIGKILL)
            killed += 1
            dask.add_worker()
        output, _ = client.communicate()
    assert killed == ATTEMPTS
    assert client.returncode == 1
    assert f"{ATTEMPTS} workers died while running it, the last one was tcp://127.0.0.1:" in output
    assert len(load_failures(tmp_path / "kept")) == 1


@pytest.mark.slow
def test_a_run_whose_workers_are_retired_again_and_again_is_no_failed_run(tmp_path, dask):
    from distributed import Client

    fits = tmp_path / "fits"
    suite = write_suite(tmp_path / "mine.toml", fits)
    with started(command(suite, tmp_path / "kept", dask.address)) as client:
        for retired in range(ATTEMPTS + 1):
            wait_until(lambda: lines(fits))
            (run,) = lines(fits)
            if retired < ATTEMPTS:
                fits.unlink()  # so the next one waits as well
            dask.add_worker()
            with Client(dask.address, set_as_default=False) as other:
                processes = {pid: address for address, pid in other.run(os.getpid).items()}
                other.retire_workers([processes[worker_of(run).pid]], close_workers=True)
        output, errors = client.communicate(timeout=600)
    assert client.returncode == 0, errors
    assert "1 results made" in output


@pytest.mark.usefixtures("toys")
def test_a_run_that_counts_as_failed_has_no_process_on_its_worker_any_more(tmp_path, dask):
    fits, store = tmp_path / "fits", Store(tmp_path / "kept")
    (asked,) = experiments("toy-waiting", fits=str(fits))
    homes = write_homes(asked.source, tmp_path)
    how = {"store": store, "threads": 1, "on_progress": ignore_progress, "checkpoints": 0}
    with executor_of(dask.address, folder=tmp_path) as executor, ThreadPoolExecutor() as pool:
        running = pool.submit(executor.run, asked, homes, **how)
        wait_until(lambda: lines(fits))
        (run,) = lines(fits)
        worker = worker_of(run)
        (call,) = executor.cluster._calls.values()
        call.died += ["tcp://127.0.0.1:1"] * ATTEMPTS
        running.result(timeout=600)
        assert "3 workers died while running it, the last one was tcp" in load_failures(store.folder)[0].error
        wait_until(lambda: not is_running(run))
        assert worker.is_running()
        assert [result.status for result in executor.run(asked, homes, **how)] == ["done", "done"]


def test_other_code_at_a_worker_is_refused_in_words(tmp_path, dask, monkeypatch, own_registry):  # noqa: ARG001
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "travelled_method.py").write_text(METHOD.replace("ROUNDS", "3"))
    importlib.import_module("travelled_method")
    (asked,) = experiments("travelled")
    kept, code = Store(tmp_path / "kept"), asked.code
    try:
        with pytest.raises(DataError) as error:
            run_all([asked], store=kept, executor=executor_of(dask.address, folder=tmp_path))
    finally:
        del sys.modules["travelled_method"]
    assert re.fullmatch(
        r"the worker tcp://127\.0\.0\.1:\d+ has other code of travelled \([0-9a-f]{12}, .*; it is "
        rf"{code} here\): install the same version there .*, start its workers again, and repeat the command.*",
        str(error.value),
    )
    assert load_results(kept.folder) == load_failures(kept.folder) == []


def test_a_method_that_a_worker_does_not_have_is_refused_in_words(tmp_path, dask, monkeypatch, own_registry):  # noqa: ARG001
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "stayed_here.py").write_text(METHOD.replace("ROUNDS", "3").replace('"travelled"', '"stayed-here"'))
    importlib.import_module("stayed_here")
    try:
        with pytest.raises(
            DataError, match=r"has no stayed-here as it is here .*No module named 'stayed_here'.*--import"
        ):
            run_all(
                experiments("stayed-here"), store=Store(tmp_path), executor=executor_of(dask.address, folder=tmp_path)
            )
    finally:
        del sys.modules["stayed_here"]


@pytest.mark.slow
def test_ctrl_c_cancels_what_is_queued_and_ends_what_is_running(tmp_path, dask):
    fits = tmp_path / "fits"
    suite = write_suite(tmp_path / "mine.toml", fits, seeds=4)
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started([*command(suite, tmp_path / "kept", dask.address), "--jobs", "1"]) as client:
        wait_until(lambda: lines(fits))
        (run,) = lines(fits)
        client.send_signal(signal.SIGINT)
        _, errors = client.communicate(timeout=600)
    assert client.returncode == 130
    assert errors.splitlines()[-1].startswith("Stopped. Finished runs are stored, a running one is lost")
    assert "Traceback" not in errors
    wait_until(lambda: not is_running(run))
    assert len(lines(fits)) == 1
    done = subprocess.run(command(suite, tmp_path / "kept", dask.address), **options, check=True)
    assert "4 results made, 0 were there" in done.stdout


@pytest.mark.slow
def test_a_killed_client_leaves_its_results_and_the_next_one_ends_what_it_left_running(tmp_path, dask):
    fits = tmp_path / "fits"
    suite = write_suite(tmp_path / "mine.toml", fits, '"toy-count", ')
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "text": True}
    with started([*command(suite, tmp_path / "kept", dask.address), "--jobs", "1"]) as client:
        wait_until(lambda: lines(fits))
        client.kill()
    (run,) = lines(fits)
    assert [result.key.method for result in load_results(tmp_path / "kept")] == ["toy-count"]
    wait_until(lambda: json.loads(clients_of(dask.address)) == 1)  # this one; the scheduler has noticed
    done = subprocess.run(command(suite, tmp_path / "kept", dask.address), **options, check=True)
    assert "1 results made, 1 were there" in done.stdout
    wait_until(lambda: not is_running(run))
    assert len(lines(fits)) == 2


def clients_of(address):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        count = "Client-"  # those of people; workers may be clients as well
        return client.run_on_scheduler(
            lambda dask_scheduler: str(sum(name.startswith(count) for name in dask_scheduler.clients))
        )


@pytest.mark.slow
def test_two_commands_on_one_folder_and_one_cluster_make_every_run_once_and_lose_none(tmp_path, dask):
    fits = tmp_path / "fits"
    fits.write_text("nobody waits\n")
    suite = write_suite(tmp_path / "mine.toml", fits, seeds=6)
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command(suite, tmp_path / "kept", dask.address), **options) for _ in range(2)]
    made = [int(re.search(r"(\d+) results made", each.communicate(timeout=600)[0])[1]) for each in both]
    assert sum(made) == 6
    assert len(lines(fits)) == 7
    assert len(load_results(tmp_path / "kept")) == 6


def refused(tmp_path, *options):
    """The exit code of a command with these options."""
    return main(["run", "smoke", "--methods", "popularity", "--quiet", "--results", str(tmp_path), *options])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ["--cluster", "tcp://127.0.0.1:1"],
            "--cluster tcp://127.0.0.1:1: no Dask scheduler answers there (.*); start",
        ),
        (["--cluster", "dask"], "--cluster dask: write tcp://HOST:PORT of a Dask scheduler, or slurm or local"),
        (
            ["--cluster", "tcp://a:1", "--cluster-option", "mem_gb=4"],
            "--cluster-option mem_gb: it is for slurm and local",
        ),
        (["--cluster", "local", "--cluster-option", "mem_gb"], "--cluster-option mem_gb: write KEY=VALUE, e.g. "),
        (
            ["--cluster", "local", "--cluster-option", "local_disk=4"],
            "--cluster local: Unknown argument 'disk' for exec",
        ),
        (
            ["--cluster", "local", "--cluster-option", "mem_gb=much"],
            '--cluster local: Parameter "mem_gb" expected type',
        ),
        (["--cluster-option", "mem_gb=4"], "--cluster-option is for --cluster slurm and --cluster local"),
        (["--cluster", "local", "--checkpoints", "5"], "--checkpoints does not go with --cluster: a checkpoint would "),
    ],
)
def test_what_cannot_work_is_one_line(tmp_path, monkeypatch, capsys, options, complaint):
    monkeypatch.setattr(dask_cluster, "CONNECT_TIMEOUT", 1.0)
    assert refused(tmp_path, *options) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(re.escape(complaint).replace(r"\.\*", ".*"), line), line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a Slurm here")
def test_slurm_where_there_is_none_is_one_line(tmp_path, capsys):
    assert refused(tmp_path, "--cluster", "slurm") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('--cluster slurm: Could not detect "srun"')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "package"), [("tcp://127.0.0.1:1", "distributed"), ("slurm", "submitit")])
def test_without_the_package_the_line_names_the_extra(tmp_path, monkeypatch, capsys, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert refused(tmp_path, "--cluster", name) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"--cluster {name} needs {package}; install the extra cluster: pip install -c constraints")


@pytest.mark.usefixtures("toys")
def test_results_of_jobs_are_those_of_one_process_bit_for_bit(tmp_path):
    asked = experiments("popularity", "toy-threads") + experiments("toy-broken")
    run_all(asked, store=Store(tmp_path / "here"))
    jobs = executor_of("local", folder=tmp_path / "there", jobs=2, options=["timeout_min=10"])
    outcome = run_all(asked, store=Store(tmp_path / "there"), executor=jobs)
    assert (outcome.made, len(outcome.failed)) == (4, 2)
    assert_equal(tmp_path / "there", tmp_path / "here")


@pytest.mark.slow
def test_a_job_that_is_killed_is_made_again_and_counts_as_failed_the_third_time(tmp_path):
    fits = tmp_path / "fits"
    suite = write_suite(tmp_path / "mine.toml", fits)
    for kills, (code, said) in {1: (0, "1 results made"), 3: (1, "failed: toy-waiting")}.items():
        kept = tmp_path / str(kills)
        fits.unlink(missing_ok=True)
        with started(command(suite, kept, "local")) as client:
            for killed in range(kills):
                wait_until(lambda: lines(fits))
                (run,) = lines(fits)
                if killed + 1 < kills or kills == 3:
                    fits.unlink()
                parents = psutil.Process(int(run)).parents()
                job = next(each for each in parents if "submitit.core._submit" in each.cmdline())
                job.send_signal(signal.SIGKILL)
            output = client.communicate(timeout=600)[0]
        assert client.returncode == code
        assert said in output
        assert not list(kept.glob(".cluster*"))


@pytest.mark.slow
@pytest.mark.usefixtures("toys")
def test_jobs_of_slurm_ask_for_what_the_options_say_and_make_the_same_results(tmp_path, monkeypatch):
    slurm = write_commands(tmp_path / "slurm")
    monkeypatch.setenv("PATH", os.pathsep.join([str(slurm), os.environ["PATH"]]))
    asked = experiments("popularity", seeds=(0, 1))
    run_all(asked, store=Store(tmp_path / "here"))
    options = ["slurm_partition=cpu", "timeout_min=60", "mem_gb=2"]
    jobs = executor_of("slurm", folder=tmp_path / "there", options=options, threads=1)
    assert run_all(asked, store=Store(tmp_path / "there"), executor=jobs).made == 4
    assert_equal(tmp_path / "there", tmp_path / "here")
    said = lines(slurm / "asked.101")
    wanted = ["--partition=cpu", "--time=60", "--mem=2GB", "--cpus-per-task=1", "--job-name=fedrule"]
    assert {f"#SBATCH {option}" for option in wanted} <= set(said)


@pytest.mark.slow
def test_a_scheduler_of_dask_that_dies_ends_the_command_with_a_sentence(tmp_path):
    fits = tmp_path / "fits"
    suite = write_suite(tmp_path / "mine.toml", fits, '"toy-count", ')
    processes = DaskProcesses(tmp_path)
    try:
        processes.add_worker()
        with started([*command(suite, tmp_path / "kept", processes.address), "--jobs", "1"]) as client:
            wait_until(lambda: lines(fits))
            processes.scheduler.kill()
            _, errors = client.communicate(timeout=600)
    finally:
        processes.close()
    assert client.returncode == 1
    assert errors.splitlines()[-1].startswith(
        f"{processes.address}: the connection to the Dask scheduler is lost; repeat"
    )
    assert "Traceback" not in errors
    assert [result.key.method for result in load_results(tmp_path / "kept")] == ["toy-count"]


class Vanishing(dict):
    """Whose keys are gone after the first look, as those of a job that ends in another thread."""

    def get(self, key, default=None):
        return self.pop(key, default)

    def __contains__(self, key):
        return self.pop(key, None) is not None


def test_events_of_a_job_that_ends_at_the_same_time_are_no_error():
    done = []
    call, cluster = Call(lambda *rounds: done.append(rounds)), DaskCluster("tcp://127.0.0.1:1")
    for event in ({"done": 1, "of": 2}, {"started": "tcp://127.0.0.1:2"}):
        cluster._calls = Vanishing(job=call)
        for _ in range(2):  # the second time the job has ended
            cluster._on_event((0.0, {"job": "job"} | event))
    assert (done, call.worker) == ([(1, 2)], "tcp://127.0.0.1:2")


def test_only_the_worker_that_was_at_a_job_and_left_unexpectedly_counts_as_dead():
    cluster = DaskCluster("tcp://127.0.0.1:1")
    call = cluster._calls["job"] = Call(lambda *_: None)
    for worker, expected in (("tcp://a:1", False), ("tcp://b:1", True), ("tcp://c:1", False)):
        cluster._on_event((0.0, {"job": "job", "started": worker}))
        for gone in ("tcp://other:1", worker, worker):
            event = {"action": "remove-worker", "worker": gone, "expected": expected}
            cluster._on_cluster_event((0.0, event))
    cluster._on_cluster_event((0.0, {"action": "add-worker", "worker": "tcp://c:1"}))
    assert call.died == ["tcp://a:1", "tcp://c:1"]


def test_a_worker_without_a_function_or_with_another_one_refuses_and_a_bug_stays_an_error(monkeypatch):
    monkeypatch.setattr(remote, "cancel_job", lambda client: client + 1)
    assert _remote("unheard_of")()["refusal"].startswith("lacks this version of fedrule (module ")
    assert (
        _remote("cancel_job")("one", "two")["refusal"]
        == "lacks this version of fedrule (too many positional arguments)"
    )
    with pytest.raises(TypeError, match="can only concatenate"):
        _remote("cancel_job")("one")
    monkeypatch.setitem(sys.modules, "benchmarks.cluster.remote", None)
    assert _remote("cancel_job")("one")["refusal"].startswith("lacks this version of fedrule (import of benchmarks")


def test_versions_of_packages_that_differ_are_named():
    assert other_versions(versions()) == []
    numpy, python = other_versions({"numpy": "1.0", "python": "3.0", "platform": "another", "unheard_of": "1"})
    assert re.fullmatch(r"numpy 1\.0 \(\d\S+ here\)", numpy)
    assert re.fullmatch(r"python 3\.0 \(3\.\S+ here\)", python)
