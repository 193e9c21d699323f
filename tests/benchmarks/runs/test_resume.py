"""Runs that are killed and go on: the same result, once, and nothing left behind."""

from __future__ import annotations

import importlib
import json
import os
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra graph")

from baselines import registry
from benchmarks.__main__ import main
from benchmarks.results.store import Store, load_failures, load_results
from benchmarks.runs.experiment import make_experiment, make_source
from benchmarks.runs.history import HistoryRecorder
from benchmarks.runs.scheduler import run_all
from datasets.common.errors import DataError
from tests.support.single_run import comparable, run
from tests.support.toys import toys

assert toys  # a fixture

# A federated method that dies in the round that the environment names, of its n-th fit: killed, or by an error. It
# writes down its rounds.
MORTAL = """
import os, signal
from dataclasses import dataclass
from typing import ClassVar
from baselines.method import ignore
from baselines.registry import register
from fedrule.methods.federated import FedRule

fits = 0

@register("mortal")
@dataclass(frozen=True)
class Mortal(FedRule):
    NAME: ClassVar[str] = "mortal"

    def fit(self, train, *, rng, on_round=ignore, checkpoint=None):
        global fits
        fits += 1

        def on_each_round(done, of, fitted, values):
            on_round(done, of, fitted, values)
            with open(os.environ["MORTAL_ROUNDS"], "a") as file:
                file.write(f"{done} ")
            if os.environ.get("MORTAL_KILLED") == f"{fits}/{done}":
                os.kill(os.getpid(), signal.SIGKILL)
            if os.environ.get("MORTAL_FAILS") == f"{fits}/{done}":
                raise RuntimeError("out of luck")

        return super().fit(train, rng=rng, on_round=on_each_round, checkpoint=checkpoint)
"""
PARAMETERS = {"rounds": 7, "hidden": 2, "predictor_hidden": 2, "bias": "learned", "participation": 0.3}
ASKED = {"data": "wyze-synthetic", "data_options": {"homes": 30}, "parameters": PARAMETERS, "protocols": ["ranking"]}


@pytest.fixture
def mortal(tmp_path, monkeypatch):
    """The method in a file of its own, and what it needs from the environment; called, it is the rounds since then."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.syspath_prepend(tmp_path)
    rounds = tmp_path / "rounds"
    monkeypatch.setenv("MORTAL_ROUNDS", str(rounds))
    (tmp_path / "mortal_method.py").write_text(MORTAL)
    module = importlib.import_module("mortal_method")

    def since():
        told = [int(done) for done in rounds.read_text().split()] if rounds.exists() else []
        rounds.unlink(missing_ok=True)
        module.fits = 0
        return told

    yield since
    del sys.modules["mortal_method"]


def checkpoints(folder):
    return sorted(path.name for path in (folder / "checkpoints").glob("*"))


def test_a_killed_run_of_a_suite_goes_on_when_the_command_is_given_again(tmp_path, mortal, monkeypatch, caplog):
    settings = ", ".join(f"{name} = {json.dumps(value)}" for name, value in PARAMETERS.items())
    suite = tmp_path / "mine.toml"
    suite.write_text(
        f'methods = [{{ name = "mortal", {settings} }}]\nseeds = 1\ncurves = 3\nprotocols = ["paper"]\n'
        '[[data]]\nname = "wyze-synthetic"\noptions = { homes = 30 }\n'
    )

    command = ["run", str(suite), "--checkpoints", "2", "--quiet", "--results", str(tmp_path / "killed")]
    command += ["--import", "mortal_method"]
    whole = run("mortal", **ASKED | {"protocols": ["paper"]}, curves=3, store=tmp_path / "whole", isolate=False)
    assert mortal() == [1, 2, 3, 4, 5, 6, 7]
    monkeypatch.setenv("MORTAL_KILLED", "1/5")
    assert main(command) == 1
    assert mortal() == [1, 2, 3, 4, 5]
    assert "killed by SIGKILL" in load_failures(tmp_path / "killed")[0].error
    assert len(checkpoints(tmp_path / "killed")) == 1
    monkeypatch.delenv("MORTAL_KILLED")
    caplog.set_level("INFO")
    assert main(command) == 0
    assert mortal() == [5, 6, 7]  # the last checkpoint was that of round 4
    assert "mortal on wyze-synthetic (types, holdout), seed 0: resumed after round 4" in caplog.messages
    killed = load_results(tmp_path / "killed")
    assert comparable(killed) == comparable(whole)
    assert [row["round"] for row in killed[0].history] == [1, 2, 3, 4, 5, 6, 7]
    assert "test_auc" in killed[0].history[2]  # measured before it was killed
    seconds = [row["seconds"] for row in killed[0].history]
    assert seconds == sorted(seconds)
    assert checkpoints(tmp_path / "killed") == []


def test_a_run_whose_last_round_is_over_is_only_measured_and_its_second_fit_goes_on_as_well(
    tmp_path, mortal, monkeypatch
):
    # Scores that are no log-odds are calibrated, for which protocol `paper` needs a fit without validation rules.
    asked = ASKED | {"parameters": PARAMETERS | {"non_rules": "feasible"}, "protocols": ["ranking", "paper"]}
    asked |= {"isolate": False, "checkpoints": 3}
    whole = run("mortal", **asked, store=tmp_path / "whole")
    assert mortal() == [*range(1, 8), *range(1, 8)]
    monkeypatch.setenv("MORTAL_FAILS", "2/5")
    ranking, paper = run("mortal", **asked, store=tmp_path / "killed")
    assert (ranking.status, paper.status) == ("done", "failed")
    assert mortal() == [*range(1, 8), *range(1, 6)]
    assert len(checkpoints(tmp_path / "killed")) == 2
    monkeypatch.delenv("MORTAL_FAILS")
    assert comparable(run("mortal", **asked, store=tmp_path / "killed")) == comparable(whole)
    assert mortal() == [4, 5, 6, 7]  # of the second fit, after its checkpoint of round 3
    assert checkpoints(tmp_path / "killed") == []


def test_how_often_checkpoints_are_kept_is_no_part_of_a_result(tmp_path, mortal):
    without, few, many = (
        run("mortal", **ASKED, store=tmp_path / str(every), isolate=False, checkpoints=every) for every in (0, 3, 1)
    )
    assert comparable(without) == comparable(few) == comparable(many)
    assert len(mortal()) == 3 * 7
    run("mortal", **ASKED, store=tmp_path / "3", isolate=False, checkpoints=2)
    assert mortal() == []


def test_a_checkpoint_of_other_code_is_not_used_and_the_log_says_so(tmp_path, mortal, monkeypatch, caplog):
    monkeypatch.setenv("MORTAL_FAILS", "1/5")
    asked = ASKED | {"store": tmp_path / "kept", "isolate": False, "checkpoints": 2}
    assert run("mortal", **asked)[0].status == "failed"
    mortal()
    with (tmp_path / "mortal_method.py").open("a") as file:
        file.write("edited = True\n")
    monkeypatch.delenv("MORTAL_FAILS")
    assert run("mortal", **asked)[0].status == "done"
    assert mortal() == [1, 2, 3, 4, 5, 6, 7]
    name = "mortal on wyze-synthetic (types, holdout), seed 0"
    assert f"{name}: its checkpoint of round 4 is of other code; it starts again" in caplog.messages


def test_a_damaged_checkpoint_fails_the_run_with_the_remedy(tmp_path, mortal, monkeypatch):
    monkeypatch.setenv("MORTAL_FAILS", "1/5")
    asked = ASKED | {"store": tmp_path / "kept", "isolate": False, "checkpoints": 2}
    run("mortal", **asked)
    mortal()
    monkeypatch.delenv("MORTAL_FAILS")
    (file,) = (tmp_path / "kept" / "checkpoints").iterdir()
    os.truncate(file, 1000)
    (failed,) = run("mortal", **asked)
    assert f"{file}: truncated, damaged or not a checkpoint" in failed.error
    assert "delete it to start again" in failed.error
    file.unlink()
    assert run("mortal", **asked)[0].status == "done"
    assert mortal() == [1, 2, 3, 4, 5, 6, 7]


def test_a_run_without_the_option_starts_again_and_takes_old_checkpoints_with_it(tmp_path, mortal, monkeypatch):
    monkeypatch.setenv("MORTAL_FAILS", "1/5")
    asked = ASKED | {"store": tmp_path / "kept", "isolate": False}
    run("mortal", **asked, checkpoints=2)
    mortal()
    (file,) = (tmp_path / "kept" / "checkpoints").iterdir()
    file.with_name(f".{file.name}.1.tmp").touch()  # of a process that was killed while it wrote
    monkeypatch.delenv("MORTAL_FAILS")
    assert run("mortal", **asked)[0].status == "done"
    assert mortal() == [1, 2, 3, 4, 5, 6, 7]
    assert checkpoints(tmp_path / "kept") == []


@pytest.mark.usefixtures("toys")
def test_methods_that_cannot_keep_checkpoints_run_as_ever(tmp_path):
    asked = {"data": "wyze-synthetic", "data_options": {"homes": 80}, "protocols": ["ranking"], "isolate": False}
    with_them = run("toy-count", **asked, store=tmp_path / "with", checkpoints=1)
    assert comparable(with_them) == comparable(run("toy-count", **asked, store=tmp_path / "without"))
    assert not (tmp_path / "with" / "checkpoints").exists()


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("every", [-1, 2.5, True])
def test_a_number_of_rounds_that_is_none_is_refused_before_anything_runs(tmp_path, every):
    with pytest.raises(DataError, match=f"checkpoints must be a number of rounds .*, got {every}"):
        run("toy-count", "wyze-synthetic", store=tmp_path, isolate=False, checkpoints=every)
    asked = make_experiment(
        "toy-count", make_source("wyze-synthetic", options={"homes": 30}), parameters={}, options={}
    )
    with pytest.raises(DataError, match="must be a number of rounds"):
        run_all([asked], store=Store(tmp_path), checkpoints=every)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_explains_checkpoints_and_refuses_what_is_no_number(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    assert "--checkpoints N" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["run", "smoke", "--checkpoints", "some"])
    assert "expected a whole number, 0 or more, got 'some'" in capsys.readouterr().err


def test_a_recorded_history_comes_back_and_its_seconds_continue():
    recorder = HistoryRecorder()
    recorder(1, 3, None, {"loss": 0.1})
    recorder(2, 3, None, {"loss": float("nan"), "bound": float("inf")})
    recorder.measuring = 4.0
    recorder._begin -= 100.0  # so long ago
    kept, fitting = recorder.arrays(), recorder.fitting
    again = HistoryRecorder()
    again.restore(kept)
    np.testing.assert_equal(again.history, recorder.history)
    assert again.measuring == 4.0
    assert fitting <= again.fitting < fitting + 60
    again(3, 3, None, {})
    assert [row["round"] for row in again.history] == [1, 2, 3]
    assert again.history[2]["seconds"] > 90
