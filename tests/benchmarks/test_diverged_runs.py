"""Runs of real training that diverge are marked wherever their numbers are shown, and others are not."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="federated training needs the extra graph")
pytest.importorskip("torch_geometric", reason="federated training needs the extra graph")
pytest.importorskip("numba", reason="federated training needs the extra graph")
pytest.importorskip("matplotlib", reason="figures need the extra report")
pytest.importorskip("jinja2", reason="the page needs the extra report")

from benchmarks.__main__ import main
from benchmarks.results.store import Store, load_results
from benchmarks.runs.experiment import SplitSource, make_source
from benchmarks.tune import Study, StudyResult, tune
from datasets.common.errors import DataError
from fedrule.commands.show import _lines
from fedrule.commands.train import _summary
from fedrule.models.train import train
from reports.docs import docs_files
from reports.inputs import Inputs
from reports.outputs import chosen_outputs
from reports.site import site
from reports.text.formats import as_csv, as_markdown
from tests.support.seen import panels
from tests.support.single_run import run

SUITE = """
methods = [{ name = "fedrule", learning_rate = 100.0, rounds = 20 }, { name = "fedgnn", rounds = 2 }, "popularity"]
seeds = 2
protocols = ["ranking"]
[[data]]
name = "wyze-synthetic"
options = { homes = 20 }
"""
LABEL = "fedrule (rounds=20, learning_rate=100.0)"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of the results, and what `python -m benchmarks run` wrote."""
    folder = tmp_path_factory.mktemp("diverged")
    suite = folder / "mine.toml"
    suite.write_text(SUITE)
    command = [sys.executable, "-m", "benchmarks", "run", str(suite), "--results", str(folder / "results")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return folder / "results", done.stdout, done.stderr


@pytest.fixture(scope="module")
def inputs(made):
    return Inputs.read(made[0])


def test_the_result_of_a_run_that_diverged_says_in_which_round_and_the_others_say_nothing(made):
    for result in load_results(made[0]):
        kinds = [warning.kind for warning in result.warnings]
        assert kinds[:1] == (["diverged"] if result.key.method == "fedrule" else []), result.key
        if kinds:
            last = result.history[-1]
            assert (result.warnings[0].round, last["diverged"]) == (last["round"], 1.0)
            assert 1 < last["round"] < 20  # it had learned something, and rounds are missing


def test_run_has_a_line_for_each_run_that_diverged_and_counts_them_at_the_end(made):
    _, out, errors = made
    for seed in (0, 1):
        line = f"† {LABEL} on wyze-synthetic (types, holdout), seed {seed}: training diverged in round "
        assert line in errors
        assert line in out
    assert "† 2 of 6 results are of a training that went wrong; see above.\n" in out
    assert "fedgnn on" not in errors


def test_the_leaderboard_has_a_sign_beside_the_number_and_counts_the_seeds_below(made, capsys):
    folder, out, _ = made
    assert main(["leaderboard", "--results", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.strip() in out
    for line in shown.splitlines():
        if line.strip().startswith(("1 ", "2 ", "3 ")):
            assert ("† [" in line) == (LABEL in line)
    (note,) = [line for line in shown.splitlines() if line.startswith("†")]
    assert note.startswith(f"† {LABEL}: 2 of 2 seeds diverged (seed 0, round ")
    assert "and count with their last good models" in note
    assert main(["leaderboard", "--results", str(folder), "--json"]) == 0
    rows = {row["method"]: row["status"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows[LABEL].startswith("2 of 2 seeds diverged")
    assert rows["popularity"] == rows["fedgnn (rounds=2)"] == ""


def test_a_comparison_with_a_run_that_diverged_says_so(made, capsys):
    command = ["compare", "--results", str(made[0]), "--metric", "mrr"]
    assert main([*command, "fedrule", "popularity"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("†") == 2  # beside the number, and the note
    assert f"    † {LABEL}: 2 of 2 seeds diverged" in shown
    assert main([*command, "fedgnn", "popularity"]) == 0
    assert "†" not in capsys.readouterr().out


def test_the_table_of_the_report_has_the_sign_and_a_column_for_programs(inputs):
    table = chosen_outputs(["leaderboard"])[0].make(inputs)
    rows = {row[1].text: row for row in table.rows}
    assert "† [" in rows[LABEL][3].text
    assert "†" not in rows["popularity"][3].text
    assert isinstance(rows[LABEL][3].value, float)
    assert table.about.notes[0].startswith(f"† {LABEL} on wyze-synthetic: 2 of 2 seeds diverged")
    header, *lines = as_csv(table).splitlines()
    assert header.endswith(",status")
    assert [line.endswith("last good models") or "2 of 2 seeds diverged" in line for line in lines] == [
        row[1].text == LABEL for row in table.rows
    ]
    assert as_markdown(table).count("†") == 1


def test_the_page_and_the_readme_show_the_sign_and_the_note(inputs, tmp_path):
    page = site(chosen_outputs(["leaderboard"]), inputs).files["index.html"].decode()
    assert f"† {LABEL} on wyze-synthetic: 2 of 2 seeds diverged" in page
    (tmp_path / "README.md").write_text("<!-- leaderboard: begin -->\n<!-- leaderboard: end -->\n")
    files = docs_files(inputs, tmp_path)
    for file, signs in (("README.md", 1), ("docs/report/leaderboard.md", 3)):  # MRR; and HR@10 and NDCG@10
        text = files[tmp_path / file].decode()
        (row,) = [line for line in text.splitlines() if line.startswith("| fedrule")]
        assert row.count("†") == signs
        assert "\n† fedrule (rounds=20, learning\\_rate=100.0) on wyze-synthetic: 2 of 2 seeds diverged" in text


def test_figures_and_captions_show_the_sign(inputs):
    for name in ("leaderboard-intervals", "time", "bytes"):
        drawing = chosen_outputs([name])[0].make(inputs)
        assert drawing.about.caption.endswith("."), name
        assert f"† {LABEL} on wyze-synthetic: 2 of 2 seeds diverged" in drawing.about.caption, name
        assert f"† {LABEL} on wyze-synthetic: 2 of 2 seeds diverged" in drawing.layout.note, name
        (axes,) = panels(drawing).values()
        hollow = [each for each in axes.lines if each.get_markerfacecolor() == "white"]
        assert len(hollow) == 1, name
    intervals = panels(chosen_outputs(["leaderboard-intervals"])[0].make(inputs))
    (axes,) = intervals.values()
    labels = [label.get_text().replace("\n", "") for label in axes.get_yticklabels()]
    assert [label for label in labels if "†" in label] == [label for label in labels if label.startswith("fedrule")]


def test_the_fit_for_a_calibration_is_not_forgotten(tmp_path):
    """Scores of a fit on feasible non-rules are no log-odds: a second fit calibrates them, and diverges as well."""
    parameters = {"learning_rate": 100.0, "rounds": 20, "non_rules": "feasible"}
    where = {"data_options": {"homes": 20}, "store": tmp_path, "isolate": False}
    (result,) = run("fedrule", "wyze-synthetic", parameters=parameters, protocols=["paper"], **where)
    texts = [warning.text for warning in result.warnings if warning.kind == "diverged"]
    assert len(texts) == 2
    assert texts[1].startswith("fit for the calibration: training diverged in round ")


def test_early_stopping_is_marked_with_the_rounds_that_were_not_run(tmp_path, capsys):
    parameters = {"rounds": 100, "learning_rate": 0.3, "validation": 0.2, "patience": 2}
    where = {"data_options": {"homes": 60}, "store": tmp_path, "isolate": False, "protocols": ["ranking"]}
    (result,) = run("graphrule", "wyze-synthetic", parameters=parameters, **where)
    (warning,) = result.warnings
    last = len(result.history)
    assert (warning.kind, warning.round, warning.count) == ("early stopping", last, 100 - last)
    assert result.history[-1]["early_stop"] == 1.0
    assert main(["leaderboard", "--results", str(tmp_path)]) == 0
    assert f": 1 of 1 seed stopped early (seed 0, round {last})\n" in capsys.readouterr().out


def test_clients_that_are_corrupted_on_purpose_are_counted_and_the_run_is_not_marked(tmp_path, capsys):
    where = {"data_options": {"homes": 20}, "store": tmp_path, "isolate": False, "protocols": ["ranking"]}
    (result,) = run("fedrule", "wyze-synthetic", parameters={"rounds": 3, "corrupted": 0.3}, **where)
    (warning,) = result.warnings
    assert (warning.kind, warning.marked) == ("few refused", False)
    assert warning.count == sum(row["corrupted"] for row in result.history) > 0
    assert main(["leaderboard", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "†" not in shown
    refused = f"few or simulated: fedrule (rounds=3, corrupted=0.3) {warning.count}"
    assert f"warning: updates that were NaN or infinite and refused, {refused}\n" in shown


def test_a_trial_that_diverged_is_never_chosen(tmp_path, caplog):
    pytest.importorskip("optuna", reason="needs the extra tune")
    homes = SplitSource(make_source("wyze-synthetic", options={"homes": 20}), "holdout", {"fraction": 0.2})
    fixed = {"learning_rate": 100.0, "rounds": 20, "server_rate": 0.03, "local_steps": 3}
    study = Study("fedrule", fixed, (homes,), (100,))
    with caplog.at_level(logging.WARNING):
        tuned = tune(study, 1, store=Store(tmp_path), quiet=True)
    (trial,) = tuned.trials
    assert trial.value is not None  # that of its last good model
    assert trial.warnings[0].startswith("wyze-synthetic, types, seed 100: training diverged in round ")
    assert "not to be chosen: fedrule {}: wyze-synthetic, types, seed 100: training diverged" in caplog.text
    with pytest.raises(
        DataError, match="every trial failed, the last with: wyze-synthetic, types, seed 100: training diverged"
    ):
        _ = tuned.best
    worse = replace(trial, parameters={"gnn_lambda": 0.0}, value=trial.value / 2, warnings=[])
    assert StudyResult("fedrule", [trial, worse], None, tuned.path).best is worse


def test_a_model_says_in_its_card_that_its_training_diverged(tmp_path):
    homes = make_source("wyze-synthetic", options={"homes": 20}).load()
    model = train(homes, "fedrule", options={"learning_rate": 100.0, "rounds": 20}, patience=0)
    (warning, *_) = model.card.trainings[-1].warnings
    assert warning.startswith("training diverged in round ")
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = type(model).load(path)
    assert again.card.trainings == model.card.trainings
    assert f"WARNING: {warning}.\n" in _summary(again.card, path)
    assert f"WARNING: {warning}" in list(_lines(again))


def test_a_model_that_stopped_early_as_it_should_has_no_warning():
    homes = make_source("wyze-synthetic", options={"homes": 60}).load()
    model = train(homes, "graphrule", options={"rounds": 100, "learning_rate": 0.3}, patience=2)
    assert model.card.trainings[-1].warnings == ()
    assert model.card.trainings[-1].rounds < 98
