"""`python -m fedrule audit`: a table, a result file that the report reads, the same for the same seed."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

pytest.importorskip("torch", reason="federated methods need the extra graph")
pytest.importorskip("numba", reason="federated methods need the extra graph")
pytest.importorskip("opacus", reason="the account of noise needs the extra private")

from benchmarks.results.audits import BASELINE, TWO_SUMS, AuditRow, load_audits, summary_lines
from datasets.common.gaussian_mechanism import default_delta, multiplier_for
from fedrule.__main__ import main
from fedrule.audit import run
from fedrule.audit.findings import Finding
from fedrule.audit.run import AuditSize
from fedrule.commands import load_homes
from fedrule.commands.audit import announcement, duration
from fedrule.federated.private import LEAST_MULTIPLIER
from reports.inputs import Inputs
from reports.tables.privacy import leakage

DATA = "wyze-synthetic:homes=40,seed=2"
SMALL = AuditSize(
    homes=12,
    targets=3,
    rounds=2,
    cohorts=(2,),
    epsilons=(64.0,),
    account_homes=64,  # with a cohort of 64 the account is in closed form
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
    assert {BASELINE, TWO_SUMS} <= {row.attack for row in audit.rows}  # names that the table treats apart
    assert {
        (method, "model", name) for method in ("fedgnn", "fedrank") for name in ("none", "noise in training")
    } <= kinds
    (listed,) = (tmp_path / "audit").glob("*.txt")
    text = listed.read_text()
    assert all(row.disclosure in text for row in audit.rows)
    assert f"{len(audit.rows)} attacks in " in said
    assert str(listed) in said
    assert all(line in said for line in summary_lines(audit.rows))
    assert len(said.splitlines()) <= 17
    table = leakage(Inputs.read(tmp_path))
    assert len(table.details.rows) == len(audit.rows)
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


def test_it_says_what_will_be_run_and_about_how_long_it_takes():
    planned = run.steps(("fedgnn", "fedrank"), ("updates", "counts"))
    homes = load_homes(DATA)
    said = announcement(planned, replace(run.QUICK, count_homes=(20, 100)), homes=homes, full=False)
    assert "rules from updates of 12 homes (fedgnn, fedrank); counts of up to 40 homes (fedrank)" in said
    assert re.search(r"About \d+ minutes? of one core, and \d+ minutes? with --full", said)
    assert "--full" not in announcement(planned, run.QUICK, homes=homes, full=True)


def test_a_home_that_adds_its_own_noise_has_an_account_without_sampling():
    size = replace(SMALL, account_homes=500)  # 10 rounds of 64 of 500 homes: each takes part about once
    _, alone, summed = run.defences(size, 12, private=True)
    assert (alone.cohort, summed.cohort) == (1, 2)
    assert alone.noise_multiplier == pytest.approx(multiplier_for(64.0, default_delta(500)))
    assert summed.noise_multiplier == LEAST_MULTIPLIER  # epsilon 64 needs less, which is not counted


def test_a_duration_is_in_minutes_and_seconds():
    assert [duration(seconds) for seconds in (12.4, 200.0)] == ["12 s", "3 min 20 s"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "ease"], "unknown method of the audit 'ease'"),
        (["--method", "fedgnn", "--part", "counts"], "no counts of fedgnn leave homes; choose another --part"),
        (["--part", "rows"], "unknown part of the audit 'rows'"),
        (["--out", "found.txt"], "--out found.txt: the table gets this name; name the result file .json"),
        (["--homes", "3"], "audit: homes must be at least 4, got 3"),
        (["--data", "wyze-synthetic:homes=2"], "an audit needs at least 4 homes with rules"),
    ],
)
def test_what_cannot_be_audited_is_one_message(arguments, message, capsys):
    assert main(["audit", "--data", DATA, "--quiet", *arguments]) == 1
    assert message in capsys.readouterr().err
