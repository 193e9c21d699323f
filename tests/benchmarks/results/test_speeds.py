"""Saved runs of pytest-benchmark: the newest of each measurement is read, what is no such run is named."""

from __future__ import annotations

import json

import pytest

from benchmarks.results.speeds import load_speeds


def measurement(name, least, **extra):
    """An entry of a saved run, as pytest-benchmark writes it."""
    stats = {"min": least, "max": 4 * least, "median": 2 * least, "mean": 2 * least, "rounds": 3, "iterations": 1}
    return {
        "group": None,
        "name": name,
        "fullname": f"benchmarks/test_x.py::{name}",
        "params": {"size": 100},
        "param": "100",
        "extra_info": extra,
        "options": {},
        "stats": stats,
    }


def save(folder, file, made, *entries, **more):
    path = folder / "speed" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine_info": {
            "node": "secret-name",
            "machine": "x86_64",
            "system": "Linux",
            "python_implementation": "CPython",
            "python_version": "3.11.9",
            "cpu": {"brand_raw": "Fast 9000", "count": 2},
        },
        "commit_info": {"id": "abc", "dirty": False},
        "benchmarks": list(entries),
        "datetime": made,
        "version": "5.3.1",
    }
    path.write_text(json.dumps(content | more))
    return path


def test_a_measurement_comes_with_its_environment(tmp_path):
    save(tmp_path, "m/0001_smoke.json", "2026-01-02T03:04:05.678+00:00", measurement("a", 0.5, scale="smoke", ratio=7))
    (speed,), unreadable = load_speeds(tmp_path)
    assert unreadable == []
    assert (speed.name, speed.fullname, speed.group) == ("a", "benchmarks/test_x.py::a", "")
    assert (speed.seconds_min, speed.seconds_median, speed.rounds) == (0.5, 1.0, 3)
    assert (speed.params, speed.extra_info) == ({"size": 100}, {"scale": "smoke", "ratio": 7})
    assert (speed.scale, speed.file, speed.made) == ("smoke", "m/0001_smoke.json", "2026-01-02T03:04:05+00:00")
    assert (speed.machine, speed.commit) == ("Fast 9000, 2 cores, Linux x86_64, CPython 3.11.9", "abc")


def test_the_newest_measurement_counts_whatever_the_file_is_called(tmp_path):
    # 03:30 in a zone two hours ahead is 01:30 UTC, before 02:00 UTC
    save(tmp_path, "m/0009_smoke.json", "2026-01-02T03:30:00+02:00", measurement("a", 9, scale="smoke"))
    save(tmp_path, "m/0001_smoke.json", "2026-01-02T02:00:00", measurement("a", 1, scale="smoke"))
    speeds, _ = load_speeds(tmp_path)
    assert [speed.seconds_min for speed in speeds] == [1]


def test_an_older_run_gives_what_the_newer_one_has_not_measured(tmp_path):
    save(tmp_path, "0001_x.json", "2026-01-01T00:00:00+00:00", measurement("a", 1), measurement("b", 2))
    save(tmp_path, "0002_x.json", "2026-01-02T00:00:00+00:00", measurement("a", 3))
    speeds, _ = load_speeds(tmp_path)
    assert [(speed.name, speed.seconds_min) for speed in speeds] == [("a", 3), ("b", 2)]


def test_each_scale_has_its_own_newest(tmp_path):
    save(tmp_path, "0001_x.json", "2026-01-01T00:00:00+00:00", measurement("a", 1, scale="paper"))
    save(tmp_path, "0002_x.json", "2026-01-02T00:00:00+00:00", measurement("a", 3, scale="smoke"))
    speeds, _ = load_speeds(tmp_path)
    assert {speed.scale: speed.seconds_min for speed in speeds} == {"paper": 1, "smoke": 3}


def test_each_machine_has_its_own_newest(tmp_path):
    """A quick look on another machine takes nothing away from the measurements that stand beside each other."""
    save(tmp_path, "a/1.json", "2026-01-01T00:00:00+00:00", measurement("a", 1), machine_info={"machine": "arm64"})
    save(tmp_path, "b/1.json", "2026-01-02T00:00:00+00:00", measurement("a", 3), machine_info={"machine": "x86_64"})
    speeds, _ = load_speeds(tmp_path)
    assert [(speed.machine.split(",")[0], speed.seconds_min) for speed in speeds] == [("arm64", 1), ("x86_64", 3)]


def test_there_is_nothing_where_nothing_was_saved(tmp_path):
    assert load_speeds(tmp_path) == ([], [])


def test_what_is_no_saved_run_is_named_with_the_reason_and_left_alone(tmp_path):
    good = measurement("a", 1)
    whole = save(tmp_path, "whole.json", "2026-01-01T00:00:00+00:00", good).read_bytes()
    folder = tmp_path / "speed"
    bad = {
        "cut.json": whole[:-40],
        "empty.json": b"",
        "list.json": b"[1]",
        "foreign.json": b'{"format": 2}',
        "latin.json": b'{"datetime": "\xe4"}',
        "when.json": whole.replace(b"2026-01-01T", b"yesterday "),
        "number.json": whole.replace(b'"min": 1', b'"min": "fast"'),
        "nan.json": whole.replace(b'"median": 2', b'"median": NaN'),
        "entry.json": whole.replace(b'"name": "a"', b'"name": 5'),
    }
    for name, content in bad.items():
        assert content != whole
        (folder / name).write_bytes(content)
    (folder / "folder.json").mkdir()
    speeds, unreadable = load_speeds(tmp_path)
    assert [speed.file for speed in speeds] == ["whole.json"]
    reasons = dict(unreadable)
    assert reasons.keys() == {f"speed/{name}" for name in (*bad, "folder.json")}
    assert all(reason.startswith("not a saved run of pytest-benchmark: ") for reason in reasons.values())
    assert reasons["speed/foreign.json"].endswith("'datetime' is missing")
    assert reasons["speed/number.json"].endswith("'min' of the seconds is 'fast'")
    assert {name: (folder / name).read_bytes() for name in bad} == bad


@pytest.mark.parametrize(
    ("info", "commit"),
    [({"id": "abc", "dirty": True}, "abc with changes"), ({"id": "unversioned", "dirty": True}, ""), ({}, "")],
)
def test_the_commit_says_whether_files_differed(tmp_path, info, commit):
    save(tmp_path, "x.json", "2026-01-01T00:00:00+00:00", measurement("a", 1), commit_info=info)
    assert load_speeds(tmp_path)[0][0].commit == commit


def test_a_machine_that_says_little_is_described_by_what_it_says(tmp_path):
    made = "2026-01-01T00:00:00+00:00"
    save(tmp_path, "x.json", made, measurement("a", 1), machine_info={"machine": "arm64", "cpu": None})
    assert load_speeds(tmp_path)[0][0].machine == "arm64, arm64, Python"
