"""Each finding says what small made results say, with the arithmetic of its numbers; missing results are a sentence."""

from __future__ import annotations

import math
import re

import pytest

from benchmarks.results.compare import Ratio
from reports.findings.numbers import (
    AHEAD,
    BEHIND,
    HIGHER,
    LOWER,
    ONE_SEED,
    TIED,
    UNDECIDED,
    change_of,
    interval,
    of_ratio,
    percent,
    tally,
)
from reports.findings.questions import FINDINGS, findings
from reports.inputs import Inputs
from reports.outputs import Missing, Table
from reports.slices import hidden_rules, over_seeds, size_slices, slice_change, slice_mean, slice_ratio
from reports.text.formats import NONE
from tests.support.made_runs import HOMES, keep, run, small_results

EXACT = {"swing": 0.0}  # all homes are the same, so that intervals have no width
NAMES = [finding.name for finding in FINDINGS]
MOST_WORDS = 55  # of a headline, an interval not counted


def answer(folder, name):
    """The answer to one question."""
    (found,) = [each for each in findings(Inputs.read(folder)) if each.finding.name == name]
    return found


def said(folder, name):
    """The headline of an answer that is known."""
    found = answer(folder, name)
    assert found.known, found.headline
    assert found.command == found.finding.command
    assert len(re.sub(r" \[[^]]*\]", "", found.headline).split()) <= MOST_WORDS
    return found.headline


def rows(folder, name, number=0):
    """The cells of one of its tables."""
    tables = [each for each in answer(folder, name).details if isinstance(each, Table)]
    return [tuple(cell.text for cell in row) for row in tables[number].rows]


def test_the_first_of_each_list_is_named_with_its_formulation_and_what_it_is_not_told_apart_from(tmp_path):
    for data, track, means in (
        ("wyze-synthetic", "types", {"random": 0.9, "graphrank": 0.3, "fedrank": 0.28, "ease": 0.25}),
        ("ifttt-synthetic", "types", {"ease": 0.4, "graphrank": 0.4}),  # equal: the first of its name is first
        ("wyze-synthetic", "instances", {"graphrank": 0.2, "ease": 0.1}),
    ):
        for method, mean in means.items():
            keep(tmp_path, method, mean, data=data, track=track, **EXACT)
    # Random order is no competitor, and fedrank is of the same formulation as graphrank.
    assert said(tmp_path, "formulation") == (
        "Evidence ranking (graphrank) is first on 2 of 3 lists, but the first method is told apart from every other "
        "formulation on 2 lists: wyze-synthetic (graphrank) and single devices of wyze-synthetic (graphrank)."
    )
    assert rows(tmp_path, "formulation") == [
        ("wyze-synthetic", "graphrank (evidence ranking), 0.300 [0.300, 0.300]", "none"),
        ("ifttt-synthetic", "ease (user-item, linear), 0.400 [0.400, 0.400]", "evidence ranking"),
        ("single devices of wyze-synthetic", "graphrank (evidence ranking), 0.200 [0.200, 0.200]", "none"),
    ]


def test_a_formulation_that_is_first_on_the_only_list_has_to_be_told_apart_from_all_others(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.2)
    keep(tmp_path, "ease", 0.10, swing=0.2)
    first = "Evidence ranking (graphrank) is first on the only list, wyze-synthetic, "
    assert said(tmp_path, "formulation") == f"{first}and is told apart from every other formulation."
    keep(tmp_path, "takg", 0.05, swing=-0.9)  # worse than ease, but not by the test
    assert said(tmp_path, "formulation") == f"{first}but is not told apart from every other formulation."
    assert rows(tmp_path, "formulation")[0][-1] == "features"


def test_formulations_that_are_first_equally_often_are_both_named(tmp_path):
    for data, first, second in (("wyze-synthetic", "graphrank", "ease"), ("ifttt-synthetic", "ease", "graphrank")):
        keep(tmp_path, first, 0.3, data=data, seeds=(0,))
        keep(tmp_path, second, 0.2, data=data, seeds=(0,))
    assert said(tmp_path, "formulation") == (
        "Evidence ranking (graphrank) and user-item, linear (ease) are first on 1 of 2 lists each, but the first "
        "method is told apart from every other formulation on no list, each with one seed."
    )


def test_one_formulation_alone_does_not_win(tmp_path):
    keep(tmp_path, "graphrank", 0.3)
    keep(tmp_path, "fedrank", 0.2)
    assert "no two formulations were ranked on the same data" in answer(tmp_path, "formulation").headline


def test_a_list_with_less_than_half_of_the_methods_is_left_out(tmp_path):
    for method, mean in {"graphrank": 0.3, "ease": 0.2, "mf": 0.1, "gcmc": 0.1, "rgcn": 0.1}.items():
        keep(tmp_path, method, mean, **EXACT)
    for method, mean in {"rgcn": 0.1, "ease": 0.2}.items():
        keep(tmp_path, method, mean, data="ifttt-synthetic", **EXACT)
    assert said(tmp_path, "formulation").startswith("Evidence ranking (graphrank) is first on the only list, ")
    note = "Left out, with less than half of the methods: ifttt-synthetic (2 of 5 methods)."
    assert note in answer(tmp_path, "formulation").details


def test_the_lead_over_user_item_methods_is_that_of_each_real_data_set(tmp_path):
    for method, mean in {"graphrank": 0.3, "fedrank": 0.33, "ease": 0.3, "mf": 0.2}.items():
        keep(tmp_path, method, mean, data="ifttt-fedrule", **EXACT)
    keep(tmp_path, "graphrule", 0.09, data="home-assistant", **EXACT)
    keep(tmp_path, "ease", 0.1, data="home-assistant", **EXACT)
    keep(tmp_path, "graphrank", 0.9, **EXACT)  # synthetic homes
    keep(tmp_path, "ease", 0.1, **EXACT)
    keep(tmp_path, "popularity", 0.08, data="home-assistant", **EXACT)
    keep(tmp_path, "compgcn", 0.24, data="ifttt-fedrule", **EXACT)
    for method, mean in {"graphrank": 0.4, "ease": 0.1, "mf": 0.1}.items():
        keep(tmp_path, method, mean, data="home-assistant", track="instances", **EXACT)
    # 0.33 / 0.3 = 1.10, 0.09 / 0.1 = 0.90, 0.24 / 0.3 = 0.80 and 0.4 / 0.1 = 4.00
    assert said(tmp_path, "user-item") == (
        "On real data the best evidence, feature or graph method (fedrank, graphrule, graphrank) is ahead of the best "
        "simple method on 2 and behind on 1 of 3 lists of 2 data sets (0.90 [0.90, 0.90] to 1.10 [1.10, 1.10] times "
        "its MRR; 4.00 [4.00, 4.00] on single devices); the best neural network is behind on 2 of 2 lists."
    )
    ease, rgcn = "times ease", "(relational graph neural network)"
    assert rows(tmp_path, "user-item") == [
        ("ifttt-fedrule", "40", "fedrank (evidence ranking)", f"1.10 [1.10, 1.10] {ease}: ahead", NONE),
        ("ifttt-fedrule", "40", f"compgcn {rgcn}", f"0.80 [0.80, 0.80] {ease}: behind", NONE),
        ("home-assistant", "40", "graphrule (graph neural network)", f"0.90 [0.90, 0.90] {ease}: behind", NONE),
        (
            *("single devices of home-assistant", "40", "graphrank (evidence ranking)"),
            *(f"4.00 [4.00, 4.00] {ease}: ahead", NONE),
        ),
    ]


def test_a_lead_by_mrr_has_its_ratio_of_hit_rates_and_the_hidden_rules_beside_it(tmp_path):
    for method, mrr, hits in (("graphrank", 0.4, 0.3), ("ease", 0.1, 0.2)):
        values = {"mrr": [mrr] * HOMES, "hr@10": [hits] * HOMES}
        keep(tmp_path, method, values, data="home-assistant", track="instances")
    # 0.4 / 0.1 = 4.00 and 0.3 / 0.2 = 1.50; each of the homes hides one rule.
    ((_, hidden, _, mrr, hits),) = rows(tmp_path, "user-item")
    assert (hidden, mrr, hits) == (str(HOMES), "4.00 [4.00, 4.00] times ease: ahead", "1.50 [1.50, 1.50] times")


def test_that_user_item_methods_cannot_tell_single_devices_apart_is_said_beside_them(tmp_path):
    keep(tmp_path, "graphrank", 0.3, data="home-assistant", track="instances", **EXACT)
    keep(tmp_path, "ease", 0.2, data="home-assistant", track="instances", **EXACT)
    assert said(tmp_path, "user-item") == (
        "On real data the best evidence, feature or graph method (graphrank) is ahead of the best simple method on the "
        "only list (1.50 [1.50, 1.50] times its MRR on single devices)."
    )
    (shown,) = answer(tmp_path, "user-item").details
    assert "Simple methods give all devices of one type the same score" in shown.about.caption


def test_popularity_is_the_best_simple_method_where_it_leads(tmp_path):
    for method, mean in {"graphrank": 0.3, "popularity": 0.25, "ease": 0.2}.items():
        keep(tmp_path, method, mean, data="ifttt-fedrule", **EXACT)
    assert rows(tmp_path, "user-item")[0][3] == "1.20 [1.20, 1.20] times popularity: ahead"


def test_the_interval_of_a_lead_has_its_low_end_first(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.03, data="ifttt-fedrule")
    keep(tmp_path, "ease", 0.20, swing=-0.02, data="ifttt-fedrule")
    # a - 1.5 b is 0 + 0.06 in even homes and 0 - 0.06 in odd ones, with each seed. Its error is that of 40 homes:
    # 0.06 / sqrt(39) = 0.0096, over a 0.0320, times 2.023 of 39 degrees of freedom 0.0648; 1.5 / e^0.0648 = 1.41 and
    # 1.5 * e^0.0648 = 1.60.
    assert said(tmp_path, "user-item").endswith("on the only list (1.50 [1.41, 1.60] times its MRR).")


def test_what_cannot_be_told_apart_is_not_called_a_lead(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.2, data="ifttt-fedrule")
    keep(tmp_path, "ease", 0.29, swing=-0.2, data="ifttt-fedrule")
    headline = said(tmp_path, "user-item")
    assert "is not told apart from the best simple method on the only list (1.03 [" in headline  # 0.30 / 0.29
    assert "ahead" not in headline


def test_with_one_seed_nothing_is_ahead(tmp_path):
    keep(tmp_path, "graphrank", 0.3, data="ifttt-fedrule", seeds=(0,))
    keep(tmp_path, "ease", 0.2, data="ifttt-fedrule", seeds=(0,))
    assert "is not told apart from the best simple method on the only list, with one seed (1.50 [" in (
        said(tmp_path, "user-item")
    )
    assert rows(tmp_path, "user-item")[0][3].endswith(" times ease: one seed")


def test_federation_costs_what_the_worst_list_says(tmp_path):
    for data, fedrank, fedrule in (("wyze-synthetic", 0.27, 0.2), ("ifttt-fedrule", 0.24, 0.16)):
        means = {"graphrank": 0.3, "fedrank": fedrank, "graphrule": 0.2, "fedrule": fedrule, "fedgnn": 0.1, "mf": 0.9}
        for method, mean in means.items():
            keep(tmp_path, method, mean, data=data, **EXACT)
    # 0.24 / 0.3 = 80 %, 0.27 / 0.3 = 90 %; 0.1 / 0.2 = 50 % is the least of all; 0.16 / 0.2 = 80 %.
    assert said(tmp_path, "federation") == (
        "fedrank has 80 % [80, 80] to 90 % [90, 90] of the MRR of its central twin (by uncorrected 95 % intervals "
        "lower on 2 of 2 lists); the paper's fedrule as little as 80 % [80, 80] (lower on 1)."
    )
    least = "fedgnn of graphrule: 50 % [50, 50], lower"
    assert rows(tmp_path, "federation") == [
        ("wyze-synthetic", "90 % [90, 90], lower", "100 % [100, 100], undecided", least),
        ("ifttt-fedrule", "80 % [80, 80], lower", "80 % [80, 80], lower", least),
    ]
    assert "picked among 3 pairs of each list" in answer(tmp_path, "federation").details[0].about.caption


def test_without_fedrank_the_papers_method_is_named_and_without_both_the_worst(tmp_path):
    keep(tmp_path, "graphrule", 0.2, **EXACT)
    keep(tmp_path, "fedgnn", 0.1, **EXACT)
    assert said(tmp_path, "federation") == (
        "Fedgnn on wyze-synthetic has 50 % [50, 50] of the MRR of its central twin, the least of all methods."
    )
    keep(tmp_path, "fedrule", 0.3, **EXACT)
    assert said(tmp_path, "federation") == (
        "The paper's fedrule has 150 % [150, 150] of the MRR of its central twin (by uncorrected 95 % intervals higher "
        "on the only list)."
    )


def test_the_interval_of_what_federation_keeps_is_of_its_ratio(tmp_path):
    keep(tmp_path, "graphrank", 0.4, swing=0.04)
    keep(tmp_path, "fedrank", 0.36, swing=-0.036)
    # a - 0.9 b is -0.072 in even homes and 0.072 in odd ones; the error 0.072 / sqrt(39) = 0.01153 over 0.36 is 0.0320,
    # times 2.023 is 0.0648: 90 % / e^0.0648 = 84.4 % and 90 % * e^0.0648 = 96.0 %, below 100 %.
    assert said(tmp_path, "federation") == (
        "fedrank has 90 % [84, 96] of the MRR of its central twin (by uncorrected 95 % intervals lower on the only "
        "list)."
    )


def test_a_list_with_one_seed_is_neither_higher_nor_lower(tmp_path):
    for data, seeds in (("wyze-synthetic", (0,)), ("ifttt-fedrule", (0, 1)), ("home-assistant", (0, 1))):
        keep(tmp_path, "graphrank", 0.3, data=data, seeds=seeds, **EXACT)
        keep(tmp_path, "fedrank", 0.3 if data == "home-assistant" else 0.2, data=data, seeds=seeds, **EXACT)
    assert said(tmp_path, "federation").endswith("intervals lower on 1 of 3 lists, 1 with one seed).")


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([AHEAD, TIED, AHEAD], "ahead of mf on 2 of 3 lists"),
        ([AHEAD, BEHIND, TIED, ONE_SEED], "ahead of mf on 1 and behind on 1 of 4 lists, 1 with one seed"),
        ([BEHIND], "behind mf on the only list"),
        ([TIED, TIED], "told apart from mf on none of 2 lists"),
        ([ONE_SEED], "not told apart from mf on the only list, with one seed"),
        ([ONE_SEED, ONE_SEED], "told apart from mf on none of 2 lists, each with one seed"),
        ([LOWER, HIGHER, HIGHER], "higher than mf on 2 and lower on 1 of 3 lists"),
        ([UNDECIDED, ONE_SEED], "shown to differ from mf on none of 2 lists, 1 with one seed"),
        ([UNDECIDED], "not shown to differ from mf on the only list"),
    ],
)
def test_verdicts_are_counted_in_words(verdicts, text):
    assert tally(verdicts, "mf") == text


def test_two_ratios_of_independent_homes_differ_by_the_errors_of_both():
    # The logarithms have errors of 0.3 and 0.4, so their difference has 0.5.
    before = Ratio(2.0, 2 * math.exp(-0.3), 2 * math.exp(0.3), seeds=5)
    after = Ratio(1.0, math.exp(-0.4), math.exp(0.4), seeds=3)
    found = change_of(before, after)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5 * math.exp(-0.5), 0.5 * math.exp(0.5)))
    assert change_of(before, Ratio(1.0, math.nan, math.nan, seeds=3)) is None


def test_a_ratio_is_higher_or_lower_where_its_interval_excludes_1():
    assert of_ratio(Ratio(1.2, 1.01, 1.4, seeds=2)) == HIGHER
    assert of_ratio(Ratio(0.8, 0.7, 0.99, seeds=2)) == LOWER
    assert of_ratio(Ratio(1.2, 0.99, 1.4, seeds=2)) == UNDECIDED
    assert of_ratio(Ratio(1.2, math.nan, math.nan, seeds=2)) == UNDECIDED
    assert of_ratio(Ratio(1.2, 1.01, 1.4, seeds=1)) == ONE_SEED


def paper(folder, method, *, auc, loss, feasible=0.6, data="ifttt-fedrule", **other):
    """Runs by the protocol paper, the same in every home."""
    values = {name: [value] * HOMES for name, value in (("auc", auc), ("loss", loss), ("auc_feasible", feasible))}
    return keep(folder, method, values, protocol="paper", data=data, **other)


def test_algorithm_2_is_compared_in_ranking_and_by_the_papers_measures(tmp_path):
    for data, fedrule in (("ifttt-fedrule", 0.24), ("wyze-synthetic", 0.1)):
        keep(tmp_path, "fedgnn", 0.2, data=data, **EXACT)
        keep(tmp_path, "fedrule", fedrule, data=data, **EXACT)
    setting = {"parameters": {"preset": "paper"}}
    paper(tmp_path, "fedgnn", auc=0.9, loss=1.5, **setting)
    paper(tmp_path, "fedrule", auc=0.9, loss=0.5, **setting)
    # 0.1 / 0.2 = 0.50 and 0.24 / 0.2 = 1.20; the AUC of both is the same.
    assert said(tmp_path, "algorithm-2") == (
        "By uncorrected 95 % intervals the MRR of Algorithm 2 (fedrule) is higher than that of the same without "
        "corrections (fedgnn) on 1 and lower on 1 of 2 lists; in the paper's setting on ifttt-fedrule its loss is "
        "lower (0.500 [0.500, 0.500] against 1.50 [1.50, 1.50])."
    )
    assert rows(tmp_path, "algorithm-2") == [
        ("wyze-synthetic", "0.50 [0.50, 0.50] times", "lower"),
        ("ifttt-fedrule", "1.20 [1.20, 1.20] times", "higher"),
    ]
    assert rows(tmp_path, "algorithm-2", 1) == [
        ("loss", "0.500 [0.500, 0.500]", "1.50 [1.50, 1.50]", "lower", "0.693 (ln 2)"),
        ("AUC", "0.900 [0.900, 0.900]", "0.900 [0.900, 0.900]", "undecided", "0.5"),
    ]


def test_the_papers_setting_is_told_by_mrr_as_well_as_by_loss(tmp_path):
    setting = {"data": "ifttt-fedrule", "parameters": {"preset": "paper"}}
    for method, mrr, loss in (("fedrule", 0.1, 0.75), ("fedgnn", 0.2, 1.5)):
        paper(tmp_path, method, auc=0.9, loss=loss, parameters={"preset": "paper"})
        keep(tmp_path, method, mrr, **setting, **EXACT)
        keep(tmp_path, method, 0.3, data="ifttt-fedrule", **EXACT)
    keep(tmp_path, "random", 0.05, data="ifttt-fedrule", **EXACT)
    assert said(tmp_path, "algorithm-2").endswith(
        "; in the paper's setting on ifttt-fedrule its MRR is lower (0.100 [0.100, 0.100] against 0.200 [0.200, "
        "0.200]) and its loss is lower (0.750 [0.750, 0.750] against 1.50 [1.50, 1.50])."
    )
    # ln 2 is the loss of 1/2, whatever is true.
    both, by_chance = ("0.100 [0.100, 0.100]", "0.200 [0.200, 0.200]"), "0.0500 [0.0500, 0.0500]"
    assert rows(tmp_path, "algorithm-2", 1)[0] == ("MRR", *both, "lower", by_chance)


def test_homes_without_a_rule_that_counts_with_one_seed_are_nobodys_divergence(tmp_path):
    setting = {"data": "ifttt-fedrule", "parameters": {"preset": "paper"}}
    nothing = float("nan")
    for method, mrr in (("fedrule", 0.1), ("fedgnn", 0.2)):
        paper(tmp_path, method, auc=0.9, loss=0.5, parameters={"preset": "paper"})
        for seed, values in ((0, [nothing, mrr]), (1, [mrr, nothing])):
            keep(tmp_path, method, {"mrr": values * (HOMES // 2)}, seeds=(seed,), **setting)
    assert "NaN" not in said(tmp_path, "algorithm-2")


def test_the_method_whose_loss_is_not_finite_is_named_and_no_other(tmp_path):
    setting = {"parameters": {"preset": "paper"}}
    paper(tmp_path, "fedrule", auc=0.9, loss=0.5, **setting)
    paper(tmp_path, "fedgnn", auc=0.8, loss=float("nan"), seeds=(0,), **setting)
    paper(tmp_path, "fedgnn", auc=0.8, loss=1.5, seeds=(1,), **setting)
    assert said(tmp_path, "algorithm-2") == (
        "Algorithm 2 (fedrule) against the same without corrections (fedgnn), by uncorrected 95 % intervals: in the "
        "paper's setting on ifttt-fedrule its loss is 0.500 [0.500, 0.500] against NaN or infinite with 1 of 2 seeds."
    )
    assert rows(tmp_path, "algorithm-2")[1][1:4] == ("0.900 [0.900, 0.900]", "0.800 [0.800, 0.800]", "higher")


def test_a_loss_that_neither_method_has_is_said_of_both(tmp_path):
    for method in ("fedrule", "fedgnn"):
        paper(tmp_path, method, auc=0.9, loss=float("inf"), parameters={"preset": "paper"})
    nothing = "NaN or infinite with 2 of 2 seeds"
    assert rows(tmp_path, "algorithm-2")[0][:3] == ("loss", nothing, nothing)


def test_homes_that_no_method_has_a_value_in_are_nobodys_divergence(tmp_path):
    for method, auc in (("fedrule", 0.9), ("fedgnn", 0.8)):
        values = {"auc": [float("nan")] * 10 + [auc] * 30, "loss": [0.5] * HOMES}
        keep(tmp_path, method, values, protocol="paper", data="ifttt-fedrule", parameters={"preset": "paper"})
    assert "NaN" not in f"{said(tmp_path, 'algorithm-2')} {rows(tmp_path, 'algorithm-2')}"


def test_results_of_different_data_are_not_called_a_divergence(tmp_path):
    paper(tmp_path, "fedrule", auc=0.9, loss=0.5, parameters={"preset": "paper"})
    paper(tmp_path, "fedgnn", auc=0.9, loss=1.5, parameters={"preset": "paper"}, fingerprint="e" * 16)
    keep(tmp_path, "fedgnn", 0.2, **EXACT)
    keep(tmp_path, "fedrule", 0.2, **EXACT)
    note = answer(tmp_path, "algorithm-2").details[-1]
    assert "Not known: fedrule and fedgnn were not run with preset=paper by the protocol paper on the same data" in note
    assert "NaN" not in said(tmp_path, "algorithm-2")


def test_tables_that_are_gone_are_not_called_a_divergence(tmp_path):
    for method in ("fedrule", "fedgnn"):
        paper(tmp_path, method, auc=0.9, loss=0.5, parameters={"preset": "paper"})
    inputs = Inputs.read(tmp_path)
    for table in tmp_path.rglob("*.parquet"):
        table.unlink()
    (found,) = [each for each in findings(inputs) if each.finding.name == "algorithm-2"]
    assert not found.known
    assert "not a readable Parquet file" in found.headline
    assert "NaN" not in found.headline


def test_of_two_parts_the_one_that_is_missing_is_named(tmp_path):
    keep(tmp_path, "fedgnn", 0.2, **EXACT)
    keep(tmp_path, "fedrule", 0.2, **EXACT)
    assert said(tmp_path, "algorithm-2") == (
        "By uncorrected 95 % intervals the MRR of Algorithm 2 (fedrule) is not shown to differ from that of the same "
        "without corrections (fedgnn) on the only list."
    )
    assert answer(tmp_path, "algorithm-2").details[-1] == (
        "Not known: fedrule and fedgnn were not run with preset=paper by the protocol paper on the same data "
        "(`python -m benchmarks run default`)."
    )


def both_protocols(folder, of_methods, **other):
    """Methods with AUC against random non-rules and against feasible rules, and MRR."""
    for method, auc, feasible, mrr in of_methods:
        keep(folder, method, mrr, data="ifttt-fedrule", **EXACT, **other)
        paper(folder, method, auc=auc, loss=0.5, feasible=feasible, **other)


AGAINST = (
    ("graphrule", 0.99, 0.6, 0.1),
    ("fedgnn", 0.98, 0.5, 0.2),
    ("popularity", 0.97, 0.7, 0.3),
    ("graphrank", 0.96, 0.8, 0.4),
    ("random", 0.5, 0.5, 0.01),  # would make both orders alike
)


def test_the_papers_protocol_is_held_against_the_list(tmp_path):
    both_protocols(tmp_path, AGAINST)
    assert said(tmp_path, "protocol") == (
        "By the paper's AUC graphrule looks nearly perfect (0.990 [0.990, 0.990] on ifttt-fedrule), by MRR it is below "
        "popularity on the only list, told apart; of 4 methods by both protocols graphrule and fedgnn are first by AUC "
        "and are last by MRR on the only data set."
    )
    assert rows(tmp_path, "protocol") == [
        ("graphrule", "0.990 [0.990, 0.990]", "0.600 [0.600, 0.600]", "0.100 [0.100, 0.100]"),
        ("popularity", "0.970 [0.970, 0.970]", "0.700 [0.700, 0.700]", "0.300 [0.300, 0.300]"),
    ]
    # By MRR 1, 2, 3, 4; by AUC 4, 3, 2, 1: -1. By AUC against feasible ones 2, 1, 3, 4: the ranks differ by 1, 1, 0, 0,
    # and 1 - 6 * (1 + 1) / (4 * 15) = 0.8. Without the paper's methods two are left, too few.
    order = "graphrule, fedgnn, popularity, graphrank"
    assert rows(tmp_path, "protocol", 1) == [
        ("ifttt-fedrule", order, "-1.00 [-1.00, -1.00]", "0.80 [0.80, 0.80]", "unknown")
    ]


def test_the_order_of_the_others_may_agree_where_that_of_all_does_not(tmp_path):
    others = [
        ("ease", 0.5, 0.5, 0.2),
        ("mf", 0.6, 0.5, 0.3),
        ("graphrank", 0.7, 0.5, 0.4),
        ("gcmc", 0.4, 0.5, 0.1),
    ]
    papers = [(name, 0.9, 0.5, 0.05 - 0.01 * n) for n, name in enumerate(("graphrule", "fedgnn", "fedrule"))]
    both_protocols(tmp_path, others + papers)
    assert said(tmp_path, "protocol") == (
        "Of 7 methods by both protocols the paper's three are first by AUC and are last by MRR on the only data set."
    )
    assert rows(tmp_path, "protocol", 1)[0][-1] == "1.00 [1.00, 1.00]"


def test_the_papers_methods_are_not_first_where_they_are_not(tmp_path):
    agreeing = [(method, mrr + 0.2, feasible, mrr) for method, _, feasible, mrr in AGAINST]
    both_protocols(tmp_path, agreeing)
    assert said(tmp_path, "protocol") == (
        "By the paper's AUC graphrule has 0.300 [0.300, 0.300] on ifttt-fedrule, by MRR it is below popularity on the "
        "only list, told apart; of 4 methods by both protocols graphrule and fedgnn are not first by AUC and are last "
        "by MRR on the only data set."
    )


def test_a_network_that_is_above_popularity_is_not_said_to_be_below(tmp_path):
    others = [("popularity", 0.9, 0.6, 0.3), ("graphrank", 0.9, 0.6, 0.5), ("mf", 0.9, 0.6, 0.1)]
    both_protocols(tmp_path, [("graphrule", 0.99, 0.6, 0.4), *others])
    keep(tmp_path, "graphrule", 0.3, fingerprint="e" * 16, **EXACT)
    keep(tmp_path, "popularity", 0.2, fingerprint="e" * 16, **EXACT)
    assert said(tmp_path, "protocol").endswith(
        "by MRR it is below popularity on none of 2 lists; of 4 methods by both protocols graphrule is first by AUC "
        "and is not last by MRR on the only data set."
    )


def test_without_the_papers_methods_both_orders_are_correlated(tmp_path):
    others = [("ease", 0.5, 0.5, 0.2), ("mf", 0.6, 0.5, 0.3), ("graphrank", 0.7, 0.5, 0.4), ("gcmc", 0.4, 0.5, 0.5)]
    both_protocols(tmp_path, others, seeds=(0,))
    # By AUC 2, 3, 4, 1 and by MRR 1, 2, 3, 4: 1 - 6 * (1 + 1 + 1 + 9) / 60 = -0.2
    assert said(tmp_path, "protocol") == (
        "The rank correlation of methods by the paper's AUC and by MRR is -0.20 (ifttt-fedrule, one seed)."
    )


def test_the_papers_setting_stands_beside_what_the_paper_reports(tmp_path):
    both_protocols(tmp_path, AGAINST)
    paper(tmp_path, "fedgnn", auc=0.88, loss=0.5, parameters={"preset": "paper"})
    assert rows(tmp_path, "protocol", 2) == [("fedgnn", "0.880 [0.880, 0.880]", "0.907")]


def test_three_methods_by_both_protocols_are_too_few_to_correlate(tmp_path):
    for method in ("graphrule", "fedgnn", "popularity"):
        keep(tmp_path, method, 0.2, data="ifttt-fedrule", **EXACT)
        paper(tmp_path, method, auc=0.9, loss=0.5)
    headline = answer(tmp_path, "protocol").headline
    assert headline == "These results do not say: no data set has 4 methods by both protocols."


def of_size(homes):
    """The data with so many homes."""
    return {"options": {"homes": homes}, "fingerprint": f"{homes:016d}", "counts": {"homes": homes}, **EXACT}


def test_the_number_of_homes_is_told_by_its_two_ends(tmp_path):
    for homes, graphrank, ease in ((1000, 0.3, 0.2), (10_000, 0.2, 0.1), (76_218, 0.3, 0.25)):
        keep(tmp_path, "graphrank", graphrank, **of_size(homes))
        keep(tmp_path, "ease", ease, **of_size(homes))
    # 0.3 / 0.2 = 1.50, 0.2 / 0.1 = 2.00 and 0.3 / 0.25 = 1.20
    assert said(tmp_path, "homes") == (
        "From 1,000 to 76,218 homes of wyze-synthetic the best evidence, feature or graph method goes from 1.50 [1.50, "
        "1.50] (graphrank) to 1.20 [1.20, 1.20] (graphrank) times the MRR of the best simple method; lower by "
        "uncorrected 95 % intervals."
    )
    assert rows(tmp_path, "homes") == [
        ("1,000", "0.300 [0.300, 0.300]", "0.200 [0.200, 0.200]"),
        ("10,000", "0.200 [0.200, 0.200]", "0.100 [0.100, 0.100]"),
        ("76,218", "0.300 [0.300, 0.300]", "0.250 [0.250, 0.250]"),
    ]
    graphrank = "graphrank (evidence ranking)"
    assert rows(tmp_path, "homes", 1) == [
        ("1,000", graphrank, "1.50 [1.50, 1.50] times ease: ahead", NONE),
        ("10,000", graphrank, "2.00 [2.00, 2.00] times ease: ahead", NONE),
        ("76,218", graphrank, "1.20 [1.20, 1.20] times ease: ahead", NONE),
    ]


def test_a_method_that_was_not_run_with_the_most_homes_is_not_the_best_with_the_fewest(tmp_path):
    for homes, means in (
        (1000, {"fedrank": 0.4, "graphrank": 0.3, "ease": 0.2}),
        (2000, {"graphrank": 0.3, "ease": 0.2}),
    ):
        for method, mean in means.items():
            keep(tmp_path, method, mean, **of_size(homes))
    assert said(tmp_path, "homes").endswith(
        "goes from 1.50 [1.50, 1.50] (graphrank) to 1.50 [1.50, 1.50] (graphrank) times the MRR of the best simple "
        "method; no change is shown."
    )


def test_with_one_seed_a_change_with_the_number_of_homes_is_not_told(tmp_path):
    for homes, graphrank in ((1000, 0.3), (2000, 0.2)):
        keep(tmp_path, "graphrank", graphrank, seeds=(0,), **of_size(homes))
        keep(tmp_path, "ease", 0.2, seeds=(0,), **of_size(homes))
    assert said(tmp_path, "homes").endswith("; one seed, no test.")
    keep(tmp_path, "graphrank", 0.3, seeds=(0,), **of_size(2000))
    assert said(tmp_path, "homes").endswith("; no change is shown (one seed).")


def test_a_size_that_only_simple_methods_were_run_with_is_no_end(tmp_path):
    for homes in (1000, 2000, 76_218):
        keep(tmp_path, "ease", 0.2, **of_size(homes))
    for homes in (1000, 2000):
        keep(tmp_path, "graphrank", 0.3, **of_size(homes))
    assert said(tmp_path, "homes").startswith("From 1,000 to 2,000 homes of wyze-synthetic the best evidence, ")


def test_without_simple_methods_the_number_of_homes_is_told_of_one_method(tmp_path):
    for homes, mean in ((1000, 0.3), (2000, 0.2)):
        keep(tmp_path, "graphrank", mean, **of_size(homes))
    assert said(tmp_path, "homes") == (
        "From 1,000 to 2,000 homes of wyze-synthetic the MRR of graphrank goes from 0.300 [0.300, 0.300] to 0.200 "
        "[0.200, 0.200]; lower by uncorrected 95 % intervals."
    )


LARGE = "devices >20"


def in_slices(folder, method, mean, slices, **other):
    """A ranking with (hidden rules, value) of slices, by slice and metric; the same with both seeds."""
    summary = {}
    for (name, metric), (hidden, value) in slices.items():
        summary |= {f"{name}: hidden": float(hidden), f"{name}: {metric}": value}
    keep(folder, method, mean, summary=summary, **EXACT, **other)


def test_small_and_large_homes_are_those_with_enough_hidden_rules(tmp_path):
    for method, mean, small, large in (("graphrank", 0.3, 0.6, 0.2), ("ease", 0.2, 0.5, 0.1)):
        slices = {("devices 1-2", "mrr"): (20, small), ("devices 3-5", "mrr"): (5, 0.9), (LARGE, "mrr"): (30, large)}
        in_slices(tmp_path, method, mean, slices)
    # Of two seeds, homes of 3-5 devices have 10 hidden rules, fewer than 30. 0.2 / 0.6 = 0.33, 0.6 / 0.5 = 1.20 and
    # 0.2 / 0.1 = 2.00.
    assert said(tmp_path, "home-size") == (
        "In large homes the best method's MRR, with orphans, is 0.33 [0.33, 0.33] (wyze-synthetic, over 20 against 1-2 "
        "devices) times that in small homes: by uncorrected 95 % intervals lower on the only data set."
    )
    assert rows(tmp_path, "home-size") == [
        ("wyze-synthetic", "1-2", "40", "graphrank 0.600 [0.600, 0.600]", "1.20 [1.20, 1.20] times ease"),
        ("wyze-synthetic", "over 20", "60", "graphrank 0.200 [0.200, 0.200]", "2.00 [2.00, 2.00] times ease"),
    ]


def test_unseen_rules_have_a_best_method_of_their_own(tmp_path):
    for method, mean, seen, unseen in (("ease", 0.3, 0.4, 0.0), ("graphrule", 0.1, 0.2, 0.05)):
        in_slices(tmp_path, method, mean, {("seen", "mrr, all"): (60, seen), ("unseen", "mrr, all"): (20, unseen)})
    # 20 of 80 are 25 %.
    assert said(tmp_path, "unseen-rules") == (
        "25 % of hidden rules occur in no training home; the best of 2 methods on them has an MRR of 0.0500 [0.0500, "
        "0.0500] (wyze-synthetic, 40 rules over 2 seeds)."
    )
    assert rows(tmp_path, "unseen-rules") == [
        ("wyze-synthetic", "25 %", "40", "graphrule 0.0500 [0.0500, 0.0500]", "0.200 [0.200, 0.200]")
    ]


def test_homes_not_seen_in_training_have_a_sentence_of_their_own(tmp_path):
    for split, graphrank in (("new_homes", 0.3), ("holdout", 0.9), ("leave_one_out", 0.9)):
        keep(tmp_path, "graphrank", graphrank, split={"split": split}, **EXACT)
        keep(tmp_path, "ease", 0.2, split={"split": split}, **EXACT)
    assert said(tmp_path, "new-homes") == (
        "In homes not seen in training the best evidence, feature or graph method (graphrank) is ahead of the best "
        "simple method on the only list (1.50 [1.50, 1.50] times its MRR)."
    )
    assert rows(tmp_path, "new-homes")[0][0] == "wyze-synthetic, 40 homes, 2 seeds"


def test_new_homes_are_told_with_the_options_of_their_data(tmp_path):
    for method, mean in (("graphrank", 0.3), ("ease", 0.2)):
        where = {"track": "instances", "options": {"preset": "public"}, "split": {"split": "new_homes"}}
        keep(tmp_path, method, mean, **where, **EXACT)
    assert rows(tmp_path, "new-homes")[0][0] == "single devices of wyze-synthetic (preset=public), 40 homes, 2 seeds"
    for method, mean in (("graphrank", 0.3), ("ease", 0.2), ("mf", 0.1)):
        keep(tmp_path, method, mean, track="instances", split={"split": "new_homes"}, **EXACT)
    # Homes of other counts are another data set, though the name is the same.
    assert "on 2 of 2 lists (" in said(tmp_path, "new-homes")
    assert [row[0] for row in rows(tmp_path, "new-homes")] == [
        "single devices of wyze-synthetic, 40 homes, 2 seeds",
        "single devices of wyze-synthetic (preset=public), 40 homes, 2 seeds",
    ]


def test_what_remains_open_is_what_the_best_list_misses(tmp_path):
    values = {"mrr": [0.5] * HOMES, "hr@10": [1.0] * 30 + [0.0] * 10}
    unseen = {"unseen: hidden": 15.0, "unseen: hr@10, all": 0.2}
    keep(tmp_path, "graphrank", values, seeds=(0, 1), summary=unseen)
    keep(tmp_path, "ease", {"mrr": [0.4] * HOMES, "hr@10": [1.0] * HOMES}, summary=unseen | {"unseen: hr@10, all": 0.1})
    # 10 of 40 homes: 25 %. The same homes with each seed, so the error is that of 40 homes:
    # sqrt(40 / 39 * 40 * 0.25 * 0.75 / 40^2) = 0.0693, times 2.02 is 0.14.
    assert said(tmp_path, "open") == (
        "In ten recommendations the best method misses 25 % [11, 39] (wyze-synthetic) of the hidden rules that count "
        "in its list; the best of 2 methods misses 80 % [80, 80] of hidden rules that no training home has."
    )
    assert rows(tmp_path, "open") == [("wyze-synthetic", "none", "graphrank 25 % [11, 39]", "graphrank 80 % [80, 80]")]


def test_hidden_rules_with_an_orphan_are_said_to_be_left_out_of_closed_lists(tmp_path):
    closed = {"mrr, closed": [0.5] * HOMES, "hr@10, closed": [1.0] * HOMES, "n_hidden, closed": [1] * HOMES}
    counts = {"homes": HOMES, "devices": 100, "devices without rules": 0}
    keep(tmp_path, "graphrank", closed, counts=counts, summary={"hidden": 50.0, "hidden, closed": 40.0})
    # 10 of 50 hidden rules.
    assert rows(tmp_path, "open") == [("wyze-synthetic", "20 %", "graphrank 0 % [0, 0]")]


def test_without_unseen_rules_what_is_missed_stands_alone(tmp_path):
    keep(tmp_path, "graphrank", {"mrr": [0.5] * HOMES, "hr@10": [1.0] * 30 + [0.0] * 10})
    assert said(tmp_path, "open") == (
        "In ten recommendations the best method misses 25 % [11, 39] (wyze-synthetic) of the hidden rules that count "
        "in its list."
    )
    assert rows(tmp_path, "open") == [("wyze-synthetic", "none", "graphrank 25 % [11, 39]")]


@pytest.mark.parametrize("name", NAMES)
def test_without_results_every_finding_says_what_to_run(tmp_path, name):
    found = answer(tmp_path, name)
    assert not found.known
    assert found.headline.startswith("These results do not say: ")
    assert found.command.startswith("python -m benchmarks run ")


def test_few_results_of_any_kind_break_no_finding(tmp_path):
    keep(tmp_path / "a", "their-own", 0.3, seeds=(0,))
    keep(tmp_path / "b", "graphrule", 0.9, protocol="paper", metric="auc")
    keep(tmp_path / "c", "graphrank", 0.3, curves=10)
    for folder in (small_results(tmp_path / "d"), tmp_path / "a", tmp_path / "b", tmp_path / "c"):
        assert [each.finding.name for each in findings(Inputs.read(folder))] == NAMES


def test_results_of_different_data_are_no_finding_and_no_crash(tmp_path):
    keep(tmp_path, "graphrank", 0.3)
    keep(tmp_path, "ease", 0.2, fingerprint="e" * 16)
    assert [each.known for each in findings(Inputs.read(tmp_path))] == [False] * 10


def test_an_interval_over_seeds_is_students():
    # Seeds 1, 2, 3: mean 2, standard deviation 1, error 1 / sqrt(3) = 0.577, times 4.303 of two degrees of freedom.
    assert over_seeds([1.0, 2.0, 3.0]) == pytest.approx((2, 2 - 2.484, 2 + 2.484), abs=1e-3)


def sliced_runs(*values):
    """A run for each (hidden rules, value) of homes with 1-2 devices."""
    return [
        run("ease", seed, summary={"devices 1-2: hidden": float(hidden), "devices 1-2: mrr": value})
        for seed, (hidden, value) in enumerate(values)
    ]


def test_a_seed_counts_by_its_hidden_rules():
    mean = slice_mean(sliced_runs((30, 0.2), (10, 0.6), (0, float("nan"))), "devices 1-2", "mrr")
    # (30 * 0.2 + 10 * 0.6) / 40 = 0.3. Parts: 30 * -0.1 / 40 = -0.075 and 10 * 0.3 / 40 = 0.075; the error is
    # sqrt(2 * (0.075^2 + 0.075^2)) = 0.15, times 12.7 of one degree of freedom, cut off at 0 and 1.
    assert (mean.value, mean.low, mean.high, mean.hidden) == pytest.approx((0.3, 0, 1, 40))
    assert slice_mean(sliced_runs((30, float("nan")), (10, 0.6)), "devices 1-2", "mrr") is None
    assert slice_mean([], "devices 1-2", "mrr") is None


def test_a_ratio_of_slices_is_exact_where_seeds_agree():
    ratio = slice_ratio(sliced_runs((30, 0.2), (10, 0.6)), sliced_runs((30, 0.1), (10, 0.3)), "devices 1-2", "mrr")
    assert (ratio.value, ratio.low, ratio.high, ratio.seeds) == pytest.approx((2, 2, 2, 2))
    assert slice_ratio(sliced_runs((30, 0.2)), sliced_runs((30, 0.0)), "devices 1-2", "mrr") is None


def test_the_change_from_small_to_large_homes_is_exact_where_seeds_agree():
    def sizes(seed, small, large):
        summary = {"a: hidden": 30.0, "a: mrr": small, "b: hidden": 10.0, "b: mrr": large}
        return run("ease", seed, summary=summary)

    exact = slice_change([sizes(0, 0.2, 0.1), sizes(1, 0.2, 0.1)], "a", "b", "mrr")
    assert (exact.value, exact.low, exact.high, exact.seeds) == pytest.approx((0.5, 0.5, 0.5, 2))
    # 0.2 and 0.4 to 0.3 and 0.3: the ratio of means is 1. Parts: 0 - (0.2 / 0.3 - 1) / 2 = 1/6 and -1/6; the error is
    # sqrt(2 * (1/36 + 1/36)) = 1/3, times 12.706 of one degree of freedom 4.235.
    found = slice_change([sizes(0, 0.2, 0.3), sizes(1, 0.4, 0.3)], "a", "b", "mrr")
    assert (found.value, found.low, found.high) == pytest.approx((1, math.exp(-4.235), math.exp(4.235)), rel=1e-3)
    assert slice_change([sizes(0, 0.2, 0.0)], "a", "b", "mrr") is None
    assert slice_change([], "a", "b", "mrr") is None


def test_slices_without_hidden_rules_are_left_out():
    runs = [run("ease", summary={"devices 1-2: hidden": 0.0, "devices 3-5: hidden": 4.0, "unseen: hidden": 2.0})]
    assert size_slices(runs) == ["devices 3-5"]
    assert hidden_rules(runs, "unseen") == 2


def test_numbers_have_as_many_digits_as_count():
    assert interval(0.2887, 0.2746, 0.3029) == "0.289 [0.275, 0.303]"
    assert interval(0.05104, 0.0, 0.1048) == "0.0510 [0.0000, 0.1048]"
    assert interval(1.654, 0.9, 2.3) == "1.65 [0.90, 2.30]"
    assert interval(0.5, float("nan"), float("nan")) == "0.500"
    assert percent(0.97, 0.95, 1.0) == "97 % [95, 100]"
    assert percent(0.996, 0.994, 0.999) == "99.6 % [99.4, 99.9]"


def test_a_finding_that_is_missing_has_no_sources():
    with pytest.raises(Missing):
        FINDINGS[0].state(Inputs())
