"""`python -m fedrule audit`: a table, a result file that the report reads, the same for the same seed."""

from __future__ import annotations

from dataclasses import fields

import pytest

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")
pytest.importorskip("opacus", reason="the account of noise needs the extra private")

from benchmarks.results.audits import AuditRow, load_audits
from fedrule.__main__ import main
from fedrule.audit import run
from fedrule.audit.findings import Finding
from fedrule.audit.run import Plan
from reports.inputs import Inputs
from reports.tables.privacy import leakage

DATA = "wyze-synthetic:homes=40,seed=2"
SMALL = Plan(
    homes=12,
    targets=3,
    rounds=2,
    cohorts=(2,),
    epsilons=(64.0,),
    account_homes=500,
    account_rounds=10,
    shadows=4,
    shadow_homes=8,
    shadow_rounds=2,
    count_homes=(20,),
)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(run, "QUICK", SMALL)


def test_a_row_of_the_file_has_the_fields_of_a_finding():
    assert [each.name for each in fields(AuditRow)] == [each.name for each in fields(Finding)]


def test_it_writes_a_file_that_the_report_reads_and_prints_what_can_be_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FEDRULE_RESULTS", str(tmp_path))
    assert main(["audit", "--data", DATA, "--method", "fedgnn,fedrank", "--quiet"]) == 0
    said = capsys.readouterr().out
    ((audit,), problems) = load_audits(tmp_path)
    assert problems == []
    assert (audit.data, audit.seed, audit.methods, audit.homes) == (DATA, 0, ("fedgnn", "fedrank"), 40)
    kinds = {(row.method, row.leaves, row.defence) for row in audit.rows}
    for method, leaves in (("fedgnn", "update"), ("fedrank", "update"), ("fedrank", "counts")):
        assert {(method, leaves, name) for name in ("none", "secure sum", "noise in the home")} <= kinds
    assert {
        (method, "model", name) for method in ("fedgnn", "fedrank") for name in ("none", "noise in training")
    } <= kinds
    assert all(row.told in said for row in audit.rows)
    table = leakage(Inputs.read(tmp_path))
    assert len(table.rows) == len(audit.rows)
    assert table.about.sources == (f"audit/{audit.file}",)


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(tmp_path):
    files = [tmp_path / f"{name}.json" for name in "abc"]
    for file, seed in zip(files, ("1", "1", "2"), strict=True):
        assert (
            main(["audit", "--data", DATA, "--method", "fedrule", "--seed", seed, "--out", str(file), "--quiet"]) == 0
        )
    first, second, third = (file.read_bytes() for file in files)
    assert first == second
    assert first != third


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "ease"], "unknown method of the audit 'ease'"),
        (["--part", "rows"], "unknown part of the audit 'rows'"),
        (["--homes", "3"], "audit: homes must be at least 4, got 3"),
        (["--data", "wyze-synthetic:homes=2"], "an audit needs at least 4 homes with rules"),
    ],
)
def test_what_cannot_be_audited_is_one_message(arguments, message, capsys):
    assert main(["audit", "--data", DATA, "--quiet", *arguments]) == 1
    assert message in capsys.readouterr().err
