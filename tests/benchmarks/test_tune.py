"""Tuning: on validation data only, repeatable, and going on where it stopped."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from baselines.registry import build
from benchmarks import tune as module
from benchmarks.evaluation import evaluate
from benchmarks.results.store import Store
from benchmarks.runs.experiment import SplitSource, make_source
from benchmarks.tune import Study, run_command, tune, tune_all
from datasets.common.environment import commit
from datasets.common.errors import DataError
from datasets.splits import split
from tests.support.toys import toys
from tests.support.waiting import wait_until

assert toys  # a fixture
pytest.importorskip("optuna", reason="needs the extra tune")
pytestmark = pytest.mark.usefixtures("toys")


def data(homes=80, **split_options):
    return SplitSource(
        make_source("wyze-synthetic", options={"homes": homes}), "holdout", {"fraction": 0.2, **split_options}
    )


def study(method="toy-count", **more):
    return Study(method, **({"fixed": {}, "data": (data(),), "seeds": (100,)} | more))


def chosen(tuned):
    return [(trial.parameters, trial.value) for trial in tuned.trials]


def test_the_first_trial_is_the_defaults_measured_on_validation_data(tmp_path):
    tuned = tune(study(), 1, store=Store(tmp_path))
    homes = make_source("wyze-synthetic", options={"homes": 80}).load()
    parts = split(homes, "holdout", seed=100)
    fitted = build("toy-count").fit(parts.train, rng=np.random.default_rng([100, 2]))
    expected = evaluate(fitted, parts, "ranking").summary["mrr"]
    assert chosen(tuned) == [({}, expected)]


def test_no_split_that_results_are_reported_on_is_evaluated(tmp_path, monkeypatch):
    seen = []

    def watch(fitted, parts, protocol, *, seed):
        seen.append((protocol, parts.seed))
        return evaluate(fitted, parts, protocol, seed=seed)

    monkeypatch.setattr(module, "evaluate", watch)
    tuned = tune(study("toy-rare", data=(data(400),), confirm_seeds=(101,)), 4, store=Store(tmp_path))
    assert tuned.confirmation is not None
    assert set(seen) == {("ranking", 100), ("ranking", 101)}


def test_tuning_on_the_seeds_of_results_is_refused():
    with pytest.raises(DataError, match="tuning on split seed 4 would look at what results hide; take seeds from 100"):
        study(seeds=(100, 4))
    with pytest.raises(DataError, match="tuning on split seed 3 would look at what results hide"):
        study(confirm_seeds=(3,))


def test_a_study_repeats_exactly_and_goes_on_where_it_stopped(tmp_path, monkeypatch):
    whole = tune(study(), 12, store=Store(tmp_path / "whole"))
    tune(study(), 5, store=Store(tmp_path / "parts"))
    tried = []
    original = module._try
    monkeypatch.setattr(module, "_try", lambda *given: tried.append(1) or original(*given))
    resumed = tune(study(), 12, store=Store(tmp_path / "parts"))
    assert chosen(resumed) == chosen(whole)
    assert len(tried) <= 7
    assert len({str(parameters) for parameters, _ in chosen(whole)}) > 6


def test_the_best_trial_is_at_least_as_good_as_the_defaults_and_is_found(tmp_path):
    homes = (data(400),)  # of few homes the rarest may happen to be hidden
    tuned = tune(study(fixed={"rounds": 1}, data=homes), 10, store=Store(tmp_path))
    assert tuned.best.value == max(trial.value for trial in tuned.trials)
    assert tuned.best.parameters.get("sign", 1.0) == 1.0  # recommending the rarest relations is worse
    assert "rounds" not in tuned.best.parameters
    content = json.loads(tuned.path.read_text())
    assert content["metric"] == "mrr"
    assert len(content["trials"]) == len({str(parameters) for parameters, _ in chosen(tuned)})


def test_a_trial_says_under_which_commit_and_versions_it_was_made(tmp_path):
    (trial,) = json.loads(tune(study(), 1, store=Store(tmp_path)).path.read_text())["trials"]
    assert trial["commit"] == commit()
    assert trial["versions"]["numpy"] == np.__version__


def test_a_trial_is_worth_the_geometric_mean_over_data_sets_of_the_mean_over_seeds(tmp_path):
    tuned = tune(study(data=(data(60), data(80)), seeds=(100, 101)), 1, store=Store(tmp_path))
    (trial,) = tuned.trials
    assert len(trial.values) == 4
    first, second = sum(trial.values[:2]) / 2, sum(trial.values[2:]) / 2
    assert trial.value == pytest.approx((first * second) ** 0.5)


def test_a_data_set_on_which_nothing_is_found_makes_a_trial_worth_nothing():
    assert module._average([0.0, 0.0, 0.5, 0.7], 2) == 0.0


def test_the_best_trial_is_measured_beside_the_defaults_on_splits_that_no_trial_has_seen(tmp_path):
    tuned = tune(study("toy-rare", data=(data(400),), confirm_seeds=(101, 102)), 6, store=Store(tmp_path))
    assert tuned.confirmation is not None
    assert tuned.confirmation.confirmed
    assert not replace(tuned.confirmation, best=tuned.confirmation.defaults).confirmed
    assert [len(trial.values) for trial in tuned.confirmation.trials] == [2, 2]
    assert tuned.confirmation.defaults.parameters == {}
    assert tuned.confirmation.best.parameters == tuned.best.parameters
    homes = make_source("wyze-synthetic", options={"homes": 400}).load()
    expected = []
    for seed in (101, 102):
        parts = split(homes, "holdout", seed=seed)
        fitted = build("toy-rare").fit(parts.train, rng=np.random.default_rng([seed, 2]))
        expected.append(evaluate(fitted, parts, "ranking").summary["mrr"])
    assert tuned.confirmation.defaults.values == expected


def test_confirmation_on_a_split_that_trials_have_seen_is_refused():
    with pytest.raises(DataError, match="split seed 100 is one that the trials are chosen on; confirm on others"):
        study(confirm_seeds=(100, 101))


def test_trials_of_other_code_are_tried_again(tmp_path, monkeypatch):
    tune(study(), 3, store=Store(tmp_path))
    monkeypatch.setattr(module, "code_hash", lambda _: "edited")
    tried = []
    original = module._try
    monkeypatch.setattr(module, "_try", lambda *given: tried.append(1) or original(*given))
    tune(study(), 3, store=Store(tmp_path))
    assert len(tried) == 3


def test_several_methods_are_tuned_in_processes_of_their_own_with_the_same_numbers(tmp_path):
    studies = [Study(method, {}, (data(),), (100,)) for method in ("ease", "popularity")]
    together = {each.method: chosen(each) for each in tune_all(studies, 2, store=Store(tmp_path / "both"), jobs=2)}
    alone = {each.method: chosen(tune(each, 2, store=Store(tmp_path / "alone"))) for each in studies}
    assert together == alone


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_studies_end_with_the_command_that_is_killed(tmp_path):
    program = "from benchmarks.__main__ import main; main()"
    options = ["tune", "lightgcn,gcmc", "--trials", "500", "--data", "wyze-synthetic:homes=80", "--jobs", "2"]
    command = [sys.executable, "-c", program, *options, "--results", str(tmp_path)]
    pytest.importorskip("torch", reason="needs the extra graph")
    with subprocess.Popen(command) as process:
        wait_until(lambda: list(tmp_path.rglob("*.json")), "the first trial")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) >= 2  # and one that counts what is shared
        process.kill()
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_a_study_that_fails_leaves_the_others_alone(tmp_path):
    studies = [Study(method, {}, (data(),), (100,)) for method in ("random", "popularity")]
    found = list(tune_all(studies, 1, store=Store(tmp_path)))
    errors = [str(each) for each in found if isinstance(each, Exception)]
    assert errors == ["random: random has nothing to tune: its SPACE has no parameter that is not fixed"]
    assert [each.method for each in found if not isinstance(each, Exception)] == ["popularity"]


def test_a_trial_that_fails_is_kept_and_the_others_go_on(tmp_path, monkeypatch):
    def fail(asked, train):
        raise RuntimeError(f"too much noise for {asked.method} on {train.name}")

    monkeypatch.setattr(module, "fit", fail)
    tuned = tune(study(), 3, store=Store(tmp_path))
    assert [trial.value for trial in tuned.trials] == [None] * 3
    with pytest.raises(DataError, match="every trial failed"):
        _ = tuned.best
    monkeypatch.undo()


def test_a_method_without_a_space_has_nothing_to_tune(tmp_path):
    with pytest.raises(DataError, match="toy-large has nothing to tune"):
        tune(study("toy-large"), 1, store=Store(tmp_path))


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "optuna" else real(name))
    with pytest.raises(DataError, match=r'needs the extra tune: pip install -c constraints.txt -e "\.\[tune\]"'):
        tune(study(), 1, store=Store(tmp_path))


def test_a_file_of_trials_that_cannot_be_read_is_named_and_left_alone(tmp_path):
    path = tune(study(), 1, store=Store(tmp_path)).path
    for content in ("half a fi", '{"key": {}, "trials": []}'):  # the second as an older version wrote it
        path.write_text(content)
        with pytest.raises(DataError, match=r"cannot be read .* move it away"):
            tune(study(), 1, store=Store(tmp_path))
        assert path.read_text() == content


def test_the_command_to_paste_spells_values_as_the_command_line_reads_them():
    values = {"noise": 0.5, "sizes": [16, 32], "limit": None, "fast": True, "solver": "a b"}
    assert run_command("mine", values, modules=["my_methods"]) == (
        "python -m benchmarks run default --methods mine --import my_methods --set mine.noise=0.5 "
        "--set mine.sizes=16,32 --set mine.limit=none --set mine.fast=true --set 'mine.solver=a b'"
    )
