"""`python -m benchmarks`, as people type it."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from baselines import registry
from benchmarks.__main__ import main
from benchmarks.commands.board import show_board
from benchmarks.results.leaderboard import Board
from benchmarks.results.records import Confirmation, Trial
from benchmarks.results.store import Result, Store, load_failures, load_results
from benchmarks.tune import StudyResult
from datasets.common import progress as module
from datasets.common.errors import DataError
from datasets.common.progress import progress
from tests.benchmarks.results.test_compare import keep
from tests.support.toys import toys

assert toys  # a fixture
pytestmark = pytest.mark.usefixtures("toys")

SUITE = """
methods = ["toy-count", { name = "toy-log-odds", sign = -1 }]
seeds = 2
[[data]]
name = "wyze-synthetic"
options = { homes = 500 }
"""


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SUITE)
    return str(path)


def run(suite, folder, *more):
    return main(["run", suite, "--results", str(folder), *more])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of packages that methods import
def test_list_has_a_line_for_every_method(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "toy-count: How often a relation occurs, with a little noise.\n" in out
    methods = [line.partition(":")[0].split()[0] for line in out.splitlines() if line.startswith("    ")]
    assert sorted(methods) == registry.names()


def test_list_groups_methods_by_formulation_and_marks_those_trained_in_the_homes(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("evidence ranking")
    assert [line.partition(":")[0] for line in lines[start + 1 : start + 3]] == [
        "    graphrank",
        "    fedrank (federated)",
    ]
    assert lines.index("other") < next(n for n, line in enumerate(lines) if line.startswith("    toy-count: "))


def test_show_says_where_a_method_is_trained_and_what_leaves_a_home(capsys):
    assert main(["show", "ease"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "    user-item, linear, all data in one place"
    assert main(["show", "fedrule"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "    graph neural network, federated; leaves a home: update of the network; all data in one place: graphrule"
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_list_says_which_extra_a_method_needs(capsys, monkeypatch):
    monkeypatch.setattr(registry, "missing_extra", lambda name: "graph" if name == "toy-count" else "")
    main(["list"])
    assert 'toy-count: needs the extra graph: pip install -c constraints.txt -e ".[graph]"\n' in capsys.readouterr().out


def test_show_has_what_the_module_says_and_the_numbers_of_papers(capsys):
    assert main(["show", "compgcn"]) == 0
    out = capsys.readouterr().out
    assert "    | " in out.splitlines()[2]
    assert "published, on other data: MRR (cut-off not known) 0.500, public Wyze data, central (a thesis" in out
    assert main(["show", "rotate"]) == 0
    assert "published, on other data: none on rules of homes that we know of" in capsys.readouterr().out


def test_show_has_type_default_meaning_and_range_of_every_parameter(capsys):
    assert main(["show", "toy-count"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("    |")] == [
        "toy-count: How often a relation occurs, with a little noise.",
        "    rounds: int = 3  how often it says that it is not done yet",
        "        tuned: int, 1 to 4",
        "    noise: float = 0.1  spread of what is added",
        "        tuned: log, 0.01 to 10.0",
        "    sign: float = 1.0  -1 recommends the rarest",
        "        tuned: choice, 1.0 or -1.0",
    ]


@pytest.mark.parametrize(
    ("method", "refused", "available"),
    [
        ("sagerank", "bias, context, encoder, evidence, heads, preset, self_loops, words", "min_count"),
        ("fedmf", "client_optimizer, delta, epsilon, local_steps, noise_multiplier", "clip"),
    ],
)
def test_show_lists_no_option_that_the_method_refuses(capsys, method, refused, available):
    assert main(["show", method]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"    not available for {method}: {refused}"
    listed = {line.partition(":")[0].strip() for line in lines[:-1] if not line.startswith("    |")}
    assert available in listed
    assert listed.isdisjoint(refused.split(", "))


@pytest.mark.parametrize("command", [["run", "smoke"], ["tune", "ease"]])
def test_published_results_are_not_written_to(capsys, command):
    assert main([*command, "--results", "published"]) != 0
    assert "published results are only shown; name a folder to write to" in capsys.readouterr().err


def test_run_makes_results_shows_the_lists_and_makes_none_twice(capsys, suite, tmp_path):
    folder = tmp_path / "kept"
    assert run(suite, folder, "--jobs", "2") == 0
    first = capsys.readouterr().out
    assert "wyze-synthetic, 500 homes, types, holdout, ranking: mean of 2 seeds, [95 % over homes and seeds]" in first
    assert "sd over seeds" in first
    assert "8 results made, 0 were there" in first
    assert run(suite, folder) == 0
    again = capsys.readouterr().out
    assert "0 results made, 8 were there" in again
    assert first.split("8 results")[0] == again.split("0 results")[0]

    assert main(["leaderboard", "--results", str(folder), "--protocol", "ranking", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert [row["method"] for row in json.loads(line)["rows"]] == ["toy-count", "toy-log-odds (sign=-1.0)"]

    assert main(["leaderboard", "--results", str(folder), "--protocol", "paper", "--metric", "loss"]) == 0
    shown = capsys.readouterr().out
    assert "calibrated" in shown
    assert "ranking" not in shown

    for metric, protocol in (("hr@10", "ranking"), ("auc_feasible", "paper")):  # of one protocol of the two
        assert main(["leaderboard", "--results", str(folder), "--metric", metric]) == 0
        shown = capsys.readouterr().out
        assert shown.count("95 % over homes and seeds") == 1
        assert f"holdout, {protocol}: " in shown
    assert "non-rules unanswered" in shown
    assert main(["leaderboard", "--results", str(folder), "--metric", "unanswered"]) == 1
    message = capsys.readouterr().err
    assert "unanswered has no value per home that methods could be ranked or compared by" in message
    assert "paper: auc, auc_feasible, loss, mr, mr_rt; ranking: hr@1, 'hr@1, all', " in message
    assert main(["compare", "toy-count", "toy-log-odds", "--results", str(folder), "--metric", "mr_home"]) == 0
    # The popular relations (toy-count) have the lower mean rank, which is the better one.
    assert "toy-count is better" in capsys.readouterr().out
    compared = ["compare", "toy-count", "toy-log-odds", "--results", str(folder), "--protocol", "ranking"]
    assert main(compared) == 0
    shown = capsys.readouterr().out
    assert shown.count("95 % over homes and seeds: ") == 3
    assert shown.count("toy-count is better") + shown.count("no significant difference") == 3  # it is two seeds only
    assert "Holm over the 3 shown here" in shown
    assert "2 seeds" in shown


def test_one_seed_is_called_a_single_run(capsys, suite, tmp_path):
    assert run(suite, tmp_path / "kept", "--seeds", "3,", "--methods", "toy-count") == 0
    shown = capsys.readouterr().out
    assert "ranking: single run, [95 % over homes only: one seed]" in shown
    assert re.search(r"\]\s+unknown\s", shown)  # its spread over seeds
    assert {result.key.seed for result in load_results(tmp_path / "kept")} == {3}


def test_settings_reach_the_runs(suite, tmp_path):
    settings = ["--set", "toy-count.noise=7", "--methods", "toy-count", "--seeds", "1"]
    assert run(suite, tmp_path / "kept", *settings) == 0
    assert {result.key.parameters["noise"] for result in load_results(tmp_path / "kept")} == {7.0}


def test_a_failed_run_is_named_and_the_exit_code_says_so(capsys, suite, tmp_path):
    assert run(suite, tmp_path / "kept", "--methods", "toy-broken,toy-count", "--seeds", "1") == 1
    out = capsys.readouterr().out
    assert (
        "failed: toy-broken on wyze-synthetic (types, holdout), ranking, seed 0: RuntimeError: the weather is bad"
        in out
    )
    assert "2 results made" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "smok"], "unknown suite 'smok'; did you mean 'smoke'?"),
        (["run", "smoke", "--set", "toy-count.nosie=1"], "did you mean 'noise'?"),
        (["run", "smoke", "--methods", "toy-cuont"], "did you mean 'toy-count'?"),
        (["run", "smoke", "--methods", "toy-count", "--set", "toy-large.megabytes=1"], "does not run toy-large"),
        (["show", "toy-cuont"], "did you mean 'toy-count'?"),
        (["check", "toy-cuont"], "did you mean 'toy-count'?"),
        (["check", "toy-count", "--set", "toy-large.megabytes=1"], "`check toy-count` does not run toy-large"),
        (["tune", "toy-count", "--set", "toy-large.megabytes=1"], "`tune toy-count` does not tune toy-large"),
        (["tune", "toy-cuont"], "did you mean 'toy-count'?"),
        (["tune", "toy-count", "--suite", "smoke", "--track", "types"], "--track is what the suite smoke says"),
        (["tune", "toy-count", "--data", "ifttt-synthetic:hoems=3"], "did you mean 'homes'?"),
        (["tune", "toy-count", "--track", "type"], "did you mean 'types'?"),
        (
            ["leaderboard", "--results", "nowhere"],
            "nowhere has no results; `python -m benchmarks run smoke` makes some",
        ),
        (["compare", "a", "b", "--results", "nowhere"], "nowhere has no results"),
        (["--import", "no_such_module", "list"], "--import no_such_module: No module named 'no_such_module'"),
        (["list", "--import", "no_such_module"], "Modules are looked for in "),
    ],
)
def test_bad_input_is_one_message_and_no_traceback(capsys, tmp_path, monkeypatch, arguments, complaint):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    message = capsys.readouterr().err
    assert complaint in message
    assert "Traceback" not in message
    assert list(tmp_path.iterdir()) == []


def test_compare_names_the_settings_where_a_method_was_run_with_several(capsys, suite, tmp_path):
    folder = tmp_path / "kept"
    for noise in ("1", "2"):
        run(suite, folder, "--set", f"toy-count.noise={noise}", "--seeds", "1")
    capsys.readouterr()
    asked = ["--results", str(folder), "--protocol", "ranking", "--metric", "mrr"]
    assert main(["compare", "toy-count", "toy-log-odds", *asked]) == 1
    assert "name one of: 'toy-count (noise=1.0)', 'toy-count (noise=2.0)'" in capsys.readouterr().err
    assert main(["compare", "toy-count (noise=1.0)", "toy-log-odds", *asked]) == 0
    assert "single run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("a", "aa"), "unknown method 'aa'; did you mean 'a'? Known: a, b"),
        (("a", "a"), "a and a are the same runs; name two methods"),
        (("a", "toy-large"), "no data set has results of both a and toy-large"),
    ],
)
def test_compare_wants_two_methods_that_are_there(capsys, tmp_path, names, complaint):
    for method in ("a", "b"):
        keep(tmp_path, method, [0.1, 0.2])
    assert main(["compare", *names, "--results", str(tmp_path)]) == 1
    assert complaint in capsys.readouterr().err


def test_compare_names_a_data_set_where_a_name_is_unclear_and_compares_on_the_others(capsys, tmp_path):
    for track in ("types", "instances"):
        for method in ("a", "b"):
            keep(tmp_path, method, [0.1, 0.2], track=track, parameters={"size": 1})
    keep(tmp_path, "b", [0.1, 0.2], track="types", parameters={"size": 2})
    assert main(["compare", "a", "b", "--metric", "mrr", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "instances, holdout, ranking: mrr\n" in out
    assert "not compared: wyze-synthetic, 2 homes, types, holdout, ranking: b was run with several" in out


def test_compare_says_what_the_leaderboard_makes_of_the_same_difference(capsys, tmp_path):
    # Of 9 homes, b is better than a in 8: p is below 0.05, but above 0.05 / 7. The 21 pairs without b differ surely, by
    # the same in each home; the 7 pairs with b have about this p, which Holm multiplies by 7.
    gains = [0.0, 0.02, 0.05, 0.1, 0.01, 0.12, 0.02, 0.08, 0.03]
    keep(tmp_path, "b", [0.3 + gain for gain in gains])
    for i, name in enumerate("acdefgh"):
        keep(tmp_path, name, [0.3 - 0.0001 * i] * 9)
    assert main(["compare", "b", "a", "--results", str(tmp_path), "--metric", "mrr"]) == 0
    out = capsys.readouterr().out
    assert "b is better" in out
    assert "on the leaderboard, as one of 28 pairs of the list: not told apart" in out


def test_a_metric_is_that_of_the_headline_where_a_list_has_no_other_and_the_rest_is_left_out(capsys, tmp_path, caplog):
    keep(tmp_path, "a", [0.1, 0.2], track="types", metric="recall@10")
    keep(tmp_path, "a", [0.1, 0.2], track="instances", metric="map")
    assert main(["leaderboard", "--results", str(tmp_path), "--metric", "map"]) == 0
    assert "instances, holdout, ranking" in (out := capsys.readouterr().out)
    assert "types, holdout, ranking" not in out
    assert "left out, without map per home: wyze-synthetic, 2 homes, types" in caplog.text


@pytest.mark.parametrize(
    ("selection", "complaint"),
    [
        (["--data", "wyze-synthetic:homes=9"], None),
        (["--data", "wyze-synthetic:homes=8"], "has no results of wyze-synthetic:homes=8 together"),
        (["--data", "wyze-synthetic", "--track", "instances"], "has no results of wyze-synthetic, instances together"),
        (["--data", "wyze-synthetic:homes"], "homes has no value; write NAME:KEY=VALUE"),
        (["--data", "wyze-syntetic:homes=9"], "did you mean 'wyze-synthetic'?"),
    ],
)
def test_lists_are_selected_by_data_and_its_options(capsys, tmp_path, selection, complaint):
    keep(tmp_path, "a", [0.1, 0.2], data_options={"homes": 9})
    keep(tmp_path, "a", [0.1, 0.2], data="ifttt-synthetic", track="instances")
    assert main(["leaderboard", "--results", str(tmp_path), *selection]) == (1 if complaint else 0)
    said = capsys.readouterr()
    assert (complaint or "wyze-synthetic, 2 homes") in (said.err if complaint else said.out)


def test_a_list_names_the_runs_that_failed(capsys, tmp_path):
    made = keep(tmp_path, "a", [0.1])
    for method, seed in (("raises", 0), ("raises", 1), ("wrong", 0)):
        Store(tmp_path).fail(Result(replace(made.key, method=method, seed=seed), warnings=(), error="no"))
    assert main(["leaderboard", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "not shown: 3 failed runs: raises, wrong"
    assert main(["leaderboard", "--results", str(tmp_path), "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1  # nothing but lists


def test_a_list_says_how_many_of_the_hidden_rules_are_unanswered_and_whose_log_odds_are_used(capsys):
    summary = {"auc": 0.5, "unanswered": 22.0, "hidden": 580.0}
    row = {"method": "a", "low": 0.4, "high": 0.6, "sd over seeds": math.nan, "seeds": 1, "status": ""}
    table = pd.DataFrame([row | {"calibrated": False} | summary])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("benchmarks.commands.board.leaderboard", lambda *_: table)
        show_board(Board("somewhere", "paper", ()), "auc")
    last = capsys.readouterr().out.splitlines()[-1]
    assert "22 of 580" in last
    assert "own" in last


def test_list_survives_a_method_that_cannot_be_imported(capsys, monkeypatch):
    def summary(name):
        if name == "toy-count":
            raise DataError("its module is broken")
        return "fine"

    monkeypatch.setattr(registry, "summary", summary)
    assert main(["list"]) == 0
    assert "toy-count: cannot be imported: its module is broken\n" in capsys.readouterr().out


def test_list_imports_nothing_that_makes_runs():
    code = "import sys; from benchmarks.__main__ import main; main(['list']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *listed, modules = done.stdout.splitlines()
    assert any(line.startswith("    popularity: ") for line in listed)
    assert [name for name in modules.split() if name.startswith("benchmarks.runs")] == []


@pytest.mark.parametrize("seeds", ["x", "0", ",", "1,x", "-1"])
def test_seeds_that_are_none_are_refused_in_words(capsys, seeds):
    with pytest.raises(SystemExit):
        main(["run", "smoke", f"--seeds={seeds}"])
    message = capsys.readouterr().err
    assert f"argument --seeds: expected a number of seeds (5) or a list (3,4 or 3,), got {seeds!r}" in message
    assert "_seeds" not in message


def test_a_reader_that_has_seen_enough_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "benchmarks", "show", "popularity"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_check_says_in_words_what_a_method_does_wrong(capsys):
    assert main(["check", "toy-broken"]) == 1
    out = capsys.readouterr().out
    assert "the weather is bad" in out
    assert "problems" in out


def test_tune_says_how_to_set_what_it_found(capsys, tmp_path):
    pytest.importorskip("optuna", reason="needs the extra tune")
    asked = ["tune", "toy-count", "--trials", "4", "--data", "wyze-synthetic:homes=80", "--results", str(tmp_path)]
    assert main([*asked, "--set", "toy-count.rounds=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("toy-count: validation mrr 0.")
    assert lines[-1].startswith("python -m benchmarks run default --methods toy-count --set toy-count.rounds=2")
    (path,) = tmp_path.rglob("*.json")
    assert json.loads(path.read_text())["seeds"] == [100]  # 0, 1, 2, ... are reported


def test_tune_counts_its_seeds_from_100_on_and_takes_those_named(capsys, tmp_path, monkeypatch):
    seeds = []

    def watch(study, trials, **more):
        seeds.append((study.seeds, study.confirm_seeds))
        failed = Trial({}, None, [], 0.0, "no")
        trials = [replace(failed, value=0.0) for _ in range(trials)]
        return StudyResult(study.method, trials, None, more["store"].folder)

    monkeypatch.setattr("benchmarks.commands.tune.tune", watch)
    for asked in ("2", "107,108"):
        assert main(["tune", "toy-count", "--trials", "1", "--seeds", asked, "--results", str(tmp_path)]) == 0
    assert seeds == [((100, 101), (102, 103)), ((107, 108), (109, 110))]
    assert "validation mrr 0.0000, defaults 0.0000" in capsys.readouterr().out


def test_of_several_methods_one_that_always_fails_is_said_to_and_the_others_are_shown(capsys, tmp_path, monkeypatch):
    def found(studies, trials, **more):
        for study in studies:
            value = None if study.method == "ease" else 0.5
            yield StudyResult(study.method, [Trial({}, value, [], 0.0, "no")] * trials, None, more["store"].folder)

    monkeypatch.setattr("benchmarks.commands.tune.tune_all", found)
    arguments = ["tune", "ease,popularity", "--trials", "1", "--data", "wyze-synthetic:homes=9"]
    assert main([*arguments, "--results", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "failed: ease: every trial failed, the last with: no" in said
    assert "popularity: validation mrr 0.5000" in said


def test_settings_that_were_not_confirmed_are_not_offered(capsys, tmp_path, monkeypatch):
    def found(study, trials, **more):
        del trials
        usual, best = Trial({}, 0.5, [0.5], 0.0), Trial({"noise": 1.0}, 0.6, [0.6], 0.0)
        again = Confirmation(replace(usual, value=0.55), replace(best, value=0.54))
        return StudyResult(study.method, [usual, best], again, more["store"].folder)

    monkeypatch.setattr("benchmarks.commands.tune.tune", found)
    assert main(["tune", "toy-count", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "seeds 101, 102): 0.5400, defaults 0.5500; not better there: keep the defaults" in said
    assert "--set" not in said


def test_tune_takes_the_data_and_splits_of_a_suite(tmp_path, monkeypatch):
    studies = []

    def watch(study, trials, **more):
        studies.append(study)
        return StudyResult(study.method, [Trial({}, 0.5, [0.5], 0.0)] * trials, None, more["store"].folder)

    suite = tmp_path / "two.toml"
    suite.write_text(
        '[[data]]\nname = "wyze-synthetic"\noptions = { homes = 9 }\n'
        '[[data]]\nname = "ifttt-synthetic"\ntrack = "instances"\nsplit = "leave_one_out"\n'
    )
    monkeypatch.setattr("benchmarks.commands.tune.tune", watch)
    assert main(["tune", "toy-count", "--trials", "1", "--suite", str(suite), "--results", str(tmp_path)]) == 0
    (study,) = studies
    assert [(each.source.data, each.source.track, each.split) for each in study.data] == [
        ("wyze-synthetic", "types", "holdout"),
        ("ifttt-synthetic", "instances", "leave_one_out"),
    ]
    assert study.data[0].source.options["homes"] == 9


def test_what_could_not_be_measured_is_null_in_json(capsys, tmp_path):
    for method in ("a", "b"):
        keep(tmp_path, method, [0.1, 0.2])  # without seconds, memory and most of the columns
    assert main(["leaderboard", "--results", str(tmp_path), "--json"]) == 0

    def refuse(constant):
        raise AssertionError(constant)

    rows = json.loads(capsys.readouterr().out, parse_constant=refuse)["rows"]
    assert [row["fit s"] for row in rows] == [None, None]


def test_a_list_of_runs_from_two_commits_says_so(capsys, tmp_path):
    keep(tmp_path, "a", [0.1], commit="c1")
    keep(tmp_path, "b", [0.1], commit="c2")
    assert main(["leaderboard", "--results", str(tmp_path)]) == 0
    said = "warning: the runs differ in commit: c1, c2; `python -m benchmarks reproduce` tells whether that matters\n"
    assert said in capsys.readouterr().out


def test_ctrl_c_loses_only_the_run_under_way_and_says_so(suite, tmp_path):
    folder = tmp_path / "kept"
    command = [sys.executable, "-m", "benchmarks", "--import", "tests.support.toy_methods", "run", suite]
    command += ["--methods", "toy-count,toy-slow", "--seeds", "1", "--results", str(folder)]
    started = tmp_path / "started"
    environment = os.environ | {"TOY_SLOW_STARTED": str(started)}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        while not started.exists():
            assert process.poll() is None
            time.sleep(0.1)
        assert len(load_results(folder)) == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert "Stopped. Finished runs are stored, a running one is lost" in err
    assert "Traceback" not in err + out
    assert {result.key.method for result in load_results(folder)} == {"toy-count"}
    assert load_failures(folder) == []
    assert not list(folder.glob(".*"))


def test_a_module_of_yours_joins_by_its_name(tmp_path):
    (tmp_path / "my_methods.py").write_text(
        "from dataclasses import dataclass\n"
        "from baselines.registry import register\n"
        "from tests.support.toy_methods import Count\n"
        "@register('mine')\n@dataclass(frozen=True)\nclass Mine(Count):\n    '''My own method.'''\n"
    )
    (tmp_path / "mine.toml").write_text(SUITE)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path.cwd())])}
    command = [sys.executable, "-m", "benchmarks", "run", str(tmp_path / "mine.toml"), "--import", "my_methods"]
    command += ["--methods", "mine", "--seeds", "1", "--results", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar where nobody watches
    assert {result.key.method for result in load_results(tmp_path / "kept")} == {"mine"}


def test_without_a_terminal_the_log_has_a_line_now_and_then_with_the_time_left(caplog, monkeypatch):
    seconds = iter([0, 30, 60, 70, 3780])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(seconds))
    caplog.set_level("INFO")
    with progress(40, "run") as bar:
        for _ in range(4):
            bar.step()
    # After 60 s two of 40 are done: 30 s each, 38 left. After 3,780 s four: 945 s each, 36 left, 9 h 27 min.
    assert caplog.messages == ["2 of 40 runs, 01:00, about 19:00 left", "4 of 40 runs, 1:03:00, about 9:27:00 left"]
    seconds = iter([0, 60])
    caplog.clear()
    with progress(None, " homes") as bar:
        bar.step(12_345)
    assert caplog.messages == ["12,345 homes, 01:00"]
    seconds = iter([])
    with progress(2, "run", quiet=True) as bar:
        bar.step()


def test_a_bar_is_drawn_on_a_terminal_only_and_not_when_quiet(capsys, monkeypatch):
    def work(quiet):
        with progress(2, "run", quiet=quiet) as bar:
            bar.note("toy-count")
            bar.step()
            bar.step()
        return capsys.readouterr().err

    assert work(quiet=False) == ""
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True, raising=False)
    assert work(quiet=True) == ""
    drawn = work(quiet=False)
    assert "2/2" in drawn
    assert "toy-count" in drawn
