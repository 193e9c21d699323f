"""The table of leakage says in each row what leaves a home, who sees it and what can be told from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.results.audits import AUDITS, Audit, AuditRow, load_audits, summary_lines, write_audit
from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.privacy import DETAILS, READ, SINGLES, cost, leakage, single_home_counts
from reports.text.formats import NONE
from tests.support.made_runs import keep

RULES = {"precision": 0.5, "recall": 0.9, "exact": 0.25, "top": 0.75, "control": 0.2}
PLAIN = AuditRow("fedgnn", "update", "gradient inversion", "nothing", "none", RULES, 200, 50, local_steps=3)
SUMMED = AuditRow(
    "fedgnn", "update", "gradient inversion", "nothing", "secure sum", RULES | {"top": 0.3}, 200, 50, cohort=64, round=9
)
MEMBERS = AuditRow(
    "fedrank",
    "model",
    "loss",
    "the home",
    "noise in training",
    {"auc": 0.625, "found at 1 % false alarms": 0.04},
    50,
    90,
    epsilon=4,
)
SINGLE = AuditRow(
    "fedrank", "counts", "counts of 1", "nothing", "secure sum",
    {"cells": 120, "cells of one home": 79, "homes with such a cell": 0.0025}, 100, 100, cohort=100,
)  # fmt: skip
AUDIT = Audit(
    "wyze-synthetic", "f", 200, 0, ("fedgnn", "fedrank"), ("updates",), {"homes": 200}, (PLAIN, SUMMED, MEMBERS, SINGLE)
)


def columns(table):
    return [{name: cell.text for name, cell in zip(table.columns, row, strict=True)} for row in table.rows]


def test_a_row_of_the_download_says_what_leaves_who_sees_it_and_what_can_be_told():
    table = leakage(Inputs(audits=(AUDIT,))).details
    assert table.columns == DETAILS
    plain, summed, members, single = columns(table)
    assert plain["what leaves a home"] == "update of a round, first, 3 local steps"
    assert plain["who sees it"] == "the server: each home's own"
    assert plain["what can be told from it"] == (
        "90% of a home's rules, 50% of claims right, 25% of homes in full; of as many guesses as rules 75% right, 20% "
        "if the home is not in it"
    )
    assert (plain["right guesses, or AUC"], plain["without the home"]) == ("0.75", "0.20")
    assert summed["who sees it"] == "the server: the sum of 64 homes"
    assert summed["defence"] == "secure sum (64 homes)"
    assert members["who sees it"] == "whoever has the model"
    assert members["defence"] == "noise in training (epsilon 4)"
    assert members["right guesses, or AUC"] == "0.62"
    assert single["what can be told from it"] == "79 of 120 cells are of one home, 0.2% of homes have such a cell"


def test_the_page_has_a_row_for_each_thing_and_defence_with_the_strongest_attack():
    weaker = replace(PLAIN, attack="touched rows", values=RULES | {"top": 0.5})
    baseline = replace(PLAIN, attack="most common rules", values=RULES | {"top": 0.99})  # looks at no update
    few = replace(SUMMED, cohort=2, values=RULES | {"top": 0.6, "exact": 0.1})
    two = replace(SUMMED, leaves="counts", attack="difference of two sums", cohort=400)
    audit = replace(AUDIT, rows=(weaker, PLAIN, baseline, SUMMED, few, two, MEMBERS, SINGLE))
    table = leakage(Inputs(audits=(audit,)))
    assert len(table.details.rows) == 8
    plain, summed, differing, members = columns(table)
    assert (plain["what leaves a home"], plain["strongest attack"]) == ("update of fedgnn", "gradient inversion")
    assert (plain["right, or AUC"], plain["in full"]) == ("0.75", "25%")
    assert summed["defence"] == "secure sum: 2 / 64 homes"
    assert (summed["right, or AUC"], summed["in full"]) == ("0.60 / 0.30", "10% / 25%")
    assert differing["who sees it"].endswith("the sum of 400 homes with it, and the same without it")
    assert members["what can be told from it"] == "whether it took part"
    assert (members["right, or AUC"], members["without it"]) == ("0.62", "0.50")


def test_of_two_audits_of_the_same_thing_the_one_with_more_trials_is_shown():
    small = replace(AUDIT, rows=(replace(PLAIN, trials=5, values=RULES | {"top": 0.9}),))
    table = leakage(Inputs(audits=(small, AUDIT)))
    assert columns(table)[0]["right, or AUC"] == "0.75"
    assert len(table.details.rows) == 5


def test_the_summary_has_the_worst_of_each_thing_and_what_the_most_privacy_leaves():
    noisy = replace(SUMMED, defence="secure sum and noise", epsilon=4.0, values=RULES | {"top": 0.21, "exact": 0.0})
    assert summary_lines((SUMMED, PLAIN, noisy, MEMBERS, SINGLE)) == [
        "update of fedgnn: the server can tell all rules of 25% of homes (75% of guesses at its rules are right, 20% "
        "if it is not there)",
        "    with secure sum and noise (64 homes, epsilon 4): 21% of guesses at its rules are right, 20% if it is not "
        "there",
        "model of fedrank, noise in training (epsilon 4): whoever has the model can tell whether a home took part: AUC "
        "0.62 (0.50 is chance), 4% of members are recognized at 1% false alarms",
    ]


def test_the_caption_names_the_worst_update_and_what_a_secure_sum_leaves():
    caption = leakage(Inputs(audits=(AUDIT,))).about.caption
    assert "4 attacks on 1 data set" in caption
    assert "finds all typed rules of 25% of homes from one update of fedgnn" in caption
    assert "In a secure sum of 64 homes 30% of as many guesses as a home has rules are right, and 20%" in caption


def test_without_an_audit_the_page_says_how_to_make_one():
    with pytest.raises(Missing) as missing:
        leakage(Inputs())
    assert missing.value.command == "python -m fedrule audit --full"


def test_counts_of_one_home_have_a_row_for_each_sum():
    def row(attack, values, homes):
        return replace(SINGLE, attack=attack, values=values, homes=homes, cohort=homes)

    cells = {"cells": 122.0, "cells of one home": 79.0, "homes with such a cell": 0.52}
    audit = replace(
        AUDIT,
        rows=(
            row(READ, {"homes read": 0.002, "rules read": 0.007, "precision": 1.0}, 10_000),
            row(f"{SINGLES}typed rules", cells, 100),
            row(f"{SINGLES}pairs of typed rules", cells | {"cells": 1_313.0}, 100),
            row(READ, {"homes read": 0.5, "rules read": 0.67, "precision": 1.0}, 100),
        ),
    )
    table = single_home_counts(Inputs(audits=(audit,)))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["wyze-synthetic", "100", "79 of 122", "79 of 1,313", "52%", "50%", "67%"],
        ["wyze-synthetic", "10,000", NONE, NONE, NONE, "0.2%", "0.7%"],
    ]
    assert table.about.caption == "All rules of up to 50% of homes can be read (wyze-synthetic, 100 homes)."
    assert table.about.sources == (f"{AUDITS}/{AUDIT.file}",)


def test_without_counts_the_table_of_counts_says_how_to_audit_them():
    with pytest.raises(Missing, match="no counts were audited") as missing:
        single_home_counts(Inputs(audits=(replace(AUDIT, rows=(PLAIN,)),)))
    assert missing.value.command == "python -m fedrule audit --full --method fedrank --part counts"


def test_an_audit_is_read_as_it_was_written_and_a_bad_file_is_named(tmp_path):
    write_audit(tmp_path / AUDITS / AUDIT.file, AUDIT)
    (tmp_path / AUDITS / "bad.json").write_text('{"format": 99}')
    audits, problems = load_audits(tmp_path)
    assert audits == [AUDIT]
    ((name, why),) = problems
    assert name == "audit/bad.json"
    assert "made by a newer version" in why


def private(folder, epsilon, mean, *, swing, **other):
    """Runs of ease with two seeds; homes swing by `swing`, those without privacy by 0.02."""
    parameters = {"popularity": 1.0, "epsilon": epsilon}
    return keep(folder, "ease", mean, swing=swing, parameters=parameters, **other)


def test_the_cost_of_privacy_is_paired_by_home(tmp_path):
    private(tmp_path, 0.0, 0.4, swing=0.02)
    private(tmp_path, 8.0, 0.398, swing=0.02)  # 0.002 less in every home: 0.5 %, surely less than 1 %
    private(tmp_path, 1.0, 0.3, swing=0.02)  # 0.1 less in every home: 25 %
    private(tmp_path, 0.5, 0.399, swing=-0.02)  # 0.039 less and 0.041 more by turns: nothing can be shown
    table = cost(Inputs.read(tmp_path))
    (row,) = table.rows
    free, unclear, costly = row[4], row[6], row[5]
    assert table.columns[4:] == ("epsilon 8", "epsilon 1", "epsilon 0.5")
    assert (free.text, free.strong) == ("-0.5 % [-0.5, -0.5]", True)
    assert (costly.text, costly.strong, costly.underlined) == ("-25.0 % [-25.0, -25.0]", False, False)
    assert (unclear.strong, unclear.underlined) == (False, True)
    verdicts = [each["verdict"] for each in columns(table.details)]
    assert verdicts == ["costs less than 1%", "costs something", "no cost shown, nor ruled out"]
    assert "ease from epsilon 8 on" in table.about.caption


def test_without_private_runs_the_table_of_costs_says_what_to_run():
    with pytest.raises(Missing) as missing:
        cost(Inputs())
    assert missing.value.command == "python -m benchmarks run privacy"
