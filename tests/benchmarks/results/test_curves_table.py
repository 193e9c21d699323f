"""Histories of runs as one long table, on the screen and as CSV."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from baselines import registry
from benchmarks.__main__ import main
from benchmarks.results.curves import COLUMNS, METRICS, PARTS, curves_table
from benchmarks.results.leaderboard import boards
from benchmarks.results.store import load_results
from tests.support.toys import TOYS, toys

assert toys  # a fixture


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with runs of two protocols: two seeds with curves, and one without; tests only read it."""
    tmp_path = tmp_path_factory.mktemp("curves")
    path = tmp_path / "mine.toml"
    path.write_text(
        "methods = ['toy-log-odds']\nseeds = 2\n[[data]]\nname = 'wyze-synthetic'\noptions = { homes = 80 }\n"
    )
    folder = tmp_path / "kept"
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(registry._METHODS, "toy-log-odds", TOYS["toy-log-odds"])
        assert main(["run", str(path), "--curves", "2", "--quiet", "--results", str(folder)]) == 0
        assert main(["run", str(path), "--seeds", "1", "--quiet", "--results", str(folder)]) == 0
    return folder


def test_the_table_of_histories_has_a_row_per_fit_round_part_and_metric(kept, capsys):
    capsys.readouterr()
    assert main(["curves", "--results", str(kept)]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert tuple(table.columns) == COLUMNS
    own = table["part"] == "method"
    # With curves 2 seeds x 3 rounds (1, 2 and the last) x 9 curves; the method's own loss in 3 rounds of 3 fits.
    assert (len(table[~own]), len(table[own])) == (2 * 3 * 9, 3 * 3)
    assert not table.duplicated(["run", "round", "part", "metric"]).any()
    assert set(zip(table["part"], table["metric"], strict=True)) == {
        ("method", "loss"),
        *((part, metric) for part in PARTS for metric in METRICS),
    }
    assert set(table["label"]) == {"toy-log-odds"}
    result = next(result for result in load_results(kept) if result.key.curves and result.key.seed == 1)
    chosen = table[
        (table["run"] == replace(result.key, protocol="").hash)
        & (table["round"] == 2)
        & (table["part"] == "test")
        & (table["metric"] == "auc")
    ]
    assert chosen["value"].tolist() == [pytest.approx(result.history[1]["test_auc"])]


def test_the_table_is_written_to_a_csv_file_with_the_settings_of_each_run_in_a_second_one(kept, tmp_path, capsys):
    out = tmp_path / "curves.csv"
    assert main(["curves", "--results", str(kept), "--out", str(out)]) == 0
    runs = tmp_path / "curves.runs.csv"
    assert capsys.readouterr().out == f"63 rows in {out}\n3 rows in {runs}\n"
    assert set(pd.read_csv(out)["run"]) == set(pd.read_csv(runs)["run"])
    assert {json.loads(text)["noise"] for text in pd.read_csv(runs)["parameters"]} == {0.1}
    assert sorted(pd.read_csv(runs)["curves"]) == [0, 2, 2]
    assert main(["curves", "--results", str(kept), "--out", str(tmp_path / "curves.png")]) == 1
    assert "curves are written as CSV" in capsys.readouterr().err
    assert main(["curves", "--results", str(kept), "--data", "wyze-sinthetic"]) == 1
    assert "did you mean 'wyze-synthetic'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", "smoke", "--curves", "-1"])
    assert "expected a whole number, 0 or more, got '-1'" in capsys.readouterr().err


def test_results_without_a_history_are_answered_with_how_to_get_one(kept, tmp_path, capsys):
    results = load_results(kept)
    assert curves_table([replace(result, history=[]) for result in results]).empty
    emptied = shutil.copytree(kept, tmp_path / "emptied")
    for path in emptied.glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "history": []}))
    assert main(["curves", "--results", str(emptied)]) == 1
    assert "no run here has a history" in capsys.readouterr().err


def test_runs_with_curves_stand_in_lists_of_their_own_which_say_so(kept, capsys):
    titles = [board.title for board in boards(load_results(kept))]
    apart = [title for title in titles if title.endswith(", fitted without validation rules for curves every 2")]
    assert (len(titles), len(apart)) == (4, 2)
    capsys.readouterr()
    assert main(["leaderboard", "--results", str(kept)]) == 0
    assert capsys.readouterr().out.count("By round, on train, validation and test: `python -m benchmarks curves`") == 2
