"""What breaks while a suite runs: the scheduler is killed, the disk is full, the clock is set back, old results remain.

A killed run, two processes on one folder and damaged files are tested beside the scheduler and the store.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import benchmarks.results.store
import benchmarks.runs.run
from benchmarks.results.store import Store, load_failures, load_results
from benchmarks.runs.experiment import make_experiment, make_source
from benchmarks.runs.scheduler import run_all
from datasets.common.errors import DataError
from tests.benchmarks.results.test_store import HOMES, KEY, RESULT, RULES
from tests.support.single_run import run
from tests.support.toy_methods import write_to_full_disk
from tests.support.toys import toys
from tests.support.waiting import is_running, lines, wait_until

assert toys  # a fixture

ROOT = Path(__file__).parents[3]
DATA = {"data": "wyze-synthetic", "data_options": {"homes": 80}}


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a run goes on until it reports a round")
def test_a_killed_scheduler_takes_its_run_with_it_and_the_command_makes_the_missing_ones(tmp_path):
    fits, kept, suite = tmp_path / "fits", tmp_path / "kept", tmp_path / "mine.toml"
    suite.write_text(
        f'methods = ["toy-count", {{ name = "toy-waiting", fits = "{fits}" }}]\nseeds = 1\nprotocols = ["ranking"]\n'
        '[[data]]\nname = "wyze-synthetic"\noptions = { homes = 80 }\n'
    )
    command = [sys.executable, "-m", "benchmarks", "run", str(suite), "--quiet", "--results", str(kept)]
    command += ["--import", "tests.support.toy_methods"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
        wait_until(lambda: lines(fits))
        killed.send_signal(signal.SIGKILL)
    (process,) = lines(fits)
    wait_until(lambda: not is_running(process))
    assert [result.key.method for result in load_results(kept)] == ["toy-count"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"1 results made, 1 were there, in {kept}" in done.stdout
    assert len(lines(fits)) == 2
    assert sorted(path.suffixes[-1] for path in kept.iterdir()) == [".json"] * 2 + [".parquet"] * 4


@pytest.mark.parametrize("full", ["homes", "rules", "json"])
def test_a_disk_that_is_full_leaves_the_old_result_whole_and_no_half_file(tmp_path, monkeypatch, full):
    store = Store(tmp_path)
    store.save(replace(RESULT, code="old"), HOMES, RULES)
    before = content(tmp_path)
    written = iter(["homes", "rules"])
    original = pd.DataFrame.to_parquet

    def write(table, path):
        return write_to_full_disk() if next(written) == full else original(table, path)

    with monkeypatch.context() as patch:
        patch.setattr(pd.DataFrame, "to_parquet", write)
        if full == "json":
            patch.setattr(benchmarks.results.store, "write_record", write_to_full_disk)
        with pytest.raises(DataError, match=rf"^{tmp_path}: No space left on device, so the result of mf .* Make room"):
            store.save(RESULT, HOMES.assign(mrr=1.0), RULES)
    assert content(tmp_path) == before
    assert store.find(KEY, "old") is not None
    store.save(RESULT, HOMES, RULES)
    assert store.find(KEY, "") is not None


@pytest.mark.usefixtures("toys")
def test_a_run_that_finds_the_disk_full_has_failed_with_a_sentence_and_works_later(tmp_path):
    kept, room = tmp_path / "kept", tmp_path / "room"
    asked = {**DATA, "parameters": {"needs": str(room)}, "protocols": ["ranking"], "store": kept}
    (failed,) = run("toy-full-disk", **asked)
    assert failed.failure.startswith(f"{kept}: No space left on device, so the result of toy-full-disk on ")
    assert [path.suffixes for path in kept.iterdir()] == [[".failed", ".json"]]
    room.touch()
    (result,) = run("toy-full-disk", **asked)
    assert result.status == "done"
    assert load_failures(kept) == []


@pytest.mark.usefixtures("toys")
def test_a_disk_without_room_for_the_error_itself_ends_the_command_with_a_sentence(tmp_path, monkeypatch):
    source = make_source("wyze-synthetic", options={"homes": 80})
    asked = [make_experiment("toy-killed", source, parameters={}, options={}, seed=seed) for seed in (0, 1)]
    monkeypatch.setattr(benchmarks.results.store, "write_record", write_to_full_disk)
    with pytest.raises(DataError, match="No space left on device, so the result of toy-killed on wyze-synthetic"):
        run_all(asked, store=Store(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_claim_is_of_the_file_in_its_place_and_not_of_one_that_was_deleted_meanwhile(tmp_path, monkeypatch):
    # The process before us ends its run, and deletes its lock file, after we have opened it and before we lock it.
    fcntl = pytest.importorskip("fcntl", reason="not on Windows")
    store, original, deleted = Store(tmp_path), fcntl.flock, []

    def lock(file, how):
        if not deleted:
            deleted.append(Path(file.name))
            deleted[0].unlink()
        original(file, how)

    monkeypatch.setattr(fcntl, "flock", lock)
    with store.claim(KEY) as ours, store.claim(KEY) as again:
        assert (ours, again) == (True, False)
    assert len(deleted) == 1


@pytest.mark.usefixtures("toys")
def test_a_clock_that_is_set_back_neither_repeats_runs_nor_brings_errors_back(tmp_path, monkeypatch):
    class Clock(datetime):
        days = 1

        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=cls.days)

    monkeypatch.setattr(benchmarks.runs.run, "datetime", Clock)
    mended = tmp_path / "mended"
    asked = {**DATA, "parameters": {"needs": str(mended)}, "protocols": ["ranking"], "store": tmp_path / "kept"}
    (failed,) = run("toy-broken", **asked, isolate=False)
    Clock.days = -1
    mended.touch()
    (result,) = run("toy-broken", **asked, isolate=False)
    assert (failed.status, result.status) == ("failed", "done")
    assert result.written < datetime.now(UTC).isoformat() < failed.written
    (again,) = run("toy-broken", **asked)
    assert again.written == result.written
    assert load_failures(tmp_path / "kept") == []
    assert all(seconds >= 0 for seconds in result.seconds.values())


@pytest.mark.usefixtures("toys")
def test_results_of_another_version_are_made_again_and_set_aside_and_others_stay_as_they_are(tmp_path, caplog):
    source = make_source("wyze-synthetic", options={"homes": 80})
    asked = [
        make_experiment("toy-count", source, parameters={}, options={}, protocols=["ranking"], seed=seed)
        for seed in (0, 1)
    ]
    run_all(asked, store=Store(tmp_path))
    old = tmp_path / f"{asked[0].keys(source.fingerprint())['ranking'].hash}.json"
    stored = json.loads(old.read_text())
    old.write_text(json.dumps(stored | {"format": 3}))
    foreign = tmp_path / "0123456789abcdef.json"  # of a method that only the newer version has
    foreign.write_text(json.dumps({"format": 99}))
    before = content(tmp_path)
    outcome = run_all(asked, store=Store(tmp_path))
    assert (outcome.made, len(outcome.finished)) == (1, 2)
    assert f"{old} is not used: made by an older version (format 3" in caplog.text
    after = content(tmp_path)
    assert after.pop(f"{old.name}.unreadable-1") == before[old.name]
    assert json.loads(after[old.name])["summary"] == stored["summary"]
    assert {name for name in before if before[name] != after[name]} == {old.name}
