"""Other tools: a split leaves as tables, rank lists come back, and are measured like a method that gave them."""

from __future__ import annotations

import pandas as pd
import pytest

import datasets
from baselines.registry import build
from benchmarks.__main__ import main
from benchmarks.evaluation import evaluate
from benchmarks.results.leaderboard import boards
from benchmarks.results.store import load_results
from datasets.common.random import Stream, generator
from datasets.splits import split
from tests.support.rank_lists import best_rules, write_rank_lists

DATA = ["--data", "wyze-synthetic:homes=80"]


@pytest.fixture(scope="module")
def parts():
    return split(datasets.load("wyze-synthetic", homes=80).merged_types(), "holdout", seed=0)


def test_a_stranger_can_export_a_split_rank_by_its_tables_and_have_the_list_evaluated(tmp_path, capsys, parts):
    out, results = tmp_path / "split", tmp_path / "results"
    assert main(["export-split", str(out), *DATA]) == 0
    assert "says how to evaluate the lists" in capsys.readouterr().out
    command = next(line.strip() for line in (out / "README.md").read_text().splitlines() if line.startswith("    "))
    train, known = pd.read_csv(out / "train/rules.csv"), pd.read_csv(out / "test/rules.csv")
    devices, relations = pd.read_csv(out / "test/devices.csv"), pd.read_csv(out / "relations.csv")
    assert (len(train), len(relations)) == (parts.train.n_rules, len(parts.train.relations))
    # The list: for each home the relation that most rules have, between every ordered pair of its devices.
    commonest = train.groupby(["trigger_state", "action"]).size().sort_values(ascending=False).index[0]
    pairs = devices.merge(devices, on="user").query("device_x != device_y")
    lists = pairs.rename(columns={"device_x": "trigger_device", "device_y": "action_device"})
    lists[["trigger_state", "action"]] = commonest
    keys = ["user", "trigger_device", "trigger_state", "action", "action_device"]
    lists = lists[keys].merge(known[keys], how="left", indicator=True).query("_merge == 'left_only'")[keys]
    lists["rank"] = lists.groupby("user").cumcount() + 1
    lists.to_csv(tmp_path / "lists.csv", index=False)
    words = command.replace("lists.csv", str(tmp_path / "lists.csv")).replace("TOOL", "commonest").split()
    assert words[:4] == ["python", "-m", "benchmarks", "evaluate"]
    assert main([*words[3:], "--results", str(results)]) == 0
    shown = capsys.readouterr().out
    assert "wyze-synthetic, 80 homes, types, holdout, ranking: single run" in shown
    assert f"stored in {results}" in shown
    (board,) = boards(load_results(results))
    assert board.methods() == ["commonest"]


def test_an_exported_split_has_its_options(tmp_path, capsys):
    out, how = tmp_path / "split", ["--split", "holdout:min_pair_count=3"]
    assert main(["export-split", str(out), *DATA, *how]) == 0
    train, relations = pd.read_csv(out / "train/rules.csv"), pd.read_csv(out / "relations.csv")
    count = train.groupby(["trigger_state", "action"]).size()
    assert count.min() >= 3
    assert set(count.index) == set(relations.itertuples(index=False, name=None))
    assert "--split holdout:min_pair_count=3 --seed 0" in (out / "README.md").read_text()
    assert main(["export-split", str(out), *DATA, "--split", "holdout:fracton=3"]) == 1
    assert "unknown option of holdout 'fracton'; did you mean 'fraction'" in capsys.readouterr().err


def test_an_exported_split_of_single_devices_has_their_words(tmp_path):
    out = tmp_path / "split"
    assert main(["export-split", str(out), *DATA, "--track", "instances"]) == 0
    homes = datasets.load("wyze-synthetic", homes=80)
    assert len(pd.read_csv(out / "train/words.csv")) == len(homes.words)
    assert set(pd.read_csv(out / "test/words.csv")["user"]) <= set(pd.read_csv(out / "test/devices.csv")["user"])
    assert "`words.csv` in both, if there are any" in (out / "README.md").read_text()


def test_the_lists_of_a_method_measure_like_the_method_and_stand_beside_it(tmp_path, capsys, parts):
    fitted = build("popularity").fit(parts.train, rng=generator(Stream.FITTING, 0))
    path, results = tmp_path / "ours.parquet", tmp_path / "results"
    write_rank_lists(*best_rules(fitted, parts, n=1000), path)
    assert main(["evaluate", str(path), *DATA, "--results", str(results)]) == 0
    (listed,) = load_results(results)
    assert (listed.key.method, listed.key.parameters, listed.suite) == ("ours", {}, "")
    # Lists break ties in the order of candidates, the method shares their average: on the mean they are near.
    expected = evaluate(fitted, parts).summary
    assert listed.summary["hidden"] == expected["hidden"]
    assert listed.summary["mrr"] == pytest.approx(expected["mrr"], abs=0.05)
    suite = tmp_path / "mine.toml"
    suite.write_text(
        "methods = ['popularity']\nseeds = 1\nprotocols = ['ranking']\n"
        "[[data]]\nname = 'wyze-synthetic'\noptions = { homes = 80 }\n"
    )
    assert main(["run", str(suite), "--quiet", "--results", str(results)]) == 0
    capsys.readouterr()
    assert main(["leaderboard", "--results", str(results)]) == 0
    assert {"ours", "popularity"} <= set(capsys.readouterr().out.split())


def test_without_results_nothing_is_stored_and_another_list_of_a_tool_replaces_the_former(tmp_path, monkeypatch, parts):
    monkeypatch.chdir(tmp_path)
    fitted = build("popularity").fit(parts.train, rng=generator(Stream.FITTING, 0))
    for n in (5, 50):
        write_rank_lists(*best_rules(fitted, parts, n=n), tmp_path / f"{n}.csv")
    assert main(["evaluate", "5.csv", *DATA]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"5.csv", "50.csv"}
    for n in (5, 50):
        assert main(["evaluate", f"{n}.csv", *DATA, "--name", "tool", "--results", "kept"]) == 0
    (result,) = load_results("kept")
    assert result.summary["hr@50"] >= result.summary["hr@5"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--name", "ease"], "--name ease: this is one of our methods; choose another name"),
        (["--split", "holdoud"], "did you mean 'holdout'"),
        (["--seed", "-1"], "--seed must be 0 or more, got -1"),
        (["--data", "wyze-sinthetic"], "did you mean 'wyze-synthetic'"),
        (["--data", "wyze-synthetic:hoems=3"], "did you mean 'homes'"),
        ([], "lists.csv: no column trigger_device, action_device, trigger_state, action, rank"),
    ],
)
def test_wrong_input_is_one_message(tmp_path, capsys, arguments, complaint):
    (tmp_path / "lists.csv").write_text("user\n1\n")
    assert main(["evaluate", str(tmp_path / "lists.csv"), *DATA, *arguments]) == 1
    error = capsys.readouterr().err
    assert complaint in error
    assert "Traceback" not in error


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path / "nothing.csv"), *DATA]) == 1
    assert "nothing.csv" in capsys.readouterr().err
