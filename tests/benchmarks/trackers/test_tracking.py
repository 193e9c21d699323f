"""Which results are sent, when, and what people are told when a tracker does not take them; without any tracker."""

from __future__ import annotations

import importlib.util
import json
import logging
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.__main__ import main
from benchmarks.results.store import Store, load_failures, load_results
from benchmarks.trackers import tracking as module
from benchmarks.trackers.tracked_run import tracked_run, tracker_name
from benchmarks.trackers.tracking import Tracking, open_tracker
from datasets.common.errors import DataError
from tests.support.made_runs import RULES, keep, keep_failure, rounds
from tests.support.toys import toys

assert toys  # a fixture


class Notebook:
    """A tracker that keeps what it is sent, and fails as long as it is closed."""

    def __init__(self) -> None:
        self.runs: dict[str, str] = {}
        self.closed = False
        self.refused = ""  # hash of a run that it never takes
        self.calls = 0

    def connect(self):
        self.calls += 1
        if self.closed:
            raise ConnectionError("nobody answers")

    def has(self, run):
        self.connect()
        return self.runs.get(run.hash) == run.digest

    def send(self, run):
        self.connect()
        if run.hash == self.refused:
            raise ValueError("a name is too long")
        self.runs[run.hash] = run.digest


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    monkeypatch.setattr(module, "open_tracker", lambda _address: found)
    return found


def test_names_of_metrics_have_only_what_every_tracker_takes():
    assert tracker_name("mrr") == "mrr"
    assert tracker_name("hr@10, all raw") == "hr_at_10.all_raw"
    assert tracker_name("devices >20: mrr, all") == "slices/devices_over_20/mrr.all"


def test_two_metrics_never_share_a_name(tmp_path):
    (result,) = keep(tmp_path, "ease", 0.3, seeds=[0], summary={"a b": 1.0, "a_b": 2.0})
    found = tracked_run(result).metrics
    assert (found["a_b"], found["a_b_2"]) == (1.0, 2.0)


def test_parameters_name_everything_that_decides_the_numbers(tmp_path):
    (result,) = keep(tmp_path, "ease", 0.3, seeds=[4], parameters={"regularization": 7.0}, options={"homes": 40})
    found = tracked_run(result).params
    assert {name: found[name] for name in ("method", "data", "track", "split", "protocol", "seed")} == {
        "method": "ease",
        "data": "wyze-synthetic",
        "track": "types",
        "split": "holdout",
        "protocol": "ranking",
        "seed": 4,
    }
    assert (found["method.regularization"], found["data.homes"], found["split.fraction"]) == (7.0, 40, 0.2)
    assert {f"method.{name}" for name in result.key.parameters} <= found.keys()


def test_a_curve_has_the_rounds_as_steps_and_a_failure_has_no_metrics(tmp_path):
    (result,) = keep(tmp_path, "toy", 0.3, seeds=[0], history=rounds(3, first={"loss": 0.5}))
    run = tracked_run(result)
    assert [row.number for row in run.curves] == [1, 2, 3]
    assert run.curves[0].values["rounds/loss"] == 0.5
    failed = tracked_run(keep_failure(tmp_path, "mf", "Traceback\nMemoryError: no room\n"))
    assert (failed.failed, failed.metrics, failed.notes) == (True, {}, "MemoryError: no room")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mlfow:x", r"unknown tracker 'mlfow'; did you mean 'mlflow'\?"),
        ("tensorboard", "no place to write to; write e.g. tensorboard:DIR"),
    ],
)
def test_an_address_that_can_never_work_is_an_error(address, message):
    with pytest.raises(DataError, match=message):
        open_tracker(address)


@pytest.mark.parametrize("address", ["mlflow:x", "tensorboard:x"])
def test_a_missing_package_is_one_line_with_the_extra(monkeypatch, capsys, tmp_path, address):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert main(["track", "--to", address, "--results", str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{address} needs the extra track: pip install -c constraints")


def test_nothing_is_imported_for_trackers_unless_asked_for():
    code = "import sys, benchmarks.commands.runs; sys.exit(bool({'mlflow', 'tensorboard'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.usefixtures("notebook")
def test_each_result_is_sent_once(tmp_path):
    results = keep(tmp_path, "ease", 0.3)
    tracking = Tracking(["mlflow:x"], tmp_path)
    tracking.send(results[0])
    assert tracking.finish(results) == ["mlflow:x: 2 runs sent, 0 were there"]
    assert Tracking(["mlflow:x"], tmp_path).finish(results) == ["mlflow:x: 0 runs sent, 2 were there"]


@pytest.mark.usefixtures("notebook")
def test_a_result_that_was_made_again_is_sent_again(tmp_path):
    (result,) = keep(tmp_path, "ease", 0.3, seeds=[0])
    Tracking(["mlflow:x"], tmp_path).finish([result])
    again = Store(tmp_path).save(replace(result, code="other"), result.homes(), RULES)
    assert Tracking(["mlflow:x"], tmp_path).finish([again]) == ["mlflow:x: 1 run sent, 0 were there"]


def test_a_tracker_that_comes_back_gets_what_it_missed(notebook, tmp_path, caplog):
    notebook.closed = True
    tracking = Tracking(["mlflow:x"], tmp_path)
    for result in keep(tmp_path, "ease", 0.3):
        tracking.send(result)
    assert notebook.calls == 1  # it is not waited for with every run
    notebook.closed = False
    assert tracking.finish([]) == ["mlflow:x: 2 runs sent, 0 were there"]
    assert tracking.complete
    assert [each.message for each in caplog.records] == [
        "mlflow:x: ConnectionError: nobody answers. Results are stored, and sent at the end if it can be reached then"
    ]


def test_a_tracker_that_stays_away_is_a_warning_with_the_command_that_sends_later(notebook, tmp_path, caplog):
    tracking = Tracking(["mlflow:x"], tmp_path)
    notebook.closed = True
    results = keep(tmp_path, "ease", 0.3)
    assert tracking.finish(results) == ["mlflow:x: 0 runs sent, 0 were there"]
    assert not tracking.complete
    assert caplog.records[-1].levelno == logging.WARNING
    assert caplog.records[-1].message == (
        "mlflow:x: 2 runs not sent (ConnectionError: nobody answers). They are stored; to send them again: "
        f"python -m benchmarks track --to mlflow:x --results {tmp_path}"
    )


def test_a_run_that_a_tracker_refuses_does_not_keep_back_the_others(notebook, tmp_path, caplog):
    results = keep(tmp_path, "ease", 0.3, seeds=range(3))
    notebook.refused = results[0].key.hash
    Tracking(["mlflow:x"], tmp_path).finish(results)
    assert notebook.runs.keys() == {each.key.hash for each in results[1:]}
    assert "1 run not sent (ValueError: a name is too long)" in caplog.text


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'methods = ["toy-count", "toy-broken"]\nseeds = 1\nprotocols = ["ranking"]\n'
        '[[data]]\nname = "wyze-synthetic"\noptions = { homes = 60 }\n'
    )
    return str(path)


@pytest.mark.usefixtures("toys")
def test_run_sends_finished_and_failed_runs_also_those_that_were_there(notebook, suite, tmp_path, capsys):
    folder = str(tmp_path / "results")
    assert main(["run", suite, "--results", folder, "--quiet"]) == 1  # one of them fails
    assert not notebook.runs
    assert main(["run", suite, "--results", folder, "--quiet", "--track-to", "mlflow:x"]) == 1
    assert "mlflow:x: 2 runs sent, 0 were there\n" in capsys.readouterr().out
    there = [*load_results(folder), *load_failures(folder)]
    assert notebook.runs.keys() == {each.key.hash for each in there}


@pytest.mark.usefixtures("toys")
def test_no_result_is_lost_where_a_tracker_cannot_be_reached(notebook, suite, tmp_path, capsys, caplog):
    notebook.closed = True
    folder = tmp_path / "results"
    main(["run", suite, "--results", str(folder), "--quiet", "--track-to", "mlflow:x"])
    assert len(load_results(folder)) == len(load_failures(folder)) == 1
    assert "2 runs not sent" in caplog.text
    assert main(["track", "--to", "mlflow:x", "--results", str(folder), "--quiet"]) == 1
    notebook.closed = False
    assert main(["track", "--to", "mlflow:x", "--results", str(folder), "--quiet"]) == 0
    assert capsys.readouterr().out.endswith("mlflow:x: 2 runs sent, 0 were there\n")


@pytest.mark.usefixtures("notebook")
def test_track_without_results_says_how_to_make_some(tmp_path, capsys):
    assert main(["track", "--to", "mlflow:x", "--results", str(tmp_path)]) == 1
    assert "has no results; `python -m benchmarks run smoke` makes some" in capsys.readouterr().err


def test_the_digest_is_that_of_the_stored_file(tmp_path):
    (result,) = keep(tmp_path, "ease", 0.3, seeds=[0])
    before = tracked_run(result).digest
    path = tmp_path / f"{result.key.hash}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"code": "other"}))
    assert tracked_run(result).digest != before
