"""The table of leakage says in each row what leaves a home, who sees it and what can be told from it."""

from __future__ import annotations

import pytest

from benchmarks.results.audits import AUDITS, Audit, AuditRow, load_audits, write_audit
from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.privacy import COLUMNS, leakage

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


def test_a_row_says_what_leaves_who_sees_it_and_what_can_be_told():
    table = leakage(Inputs(audits=(AUDIT,)))
    plain, summed, members, single = (dict(zip(COLUMNS, row, strict=True)) for row in table.rows)
    assert plain["what leaves a home"].text == "update of a round, first, 3 local steps"
    assert plain["who sees it"].text == "the server: each home's own"
    assert plain["what can be told from it"].text == (
        "90% of a home's rules, 50% of claims right, 25% of homes in full; of as many guesses as rules 75% right, 20% "
        "if the home is not in it"
    )
    assert (plain["right guesses, or AUC"].value, plain["without the home"].value) == (0.75, 0.2)
    assert summed["who sees it"].text == "the server: the sum of 64 homes"
    assert summed["defence"].text == "secure sum (64 homes)"
    assert members["who sees it"].text == "whoever has the model"
    assert members["defence"].text == "noise in training (epsilon 4)"
    assert members["right guesses, or AUC"].text == "0.62"
    told = "79 of 120 cells are of one home, 0.2% of homes have such a cell"
    assert single["what can be told from it"].text == told


def test_the_caption_names_the_worst_update_and_what_a_secure_sum_leaves():
    caption = leakage(Inputs(audits=(AUDIT,))).about.caption
    assert "4 attacks on 1 data set" in caption
    assert "finds all typed rules of 25% of homes from one update of fedgnn" in caption
    assert "In a secure sum of 64 homes 30% of as many guesses as a home has rules are right, and 20%" in caption


def test_without_an_audit_the_page_says_how_to_make_one():
    with pytest.raises(Missing) as missing:
        leakage(Inputs())
    assert missing.value.command == "python -m fedrule audit --full"


def test_an_audit_is_read_as_it_was_written_and_a_bad_file_is_named(tmp_path):
    write_audit(tmp_path / AUDITS / AUDIT.file, AUDIT)
    (tmp_path / AUDITS / "bad.json").write_text('{"format": 99}')
    audits, problems = load_audits(tmp_path)
    assert audits == [AUDIT]
    ((name, why),) = problems
    assert name == "audit/bad.json"
    assert "made by a newer version" in why
