"""The table of attacks and defences, from runs with chosen numbers."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.robustness import attacks, auc_and_rank, faults
from tests.support.made_runs import run

KRUM = {"aggregation": "krum", "assumed_attackers": 0.3}


def made(mrr, rank, *, attack="none", attackers=0.0, seed=0, auc=0.9, method="fedgnn", **options):
    """A run of the suite; the AUC and the rank are in the last round."""
    scale = 1.0 if attack in ("none", "label-flip") else 10.0
    parameters = {"attack": attack, "attackers": attackers, "attack_scale": scale, "promoted": "auto", **options}
    history = [{"round": 1.0, "test_auc": 0.5}, {"round": 2.0, "test_auc": auc, "promoted_rank": rank}]
    about = {"summary": {"mrr": mrr}, "history": history, "curves": 1000, "suite": "robustness"}
    return run(method, seed, parameters=parameters, **about)


def rows(*runs):
    table = attacks(Inputs(tuple(runs))).details
    return {tuple(cell.text for cell in row[:3]): dict(zip(table.columns, row, strict=True)) for row in table.rows}


NORMAL = made(0.30, 100.0)


def test_an_attack_is_bounded_up_to_the_largest_share_before_the_first_that_breaks_the_criterion():
    # 90 % of 0.30 is 0.27: 0.28 is within, 0.26 is not, and 0.29 after it does not count.
    found = rows(
        NORMAL,
        made(0.28, 100.0, attack="noise", attackers=0.05),
        made(0.26, 100.0, attack="noise", attackers=0.1),
        made(0.29, 100.0, attack="noise", attackers=0.2),
    )
    row = found["fedgnn", "noise", "mean"]
    assert row["bounded"].text == "up to 5%"
    assert [row[f"MRR {share}"].text for share in ("0%", "5%", "10%", "20%")] == ["0.300", "0.280", "0.260", "0.290"]


def test_promotion_is_bounded_by_the_rank_of_the_mean_without_attackers_and_other_attacks_are_not():
    # Half of 100 is 50; krum alone has 80 without attackers, which does not matter.
    found = rows(
        NORMAL,
        made(0.30, 80.0, **KRUM),
        made(0.30, 51.0, attack="promote", attackers=0.2, **KRUM),
        made(0.30, 49.0, attack="promote", attackers=0.2),
        made(0.30, 1.0, attack="scale", attackers=0.2),
    )
    assert found["fedgnn", "promote", "krum"]["bounded"].text == "bounded"
    assert found["fedgnn", "promote", "krum"]["rank 0%"].text == "80"
    assert found["fedgnn", "promote", "mean"]["bounded"].text == "not bounded"
    assert found["fedgnn", "scale", "mean"]["bounded"].text == "bounded"


def test_a_defence_that_costs_too_much_without_attackers_bounds_nothing():
    found = rows(
        NORMAL,
        made(0.20, 100.0, **KRUM),
        made(0.29, 100.0, attack="noise", attackers=0.2, **KRUM),
    )
    assert found["fedgnn", "noise", "krum"]["bounded"].text == "not bounded"


def test_numbers_are_means_over_seeds():
    found = rows(
        NORMAL,
        made(0.30, 100.0, seed=1),
        made(0.20, 10.0, auc=0.8, attack="scale", attackers=0.2),
        made(0.40, 30.0, auc=0.9, attack="scale", attackers=0.2, seed=1),
    )
    row = found["fedgnn", "scale", "mean"]
    assert (row["MRR 20%"].value, row["AUC 20%"].text, row["rank 20%"].text) == (pytest.approx(0.3), "0.850", "20")


def test_a_seed_that_some_entry_lacks_is_left_out_of_all():
    # Seed 1 of the mean alone would make the reference 0.50, and 0.29 of seed 0 look like a loss.
    found = rows(NORMAL, made(0.70, 100.0, seed=1), made(0.29, 90.0, attack="scale", attackers=0.2))
    assert found["fedgnn", "scale", "mean"]["MRR 0%"].text == "0.300"
    assert found["fedgnn", "scale", "mean"]["bounded"].text == "bounded"


def test_a_share_that_was_not_run_leaves_the_verdict_open():
    found = rows(
        NORMAL,
        made(0.30, 90.0, attack="scale", attackers=0.1),
        made(0.30, 90.0, attack="noise", attackers=0.1),
        made(0.30, 90.0, attack="noise", attackers=0.2),
    )
    assert found["fedgnn", "scale", "mean"]["bounded"].text == "not known"
    assert found["fedgnn", "noise", "mean"]["bounded"].text == "bounded"


def test_the_caption_counts_what_is_bounded_and_notes_say_how():
    relative = {"norm_bound": 1.0, "norm_relative": True}
    table = attacks(
        Inputs(
            (
                NORMAL,
                made(0.10, 90.0, attack="scale", attackers=0.2),
                made(0.30, 90.0, attack="scale", attackers=0.2, **KRUM),
                made(0.30, 90.0, attack="scale", attackers=0.2, **relative),
            )
        )
    )
    assert "in bold where it is, up to 20% attackers." in table.about.caption
    assert "The defences bound 2 of 3 attacks on fedgnn." in table.about.caption
    assert "fedgnn has MRR 0.300 (promoted rule: rank 100)" in table.about.caption
    notes = " ".join(table.about.notes)
    assert "Krum: assumed_attackers 0.3; norm bound: 1 times the median norm of the cohort; attackers send 10" in notes
    assert table.columns == ("method", "attack", "mean", "norm bound", "krum")


def test_every_cell_says_whether_the_attack_is_bounded_and_bold_is_bounded():
    table = attacks(
        Inputs(
            (
                NORMAL,
                made(0.30, 90.0, **KRUM),
                made(0.29, 90.0, attack="promote", attackers=0.1),
                made(0.28, 40.0, attack="promote", attackers=0.2),
                made(0.29, 90.0, attack="promote", attackers=0.1, **KRUM),
                made(0.28, 60.0, attack="promote", attackers=0.2, **KRUM),
            )
        )
    )
    none, promote = ([(cell.text, cell.strong) for cell in row] for row in table.rows)
    assert none == [("fedgnn", False), ("none", False), ("0.300", False), ("0.300", False)]
    # Half of 100 is 50: 40 is too low.
    assert promote[2:] == [
        ("up to 10%: 0.290 / 0.280; rank 90 / 40", False),
        ("bounded: 0.290 / 0.280; rank 90 / 60", True),
    ]


def test_auc_and_rank_are_a_table_of_their_own():
    table = auc_and_rank(Inputs((NORMAL, made(0.29, 40.0, auc=0.8, attack="scale", attackers=0.2))))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["fedgnn", "none", "AUC", "0.900"],
        ["fedgnn", "none", "rank", "100"],
        ["fedgnn", "scale", "AUC", "0.800"],
        ["fedgnn", "scale", "rank", "40"],
    ]


def with_faults(auc, seed=0, *, faulty=True, **options):
    faults = {"drop_out": 0.3, "corrupted": 0.1} if faulty else {}
    summary = {"auc": auc, "hidden": 120.0}
    return run("fedgnn", seed, parameters=faults | options, protocol="paper", summary=summary)


def test_faults_are_compared_with_the_same_seeds_without_them():
    table = faults(
        Inputs(
            (
                *(with_faults(auc, seed, faulty=False) for seed, auc in enumerate((0.98, 0.96, 0.50))),
                *(with_faults(auc, seed) for seed, auc in enumerate((0.97, 0.93))),
                with_faults(0.99, participation=0.5),  # nothing to compare it with
            )
        )
    )
    (row,) = ({name: cell.text for name, cell in zip(table.columns, each, strict=True)} for each in table.rows)
    # (0.98 + 0.96) / 2 = 0.97, (0.97 + 0.93) / 2 = 0.95; the seeds fall by 0.01 and 0.03.
    assert (row["seeds"], row["without"], row["with"], row["difference"]) == ("2", "0.9700", "0.9500", "-0.0200")
    assert (row["faults"], row["of single seeds"]) == ("30% drop out, 10% send NaN", "-0.030 to -0.010")
    assert table.rows[0][8].strong
    assert table.about.caption.startswith("0 of 1 are within the goal")


def test_without_faults_the_page_says_how_to_run_them():
    with pytest.raises(Missing) as missing:
        faults(Inputs((with_faults(0.9, faulty=False),)))
    assert missing.value.command == "python -m benchmarks run faults"


def test_without_attacks_the_page_says_how_to_run_them():
    for runs in ((), (run("fedgnn"),), (NORMAL,)):
        with pytest.raises(Missing) as missing:
            attacks(Inputs(runs))
        assert missing.value.command == "python -m benchmarks run robustness"
