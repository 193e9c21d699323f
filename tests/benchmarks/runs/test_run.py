"""Runs: what is fitted on what, what is kept, and what happens when it goes wrong."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import benchmarks.runs.run
import datasets
from baselines import registry
from baselines.calibration import Calibration, calibrate
from baselines.popularity import Popularity
from baselines.registry import build
from benchmarks.evaluation import evaluate
from benchmarks.results.store import Store, load_failures, load_results
from benchmarks.runs.experiment import code_hash, data_options, make_experiment, make_source, split_options
from benchmarks.runs.processes import describe_failure
from benchmarks.runs.scheduler import Turns, run_all, write_homes
from benchmarks.runs.source_hash import _CACHE, source_hash
from benchmarks.runs.workers import Workers
from datasets.common.environment import commit, peak_megabytes, set_threads, thread_variables, versions
from datasets.common.errors import DataError, error_line
from datasets.registry import get as get_data
from datasets.splits import SPLITS, split
from tests.support.single_run import run
from tests.support.toys import toys

assert toys  # a fixture

DATA = {"data": "wyze-synthetic", "data_options": {"homes": 80}}
HOMES = {"options": {"homes": 80}}


def tables(folder):
    """The bytes of every table of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


@pytest.mark.usefixtures("toys")
def test_a_run_is_what_fitting_and_evaluating_by_hand_gives(tmp_path):
    ranking, paper = run("toy-count", **DATA, seed=3, store=tmp_path, isolate=False)
    homes = datasets.load("wyze-synthetic", homes=80).merged_types()
    parts = split(homes, "holdout", seed=3)
    fitted = build("toy-count").fit(parts.train, rng=np.random.default_rng([3, 2]))
    assert ranking.summary == pytest.approx(evaluate(fitted, parts, "ranking").summary, nan_ok=True)

    carved = split(homes, "holdout", seed=3, validation=True)
    first = build("toy-count").fit(carved.train, rng=np.random.default_rng([3, 2]))
    expected = evaluate(fitted, parts, "paper", seed=3, calibration=calibrate(first, carved, seed=3))
    assert paper.summary == pytest.approx(expected.summary, nan_ok=True)
    pd.testing.assert_frame_equal(paper.homes(), expected.homes)


@pytest.mark.usefixtures("toys")
def test_a_result_says_how_it_came_about(tmp_path):
    (result,) = run("toy-count", **DATA, parameters={"rounds": 2}, protocols=["ranking"], store=tmp_path, isolate=False)
    assert result.key.parameters == {"rounds": 2, "noise": 0.1, "sign": 1.0}
    assert result.key.data_options == {"preset": "paper", "homes": 80, "seed": 0}
    assert [row["loss"] for row in result.history] == [1.0, 0.5]
    assert [row["round"] for row in result.history] == [1.0, 2.0]
    assert result.seconds.keys() >= {"fit", "evaluate"}
    assert result.memory["peak"] >= result.memory["fit"] >= result.memory["before"] > 10
    assert result.counts["homes"] == 80
    assert result.counts["train rules"] + result.counts["hidden rules"] == result.counts["rules"]
    assert {"python", "numpy", "pandas"} <= result.versions.keys()
    assert result.threads == 1
    assert not result.calibrated


@pytest.mark.parametrize("track", ["types", "instances"])
def test_with_and_without_words_are_two_results_only_where_there_are_words(track):
    keys = []
    for words in (True, False):
        source = make_source("wyze-synthetic", options={"homes": 80, "words": words}, track=track)
        one = make_experiment("popularity", source, parameters={}, options={}, protocols=["ranking"])
        keys.append(one.keys(source.fingerprint())["ranking"])
        assert one.overrides.data_options == {"homes": 80} | ({} if words else {"words": False})
    assert (keys[0] == keys[1]) == (track == "types")  # merged devices have none
    assert keys[0].hash != keys[1].hash or track == "types"


@pytest.mark.usefixtures("toys")
def test_only_scores_that_are_not_log_odds_are_calibrated_and_only_where_probabilities_count(tmp_path):
    calibrated = {
        (result.key.method, result.key.protocol): result.calibrated
        for method in ("toy-count", "toy-log-odds")
        for result in run(method, **DATA, store=tmp_path, isolate=False)
    }
    assert [place for place, yes in calibrated.items() if yes] == [("toy-count", "paper")]


@pytest.mark.usefixtures("toys")
def test_what_has_no_score_gets_its_probability_from_validation_data_whatever_the_scores_are(tmp_path):
    homes = datasets.load("wyze-synthetic", homes=80).merged_types()
    parts, carved = split(homes, "holdout", seed=3), split(homes, "holdout", seed=3, validation=True)
    fitted, first = (build("toy-silent").fit(p.train, rng=np.random.default_rng([3, 2])) for p in (parts, carved))
    calibrated = calibrate(first, carved, seed=3)
    assert calibrated.unanswered != 0
    found = {
        method: run(method, **DATA, seed=3, protocols=["paper"], store=tmp_path, isolate=False)[0]
        for method in ("toy-silent", "toy-silent-log-odds")
    }
    assert [result.calibrated for result in found.values()] == [True, False]
    for calibration, result in zip(
        (calibrated, Calibration(unanswered=calibrated.unanswered)), found.values(), strict=True
    ):
        expected = evaluate(fitted, parts, "paper", seed=3, calibration=calibration)
        assert result.summary == pytest.approx(expected.summary, nan_ok=True)


@pytest.mark.usefixtures("toys")
def test_log_odds_without_a_gap_are_fitted_once(tmp_path, monkeypatch):
    fits = []
    original = benchmarks.runs.run.fit
    monkeypatch.setattr(benchmarks.runs.run, "fit", lambda *given: fits.append(1) or original(*given))
    run("toy-log-odds", **DATA, store=tmp_path, isolate=False)
    assert len(fits) == 1
    run("toy-count", **DATA, store=tmp_path, isolate=False)
    assert len(fits) == 3


@pytest.mark.usefixtures("toys")
def test_defaults_of_another_type_than_declared_have_one_key_everywhere(tmp_path):
    asked = make_experiment("toy-careless", make_source("wyze-synthetic", **HOMES), parameters={}, options={})
    assert repr((asked.parameters["strength"], asked.parameters["sizes"])) == "(1.0, (16.0, 32.0))"
    (result,) = run("toy-careless", **DATA, protocols=["ranking"], store=tmp_path)
    assert (result.status, result.error) == ("done", "")
    assert result.key.hash == asked.keys(result.key.fingerprint)["ranking"].hash


@pytest.mark.parametrize(
    ("method", "given", "named"),
    [
        ("fedrule", {}, {}),
        ("fedrule", {"preset": "paper"}, {"preset": "paper"}),
        ("fedrule", {"server_optimizer": "plain", "server_rate": 1.0}, {"server_optimizer": "plain"}),
        (
            "fedrule",
            {"server_optimizer": "plain", "server_rate": 0.03},
            {"server_optimizer": "plain", "server_rate": 0.03},
        ),
        ("mf", {"solver": "bpr", "iterations": 80}, {"solver": "bpr"}),
    ],
)
def test_a_run_is_named_by_what_was_chosen_and_not_by_what_follows_from_it(method, given, named):
    for package in ("torch_geometric", "numba", "implicit"):
        pytest.importorskip(package)
    homes = make_source("wyze-synthetic", **HOMES)
    asked = make_experiment(method, homes, parameters=given, options={})
    assert asked.overrides.parameters == named
    again = make_experiment(method, homes, parameters=named, options={})
    assert (again, again.parameters.keys()) == (asked, asked.parameters.keys())  # the key has all of them


def test_an_option_that_overrides_a_preset_is_named_also_where_it_is_the_default():
    pytest.importorskip("torch_geometric")
    given = {"preset": "paper", "server_optimizer": "adam"}
    asked = make_experiment("fedgnn", make_source("wyze-synthetic", **HOMES), parameters=given, options={})
    assert asked.overrides.parameters == given


def test_defaults_of_data_and_splits_are_of_their_type(monkeypatch):
    def careless(homes, *, seed=0, fraction: float = 1, validation=False): ...

    monkeypatch.setitem(SPLITS, "careless", careless)
    assert repr(split_options("careless", {})) == "{'fraction': 1.0}"
    registered = replace(get_data("wyze-synthetic"), load=lambda *, size=None: size)
    registered.load.__annotations__["size"] = float
    registered.load.__kwdefaults__["size"] = 2
    monkeypatch.setattr("benchmarks.runs.experiment.get_data", lambda _: registered)
    assert repr(data_options("wyze-synthetic", {})) == "{'size': 2.0}"


@pytest.mark.parametrize("wanted", [1, 2])
@pytest.mark.usefixtures("toys")
def test_the_process_of_a_run_uses_as_many_threads_as_asked_for(tmp_path, wanted):
    (result,) = run("toy-threads", **DATA, protocols=["ranking"], threads=wanted, store=tmp_path)
    assert result.history[0]["OMP_NUM_THREADS"] == result.history[0]["OPENBLAS_NUM_THREADS"] == wanted
    assert result.threads == wanted


@pytest.mark.usefixtures("toys")
def test_a_run_that_another_process_has_finished_meanwhile_is_not_made_again(tmp_path, monkeypatch):
    # Between the first look and the claim, the other process finishes one protocol of the first run and all of the
    # second: what is left is one protocol of the first.
    homes = make_source("wyze-synthetic", **HOMES)
    asked = [make_experiment("toy-count", homes, parameters={}, options={}, seed=seed) for seed in (0, 1)]
    original, fitted = Store.claim, []

    def claim(store, key):
        protocols = ["ranking"] if key.seed == 0 else ["ranking", "paper"]
        run("toy-count", **DATA, seed=key.seed, protocols=protocols, store=tmp_path, isolate=False)
        return original(store, key)

    def fit_and_tell(children, some, *more, **options):
        fitted.append((some.seed, some.protocols))
        return made_by(children, some, *more, **options)

    made_by = Workers.run
    monkeypatch.setattr(Store, "claim", claim)
    monkeypatch.setattr(Workers, "run", fit_and_tell)
    outcome = run_all(asked, store=Store(tmp_path))
    assert fitted == [(0, ("paper",))]
    assert (outcome.made, len(outcome.finished)) == (1, 4)


@pytest.mark.usefixtures("toys")
def test_runs_with_equal_keys_are_made_once_and_counted_once(tmp_path):
    homes = make_source("wyze-synthetic", **HOMES)
    asked = [
        make_experiment("toy-count", homes, parameters=given, options={}, protocols=["ranking"])
        for given in ({}, {"noise": 0.1})
    ]
    for made in (1, 0):
        outcome = run_all(asked, store=Store(tmp_path / "kept"))
        assert (outcome.made, len(outcome.finished)) == (made, 1)


@pytest.mark.usefixtures("toys")
def test_the_key_of_a_result_holds_the_key_of_its_split(tmp_path):
    homes = datasets.load("wyze-synthetic", homes=80).merged_types()
    for how in SPLITS:
        (result,) = run("toy-count", **DATA, split=how, seed=1, protocols=["ranking"], store=tmp_path, isolate=False)
        assert result.key.split == split(homes, how, seed=1).key


@pytest.mark.usefixtures("toys")
def test_a_finished_run_is_read_and_not_made_again(tmp_path):
    first = run("toy-count", **DATA, store=tmp_path, isolate=False)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    second = run("toy-count", **DATA, parameters={"noise": 0.1}, store=tmp_path, isolate=False)
    assert [result.written for result in second] == [result.written for result in first]
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


EDITED = """
from dataclasses import dataclass
from baselines.registry import register
from tests.support.toy_methods import Count

@register("edited")
@dataclass(frozen=True)
class Edited(Count):
    def fit(self, *given, **more):
        EDIT
        return super().fit(*given, **more)
"""


@pytest.fixture
def edited(tmp_path, monkeypatch, own_registry):  # noqa: ARG001
    """A method in a file of its own; called with a line of code, it has that line from then on."""
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "edited_method.py"
    times = itertools.count(1_000_000_000, 10)

    def edit(line):
        file.write_text(EDITED.replace("EDIT", line))
        when = next(times)  # compiled files go by size and full seconds: edits of one length come too fast for them
        os.utime(file, (when, when))

    edit("pass")
    importlib.import_module("edited_method")
    yield edit
    del sys.modules["edited_method"]


def test_an_edited_method_is_run_again_and_says_so(tmp_path, edited, caplog):
    homes = make_source("wyze-synthetic", **HOMES)
    asked = make_experiment("edited", homes, parameters={}, options={}, protocols=["ranking"])

    def result():
        outcome = run_all([asked], store=Store(tmp_path / "kept"), quiet=True)
        return [*outcome.finished, *outcome.failed][0]

    first = result()
    assert (first.status, first.code) == ("done", asked.code)
    assert result().written == first.written
    assert caplog.text == ""
    edited("object.__setattr__(self, 'sign', -1.0)")  # recommends the rarest
    second = result()
    assert "made by other code, run again" in caplog.text
    assert second.code == asked.code != first.code
    assert second.key == first.key
    assert second.summary["mrr"] < first.summary["mrr"]
    edited("raise RuntimeError('edited once more')")
    assert result().status == "failed"
    edited("import os; os._exit(3)")
    assert result().error == "its process ended with code 3"


def test_the_code_of_a_method_changes_with_what_it_uses_of_its_folder_and_with_nothing_else(tmp_path, monkeypatch):
    folder = tmp_path / "some_folder"
    folder.mkdir()
    for name, text in (
        ("__init__", ""),
        ("method", "from some_folder.layers import deep\nclass Method: ..."),
        ("layers", "from some_folder import deep"),
        ("deep", "import numpy"),
        ("other", ""),
    ):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    method = importlib.import_module("some_folder.method").Method
    codes = [code_hash(method)]
    for name in ("other", "layers", "deep", "method"):
        with (folder / f"{name}.py").open("a") as file:
            file.write("\nedited = 1")
        codes.append(code_hash(method))
    for name in ("some_folder.method", "some_folder.layers", "some_folder.deep", "some_folder"):
        del sys.modules[name]
    assert codes[0] == codes[1] != ""
    assert len(set(codes)) == 4


def test_the_code_of_a_method_does_not_change_with_comments_and_docstrings(tmp_path, monkeypatch):
    file = tmp_path / "documented_method.py"
    plain = 'class Method:\n    rate = 1\n    text = """\n# no comment"""\n    def fit(self): return "value"\n'
    file.write_text(plain)
    monkeypatch.syspath_prepend(tmp_path)
    method = importlib.import_module("documented_method").Method

    def code(text):
        file.write_text(text)
        return code_hash(method)

    before = code(plain)
    documented = plain.replace("rate = 1", "rate = 1  # of Adam").replace(
        ":\n", ':\n    """A method.\n\n    Slow.\n    """\n\n', 1
    )
    assert code(f'"""A module."""\n\n# what follows\n{documented}') == before
    for changed in (
        plain.replace("1", "2"),
        plain.replace("# no comment", "# another text"),
        plain.replace('return "value"', '"""Gives nothing."""'),
    ):
        assert code(changed) != before
    del sys.modules["documented_method"]


def test_the_code_of_a_run_is_that_of_its_method_the_evaluation_and_the_data_that_both_use():
    assert len(code_hash(Popularity)) == 12
    root = Path(registry.__file__).parents[1]
    hashed = next(each for (roots, _), each in _CACHE.items() if root / "baselines/popularity.py" in roots)
    names = {file.relative_to(root).as_posix() for file in hashed.files}
    assert {"baselines/popularity.py", "benchmarks/evaluation/metrics.py", "datasets/splits.py"} <= names
    assert {"benchmarks/runs/run.py", "benchmarks/runs/history.py", "baselines/calibration.py"} <= names
    assert not {"baselines/mf.py", "benchmarks/results/store.py"} & names


def test_the_hash_of_files_is_that_of_all_that_are_named(tmp_path):
    root, more = tmp_path / "root.py", tmp_path / "more.py"
    root.write_text("a = 1")
    more.write_text("b = 1")
    plain = source_hash([root])
    assert plain.files == [root]
    both = source_hash([root], [more])
    assert both.files == [more, root]
    assert both.digest != plain.digest == source_hash([root]).digest
    more.write_text("b = 1000")
    assert source_hash([root], [more]).digest not in {plain.digest, both.digest}


def test_why_a_process_failed_is_the_last_line_of_its_error_whatever_it_printed():
    warning = "UserWarning: little memory is left\n"
    killed = describe_failure(-signal.SIGKILL, warning)
    assert killed.splitlines() == [warning.strip(), "its process was killed by SIGKILL, perhaps out of memory"]
    assert describe_failure(-signal.SIGTERM, "") == "its process was killed by SIGTERM"
    assert error_line(describe_failure(1, f"{warning}RuntimeError: bad weather\n")) == "RuntimeError: bad weather"


def test_code_without_a_file_is_empty():
    assert code_hash(type("Made", (), {"__module__": "nowhere"})) == ""
    assert code_hash(int) == ""


def test_no_run_at_all_is_no_success(tmp_path):
    with pytest.raises(DataError, match="nothing to run"):
        run_all([], store=Store(tmp_path))


@pytest.mark.usefixtures("toys")
def test_a_run_of_its_own_process_gives_the_same_bits_as_one_here(tmp_path):
    here = run("toy-count", **DATA, parameters={"noise": 5.0}, seed=2, store=tmp_path / "here", isolate=False)
    there = run("toy-count", **DATA, parameters={"noise": 5.0}, seed=2, store=tmp_path / "there")
    assert [result.key for result in there] == [result.key for result in here]
    assert tables(tmp_path / "here") == tables(tmp_path / "there")
    assert len(tables(tmp_path / "here")) == 4


@pytest.mark.usefixtures("toys")
def test_the_memory_of_a_run_is_its_own_and_not_that_of_the_process_that_started_it(tmp_path):
    held = np.ones(300 * 2**20 // 8)  # 300 MB here are no business of the run's
    (small,) = run("toy-count", **DATA, protocols=["ranking"], store=tmp_path)
    (large,) = run("toy-large", **DATA, protocols=["ranking"], store=tmp_path)
    assert held[0] == 1
    # np.ones of 200 MB and nothing else stands between the two
    assert 180 < large.memory["fit"] - small.memory["fit"] < 220
    assert small.memory["peak"] < 300


@pytest.mark.usefixtures("toys")
def test_a_failed_run_is_kept_with_its_error_and_tried_again(tmp_path):
    mended = tmp_path / "mended"
    asked = {"parameters": {"needs": str(mended)}, "store": tmp_path / "kept", "isolate": False}
    failed = run("toy-broken", **DATA, **asked)
    assert {result.status for result in failed} == {"failed"}
    assert failed[0].error.endswith("RuntimeError: the weather is bad\n")
    assert len(load_failures(tmp_path / "kept")) == 2
    mended.touch()
    assert {result.status for result in run("toy-broken", **DATA, **asked)} == {"done"}
    assert load_failures(tmp_path / "kept") == []


@pytest.mark.usefixtures("toys")
def test_a_process_that_is_killed_is_a_failed_run(tmp_path):
    results = run("toy-killed", **DATA, store=tmp_path)
    assert [result.error for result in results] == ["its process was killed by SIGKILL, perhaps out of memory"] * 2
    assert len(load_failures(tmp_path)) == 2


@pytest.mark.usefixtures("toys")
def test_runs_of_a_module_share_what_it_imports_and_nothing_else(tmp_path):
    homes = write_homes(source := make_source("wyze-synthetic", **HOMES), tmp_path)
    templates = []

    def one(method, threads=1):
        asked = make_experiment(method, source, parameters={}, options={}, protocols=["ranking"])
        (result,) = workers.run(asked, homes, store=Store(tmp_path / "kept"), threads=threads)
        templates.append([template.process.pid for template in workers._idle])
        return result

    with Workers() as workers:
        small, killed, large, again = map(one, ("toy-count", "toy-killed", "toy-large", "toy-log-odds"))
        assert (killed.status, large.status, again.status) == ("failed", "done", "done")
        assert again.memory["fit"] < large.memory["fit"] - 180  # a fork of what was imported, not of the large run
        assert templates == [templates[0]] * 4
        assert len(templates[0]) == 1
        one("toy-threads", threads=2)
        assert len(templates[-1]) == 2
        dead = workers._idle[0].process
        dead.kill()  # as the system does when memory is short
        dead.wait()
        assert one("toy-count").status == "done"
        assert dead.pid not in templates[-1]
    assert small.status == "done"
    assert workers._idle == []


def test_methods_that_need_the_same_libraries_share_a_process_until_its_code_is_edited(tmp_path, edited, monkeypatch):
    homes = write_homes(source := make_source("wyze-synthetic", **HOMES), tmp_path)
    monkeypatch.setattr("benchmarks.runs.workers.libraries_of", lambda _: frozenset())

    def process_of(method):
        asked = make_experiment(method, source, parameters={}, options={}, protocols=["ranking"])
        (result,) = workers.run(asked, homes, store=Store(tmp_path / "kept"), threads=1)
        assert result.status == "done"
        return workers._idle[-1].process.pid

    with Workers() as workers:
        both = {process_of(method) for method in ("popularity", "edited")}
        edited("'edited'")
        assert len(both) == 1
        assert process_of("popularity") not in both


def test_methods_with_compiled_loops_take_turns_in_their_first_runs_and_nobody_waits():
    pytest.importorskip("numba", reason="compiled methods need the extra graph")
    source = make_source("wyze-synthetic", **HOMES)
    methods = ("fedrule", "fedgnn", "ease", "graphrank", "fedrule")
    asked = [make_experiment(name, source, parameters={}, options={}, seed=n) for n, name in enumerate(methods)]
    turns = Turns([(each, Path()) for each in asked])

    with ExitStack() as second:
        with turns.take() as (one, _), turns.take() as (other, _):
            assert (one, other) == (asked[0], asked[2])  # fedgnn would compile what fedrule is compiling
            assert second.enter_context(turns.take())[0] == asked[1]  # unless nothing else is left
        with turns.take() as (after, _), turns.take() as (last, _):
            assert (after, last) == (asked[3], asked[4])  # what fedrule needs has been compiled


@pytest.mark.usefixtures("toys")
def test_more_processes_than_are_worth_keeping_are_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.runs.workers.MOST_IDLE", 0)
    source = make_source("wyze-synthetic", **HOMES)
    asked = make_experiment("toy-count", source, parameters={}, options={}, protocols=["ranking"])
    with Workers() as workers:
        (result,) = workers.run(asked, write_homes(source, tmp_path), store=Store(tmp_path / "kept"), threads=1)
        assert (result.status, workers._idle, workers._running) == ("done", [], {})


@pytest.mark.usefixtures("toys")
def test_many_runs_go_on_after_one_that_fails_and_start_where_they_stopped(tmp_path):
    homes = make_source("wyze-synthetic", **HOMES)
    asked = [
        make_experiment(method, homes, parameters={}, options={}, seed=seed, protocols=["ranking"])
        for method in ("toy-broken", "toy-count")
        for seed in (0, 1)
    ]
    first = run_all(asked, store=Store(tmp_path), jobs=2)
    assert (first.made, len(first.failed), len(first.finished)) == (2, 2, 2)
    second = run_all(asked, store=Store(tmp_path))
    assert (second.made, len(second.failed), len(second.finished)) == (0, 2, 2)


@pytest.mark.usefixtures("toys")
def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path):
    asked = make_experiment("toy-count", make_source("wyze-synthetic", **HOMES), parameters={}, options={})
    store = Store(tmp_path)
    key = asked.keys(asked.source.fingerprint())["ranking"]
    with store.claim(key):
        outcome = run_all([asked], store=store)
    assert outcome.elsewhere == ["toy-count on wyze-synthetic (types, holdout), seed 0"]
    assert load_results(tmp_path) == []


@pytest.mark.usefixtures("toys")
def test_two_processes_on_one_folder_make_every_run_once_and_lose_none(tmp_path):
    program = (
        "import tests.support.toy_methods; from pathlib import Path; from benchmarks.runs.scheduler import run_all\n"
        "from benchmarks.runs.experiment import make_experiment, make_source\n"
        "from benchmarks.results.store import Store\n"
        "homes = make_source('wyze-synthetic', options={'homes': 80})\n"
        "asked = [make_experiment('toy-count', homes, parameters={}, options={}, seed=s) for s in range(3)]\n"
        f"print(run_all(asked, store=Store(Path({str(tmp_path)!r}))).made)"
    )
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [int(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(made) == 6
    assert len(load_results(tmp_path)) == 6
    assert load_failures(tmp_path) == []


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"method": "toy-cuont"}, "unknown method 'toy-cuont'; did you mean 'toy-count'"),
        ({"data": "wyze-sinthetic"}, "did you mean 'wyze-synthetic'"),
        ({"data_options": {"hoems": 3}}, "unknown option of wyze-synthetic 'hoems'; did you mean 'homes'"),
        ({"data_options": {"homes": "3"}}, "wyze-synthetic homes='3': expected int"),
        ({"parameters": {"nosie": 3}}, "unknown parameter of toy-count 'nosie'; did you mean 'noise'"),
        ({"parameters": {"rounds": 2.5}}, "toy-count.rounds=2.5: expected int"),
        ({"track": "type"}, "unknown track 'type'; did you mean 'types'"),
        ({"split": "hold_out"}, "did you mean 'holdout'"),
        ({"split_options": {"validation": True}}, "unknown option of holdout 'validation'"),
        ({"protocols": ["rank"]}, "unknown protocol 'rank'; did you mean 'ranking'"),
        ({"protocols": []}, "no protocol; name one of"),
        ({"seed": -1}, "seed must be 0 or more, got -1"),
    ],
)
@pytest.mark.usefixtures("toys")
def test_a_wrong_name_or_setting_is_an_error_before_anything_runs(tmp_path, wrong, complaint):
    asked = {"method": "toy-count", **DATA, "store": tmp_path, "isolate": False, **wrong}
    with pytest.raises(DataError) as error:
        run(asked.pop("method"), asked.pop("data"), **asked)
    assert complaint in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("toys")
def test_a_whole_number_for_a_float_is_the_same_run():
    homes = make_source("wyze-synthetic", **HOMES)
    one, two = (make_experiment("toy-count", homes, parameters={"noise": n}, options={}) for n in (1, 1.0))
    assert one.keys("f")["paper"].hash == two.keys("f")["paper"].hash


def test_a_process_of_one_thread_says_so_to_every_library():
    program = (
        "from datasets.common.environment import set_threads\n"
        "set_threads(1)\n"
        "import numpy, scipy.linalg, threadpoolctl\n"
        "print({pool['num_threads'] for pool in threadpoolctl.threadpool_info()})"
    )
    pytest.importorskip("threadpoolctl", reason="comes with scikit-learn")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "{1}\n"


def test_threads_are_set_for_libraries_that_are_loaded_already():
    torch = pytest.importorskip("torch", reason="needs the extra graph")
    variables = {name: os.environ.get(name) for name in thread_variables(1)}
    before = torch.get_num_threads()
    try:
        set_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
        for name, value in variables.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def test_less_than_one_thread_is_refused():
    with pytest.raises(DataError, match="threads 0: use 1"):
        thread_variables(0)


def test_the_environment_of_this_process_is_plausible():
    assert versions()["numpy"] == np.__version__
    assert peak_megabytes() > 10
    assert commit() == "" or len(commit().split()[0]) == 40


def test_runs_are_forked_from_a_process_that_has_loaded_torch_where_the_method_needs_it():
    pytest.importorskip("torch", reason="needs the extra graph")
    program = (
        "import sys\n"
        "from benchmarks.runs.workers import _load_late_parts, libraries_of\n"
        "_load_late_parts(libraries_of('popularity'))\n"
        "assert 'torch' not in sys.modules\n"
        "_load_late_parts(libraries_of('fedgnn'))\n"  # its module imports torch on first use
        "assert 'torch' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
