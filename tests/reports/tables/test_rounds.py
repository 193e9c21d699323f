"""Where training by round ends: loss from round 10 to the end, by configuration and data set; and encoders."""

from __future__ import annotations

import csv
import io

import pytest

from benchmarks.runs.suite import read_suite
from datasets.common.training_warnings import TrainingWarning
from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.rounds import INTERPRETATIONS, encoders, interpretations, options, setting
from reports.text.formats import NONE, as_csv
from tests.support.made_runs import keep, run

DIVERGED = (TrainingWarning("diverged", 41, 1, "training diverged in round 41 of 100"),)


def by_round(method, losses, *, seed=0, auc=0.9, rank=3.0, **other):
    """A run measured after rounds 1, 10 and 20, or as many as there are losses."""
    history = [{"round": float(at), "test_loss": loss} for at, loss in zip((1, 10, 20), losses, strict=False)]
    summary = {"loss": losses[-1], "auc": auc, "mr_rt": rank}
    return run(method, seed, protocol="paper", curves=10, history=history, summary=summary, **other)


def cells(table):
    """Text of the first data set, by method and setting."""
    return {(row[0].text, row[1].text): row[2].text for row in table.rows}


def test_the_rows_are_the_methods_of_the_suite():
    suite = {setting(each.method, each.overrides.parameters.items()) for each in read_suite("federated")}
    assert suite == {setting(method, given.items()) for method, given, _ in INTERPRETATIONS}


def test_a_cell_has_the_loss_at_round_10_and_at_the_end_with_its_range_over_seeds():
    runs = (
        by_round("fedgnn", (0.7, 0.6, 0.4), parameters={"preset": "paper"}, auc=0.90, rank=12.0),
        by_round("fedgnn", (0.7, 0.5, 1.0), parameters={"preset": "paper"}, seed=1, auc=0.80, rank=15.0),
        by_round("fedrule", (0.7, 250.0, 900.0), parameters={"preset": "paper"}, warnings=DIVERGED),
    )
    table = interpretations(Inputs(runs))
    found = cells(table)
    # (0.6 + 0.5) / 2 = 0.55, (0.4 + 1.0) / 2 = 0.70, (0.9 + 0.8) / 2 = 0.85, (12 + 15) / 2 = 13.5
    assert found["fedgnn", "client Adam, moments kept"] == "0.55 → 0.70 [0.40, 1.00]; 0.850; 13.5"
    # One seed has no range; nobody reads a loss above 100.
    kept = "client Adam, moments kept; control in gradients"
    assert found["fedrule", kept] == ">100 → >100; 0.900; 3.0; 1 of 1 diverged"
    assert found["fedrule", "plain steps at 0.1, server averages"] == NONE
    assert table.columns == ("method", "setting", "wyze-synthetic, 40 homes")
    assert table.about.caption == (
        "On wyze-synthetic, 40 homes loss ends lowest at 0.70 (fedgnn, client Adam, moments kept), AUC is highest at "
        "0.900 (fedrule, client Adam, moments kept; control in gradients); 1 of 3 runs diverged."
    )


def test_the_csv_file_has_a_row_for_each_setting_and_data_set():
    runs = (
        by_round("fedgnn", (0.7, 0.6, 0.4), parameters={"preset": "paper"}),
        by_round("fedgnn", (0.7, 0.5, 1.0), parameters={"preset": "paper"}, data="ifttt-synthetic"),
    )
    lines = list(csv.DictReader(io.StringIO(as_csv(interpretations(Inputs(runs))))))
    assert [(each["data"], each["loss 10"], each["loss"], each["seeds"]) for each in lines] == [
        ("ifttt-synthetic, 40 homes", "0.5", "1.0", "1"),
        ("wyze-synthetic, 40 homes", "0.6", "0.4", "1"),
    ]


def test_runs_without_curves_and_data_without_a_preset_are_not_shown():
    alone = by_round("fedgnn", (0.7, 0.6, 0.4))
    final = run("fedgnn", protocol="paper", parameters={"preset": "paper"})
    with pytest.raises(Missing, match="readings of the paper's federated training were not run") as missing:
        interpretations(Inputs((alone, final)))
    assert missing.value.command == "python -m benchmarks run federated"


def test_options_are_the_settings_beside_the_defaults_without_those_of_the_paper():
    runs = (
        by_round("fedgnn", (0.7, 0.6, 0.4)),
        by_round("fedgnn", (0.7, 0.6, 0.3), parameters={"local_steps": 1}),
        by_round("fedrule", (0.7, 0.6, 0.5), parameters={"learning_rate": 0.3, "gnn_lambda": 0.0}),
        by_round("fedgnn", (0.7, 0.6, 0.2), parameters={"preset": "paper"}),
        by_round("graphrule", (0.7, 0.6, 0.1)),
    )
    assert cells(options(Inputs(runs))) == {
        ("fedgnn", "the defaults"): "0.60 → 0.40; 0.900; 3.0",
        ("fedgnn", "local_steps=1"): "0.60 → 0.30; 0.900; 3.0",
        ("fedrule", "gnn_lambda=0.0, learning_rate=0.3"): "0.60 → 0.50; 0.900; 3.0",
    }
    with pytest.raises(Missing, match="one option changed at a time"):
        options(Inputs(runs[:1]))


def test_every_row_of_the_suite_of_options_is_an_option():
    wanted = {setting(each.method, each.overrides.parameters.items()) for each in read_suite("federated-options")}
    runs = tuple(
        by_round(each.method, (0.7, 0.6, 0.4), parameters=each.overrides.parameters)
        for each in read_suite("federated-options", seeds=[0])
        if each.source.data == "wyze-synthetic"
    )
    table = options(Inputs(runs))
    assert len(table.rows) == len(wanted) == len(runs)


def test_encoders_are_compared_with_everything_else_equal(tmp_path):
    for parameters, auc in (
        ({}, 0.9),
        ({"encoder": "gcn"}, 0.7),
        ({"encoder": "gcn", "self_loops": True}, 0.89),
    ):
        rate = {"learning_rate": 0.03}
        more = {"summary": {"loss": 0.4, "mr": 2.5}, "curves": 10, "protocol": "paper", "metric": "auc"}
        keep(tmp_path, "graphrule", auc, parameters=parameters | rate, **more)
    keep(tmp_path, "graphrule", 0.99, curves=10, protocol="paper", metric="auc")  # of another rate
    table = encoders(Inputs.read(tmp_path))
    assert [row[0].text for row in table.rows] == ["GraphSAGE", "GCN", "GCN, self loops"]
    assert table.columns[1:] == ("wyze-synthetic, 40 homes: AUC", "loss", "MR")
    sage, gcn, _ = table.rows
    assert (sage[1].strong, gcn[1].strong, gcn[1].underlined) == (True, False, False)
    assert sage[1].text.startswith("0.900 [")
    assert (gcn[2].text, gcn[3].text) == ("0.400", "2.50")
    assert table.about.caption == (
        "AUC on wyze-synthetic, 40 homes: GraphSAGE 0.900, GCN, self loops 0.890, GCN 0.700."
    )
    assert "Learning rate 0.03. wyze-synthetic, 40 homes: 2 seeds." in table.about.notes[0]


def test_one_encoder_is_no_comparison(tmp_path):
    keep(tmp_path, "graphrule", 0.9, curves=10, protocol="paper", metric="auc")
    with pytest.raises(Missing) as missing:
        encoders(Inputs.read(tmp_path))
    assert missing.value.command == "python -m benchmarks run gnn"
