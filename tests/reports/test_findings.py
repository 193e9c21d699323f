"""Each finding says what small made results say, with the arithmetic of its numbers; missing results are a sentence."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing
from reports.slices import hidden_rules, over_seeds, size_slices, slice_mean, slice_ratio
from reports.text.findings import FINDINGS, findings
from reports.text.intervals import interval, percent
from tests.support.made_runs import HOMES, keep, run, small_results

EXACT = {"swing": 0.0}  # all homes are the same, so that intervals have no width
BEST = (
    "best graph method (evidence, features or network) has so many times the MRR of the best simple method (user-item "
    "or popularity)"
)
NAMES = [finding.name for finding in FINDINGS]


def answer(folder, name):
    """The answer to one question."""
    (found,) = [each for each in findings(Inputs.read(folder)) if each.finding.name == name]
    return found


def said(folder, name):
    found = answer(folder, name)
    assert found.known, found.text
    assert found.command == found.finding.command
    return found.text


def test_the_first_of_each_data_set_is_named_with_its_formulation(tmp_path):
    for data, track, means in (
        ("wyze-synthetic", "types", {"random": 0.9, "graphrank": 0.3, "fedrank": 0.28, "ease": 0.25}),
        ("ifttt-synthetic", "types", {"ease": 0.4, "graphrank": 0.4}),  # equal: the first of its name is first
        ("wyze-synthetic", "instances", {"graphrank": 0.2, "ease": 0.1}),
    ):
        for method, mean in means.items():
            keep(tmp_path, method, mean, data=data, track=track, **EXACT)
    # Random order is no competitor, and fedrank is of the same formulation as graphrank.
    assert said(tmp_path, "formulation") == (
        "First with devices merged by type: evidence ranking on wyze-synthetic (graphrank, MRR 0.300 [0.300, 0.300]); "
        "user-item, linear on ifttt-synthetic (ease, MRR 0.400 [0.400, 0.400]); told apart from the best method of "
        "another formulation on 1 of 2 data sets. First among single devices: evidence ranking on wyze-synthetic "
        "(graphrank, MRR 0.200 [0.200, 0.200]); told apart from the best method of another formulation on 1 of 1 data "
        "set."
    )


def test_the_lead_over_user_item_methods_is_that_of_each_real_data_set(tmp_path):
    for method, mean in {"graphrank": 0.3, "fedrank": 0.33, "ease": 0.3, "mf": 0.2}.items():
        keep(tmp_path, method, mean, data="ifttt-fedrule", **EXACT)
    keep(tmp_path, "graphrule", 0.09, data="home-assistant", **EXACT)
    keep(tmp_path, "ease", 0.1, data="home-assistant", **EXACT)
    keep(tmp_path, "graphrank", 0.9, **EXACT)  # synthetic homes
    keep(tmp_path, "ease", 0.1, **EXACT)
    keep(tmp_path, "popularity", 0.08, data="home-assistant", **EXACT)
    keep(tmp_path, "compgcn", 0.24, data="ifttt-fedrule", **EXACT)
    # 0.33 / 0.3 = 1.10, 0.09 / 0.1 = 0.90 and 0.24 / 0.3 = 0.80
    assert said(tmp_path, "user-item") == (
        f"On real data the {BEST}: 1.10 [1.10, 1.10] on ifttt-fedrule (fedrank, evidence ranking, over ease; told "
        "apart) and 0.90 [0.90, 0.90] on home-assistant (graphrule, graph neural network, over ease; told apart). For "
        "the best graph neural network it is: 0.80 [0.80, 0.80] on ifttt-fedrule (compgcn, relational graph neural "
        "network, over ease; told apart) and 0.90 [0.90, 0.90] on home-assistant (graphrule, graph neural network, "
        "over ease; told apart)."
    )


def test_popularity_is_the_best_simple_method_where_it_leads(tmp_path):
    for method, mean in {"graphrank": 0.3, "popularity": 0.25, "ease": 0.2}.items():
        keep(tmp_path, method, mean, data="ifttt-fedrule", **EXACT)
    assert "1.20 [1.20, 1.20] on ifttt-fedrule (graphrank, evidence ranking, over popularity;" in (
        said(tmp_path, "user-item")
    )


def test_the_interval_of_a_lead_has_its_low_end_first(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.03, data="ifttt-fedrule")
    keep(tmp_path, "ease", 0.20, swing=-0.02, data="ifttt-fedrule")
    # a - 1.5 b is 0 + 0.06 in even homes and 0 - 0.06 in odd ones, with each seed. Its error is that of 40 homes:
    # 0.06 / sqrt(39) = 0.0096, over a 0.0320, times 2.023 of 39 degrees of freedom 0.0648; 1.5 / e^0.0648 = 1.41 and
    # 1.5 * e^0.0648 = 1.60.
    assert "1.50 [1.41, 1.60] on ifttt-fedrule (graphrank, evidence ranking, over ease; told apart)" in (
        said(tmp_path, "user-item")
    )


def test_what_cannot_be_told_apart_is_not_called_a_lead(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.2, data="ifttt-fedrule")
    keep(tmp_path, "ease", 0.29, swing=-0.2, data="ifttt-fedrule")
    text = said(tmp_path, "user-item")
    assert "1.03 [" in text  # 0.30 / 0.29 = 1.034
    assert text.endswith("on ifttt-fedrule (graphrank, evidence ranking, over ease; cannot be told apart).")


def test_federation_costs_what_the_worst_list_says(tmp_path):
    for data, fedrank, fedrule in (("wyze-synthetic", 0.27, 0.2), ("ifttt-fedrule", 0.24, 0.16)):
        means = {"graphrank": 0.3, "fedrank": fedrank, "graphrule": 0.2, "fedrule": fedrule, "fedgnn": 0.1, "mf": 0.9}
        for method, mean in means.items():
            keep(tmp_path, method, mean, data=data, **EXACT)
    # 0.24 / 0.3 = 80 %, 0.27 / 0.3 = 90 %; 0.1 / 0.2 = 50 % is the least of all; 0.16 / 0.2 = 80 %.
    assert said(tmp_path, "federation") == (
        "fedrank has 80 % [80, 80] on ifttt-fedrule to 90 % [90, 90] on wyze-synthetic of the MRR of graphrank, its "
        "twin with all data in one place; the 95 % interval of the difference, not corrected for several comparisons, "
        "is below 0 on 2 of 2 lists with several seeds. The least of all federated methods beside their twins (picked "
        "among 6 pairs) is fedgnn 50 % [50, 50] of graphrule on wyze-synthetic; fedrule, the paper's, has at least "
        "80 % [80, 80] of graphrule on ifttt-fedrule (picked among 2 lists)."
    )


def test_the_interval_of_what_federation_keeps_is_of_its_difference(tmp_path):
    keep(tmp_path, "graphrank", 0.4, swing=0.04)
    keep(tmp_path, "fedrank", 0.36, swing=-0.036)
    # a - 0.9 b is -0.072 in even homes and 0.072 in odd ones; the error 0.072 / sqrt(39) = 0.01153 over 0.36 is 0.0320,
    # times 2.023 is 0.0648: 90 % / e^0.0648 = 84.4 % and 90 % * e^0.0648 = 96.0 %. The difference -0.04 has an error of
    # 0.076 / sqrt(39) = 0.0122, times 2.023 is 0.0246: it ends at -0.015.
    text = said(tmp_path, "federation")
    assert text.startswith("fedrank has 90 % [84, 96] on wyze-synthetic of the MRR of graphrank")
    assert "is below 0 on 1 of 1 list with several seeds." in text


def test_a_list_with_one_seed_counts_neither_way(tmp_path):
    for data, seeds in (("wyze-synthetic", (0,)), ("ifttt-fedrule", (0, 1)), ("home-assistant", (0, 1))):
        keep(tmp_path, "graphrank", 0.3, data=data, seeds=seeds, **EXACT)
        keep(tmp_path, "fedrank", 0.3 if data == "home-assistant" else 0.2, data=data, seeds=seeds, **EXACT)
    text = said(tmp_path, "federation")
    assert "(lowest and highest picked among 3 lists); " in text
    assert "is below 0 on 1 of 2 lists with several seeds." in text


def test_with_one_seed_nothing_is_said_of_the_difference(tmp_path):
    for method, mean in (("graphrank", 0.3), ("fedrank", 0.2)):
        keep(tmp_path, method, mean, seeds=(0,), **EXACT)
    assert "with one seed nothing can be said of the difference." in said(tmp_path, "federation")


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
        "With their defaults fedrule has 0.50 [0.50, 0.50] times (on wyze-synthetic) to 1.20 [1.20, 1.20] times (on "
        "ifttt-fedrule) the MRR of fedgnn; the 95 % interval of the difference, not corrected for several comparisons, "
        "is below 0 on 1 and above 0 on 1 of 2 lists with several seeds. In the "
        "paper's setting (preset=paper) on ifttt-fedrule, 40 homes: loss of fedrule 0.500 [0.500, 0.500] and of fedgnn "
        "1.50 [1.50, 1.50] (the interval of the difference excludes 0); AUC of fedrule 0.900 [0.900, 0.900] and of "
        "fedgnn 0.900 [0.900, 0.900] (the interval of the difference contains 0)."
    )


def test_the_method_whose_loss_is_not_finite_is_named_and_no_other(tmp_path):
    setting = {"parameters": {"preset": "paper"}}
    paper(tmp_path, "fedrule", auc=0.9, loss=0.5, **setting)
    paper(tmp_path, "fedgnn", auc=0.8, loss=float("nan"), seeds=(0,), **setting)
    paper(tmp_path, "fedgnn", auc=0.8, loss=1.5, seeds=(1,), **setting)
    assert (
        "on ifttt-fedrule, 40 homes: loss of fedrule 0.500 [0.500, 0.500] and of fedgnn NaN or infinite with 1 of 2 "
        "seeds; AUC of fedrule 0.900 [0.900, 0.900] and of fedgnn 0.800 [0.800, 0.800] (the "
        "interval of the difference excludes 0)."
    ) in said(tmp_path, "algorithm-2")


def test_a_loss_that_neither_method_has_is_said_of_both(tmp_path):
    for method in ("fedrule", "fedgnn"):
        paper(tmp_path, method, auc=0.9, loss=float("inf"), parameters={"preset": "paper"})
    text = said(tmp_path, "algorithm-2")
    assert "loss of fedrule NaN or infinite with 2 of 2 seeds and of fedgnn NaN or infinite with 2 of 2 seeds" in text


def test_homes_that_no_method_has_a_value_in_are_nobodys_divergence(tmp_path):
    for method, auc in (("fedrule", 0.9), ("fedgnn", 0.8)):
        values = {"auc": [float("nan")] * 10 + [auc] * 30, "loss": [0.5] * HOMES}
        keep(tmp_path, method, values, protocol="paper", data="ifttt-fedrule", parameters={"preset": "paper"})
    assert "NaN" not in said(tmp_path, "algorithm-2")


def test_results_of_different_data_are_not_called_a_divergence(tmp_path):
    paper(tmp_path, "fedrule", auc=0.9, loss=0.5, parameters={"preset": "paper"})
    paper(tmp_path, "fedgnn", auc=0.9, loss=1.5, parameters={"preset": "paper"}, fingerprint="e" * 16)
    keep(tmp_path, "fedgnn", 0.2, **EXACT)
    keep(tmp_path, "fedrule", 0.2, **EXACT)
    text = said(tmp_path, "algorithm-2")
    assert "Not known: fedrule and fedgnn were not run with preset=paper by the protocol paper on the same data" in text
    assert "NaN" not in text


def test_tables_that_are_gone_are_not_called_a_divergence(tmp_path):
    for method in ("fedrule", "fedgnn"):
        paper(tmp_path, method, auc=0.9, loss=0.5, parameters={"preset": "paper"})
    inputs = Inputs.read(tmp_path)
    for table in tmp_path.rglob("*.parquet"):
        table.unlink()
    (found,) = [each for each in findings(inputs) if each.finding.name == "algorithm-2"]
    assert not found.known
    assert "not a readable Parquet file" in found.text
    assert "NaN" not in found.text


def test_of_two_parts_the_one_that_is_missing_is_named(tmp_path):
    keep(tmp_path, "fedgnn", 0.2, **EXACT)
    keep(tmp_path, "fedrule", 0.2, **EXACT)
    assert said(tmp_path, "algorithm-2") == (
        "With their defaults fedrule has 1.00 [1.00, 1.00] times (on wyze-synthetic) the MRR of fedgnn; the 95 % "
        "interval of the difference, not corrected for several comparisons, contains 0 on the only list with "
        "several seeds. Not known: fedrule and fedgnn were not run with preset=paper by the "
        "protocol paper on the same data (`python -m benchmarks run default`)."
    )


def test_the_papers_protocol_is_held_against_the_list(tmp_path):
    for method, auc, feasible, mrr in (
        ("graphrule", 0.99, 0.6, 0.1),
        ("fedgnn", 0.98, 0.5, 0.2),
        ("popularity", 0.97, 0.7, 0.3),
        ("graphrank", 0.96, 0.8, 0.4),
        ("random", 0.5, 0.5, 0.01),  # would make both orders alike
    ):
        keep(tmp_path, method, mrr, data="ifttt-fedrule", **EXACT)
        paper(tmp_path, method, auc=auc, loss=0.5, feasible=feasible)
    # By MRR 1, 2, 3, 4; by AUC 4, 3, 2, 1: -1. By AUC against feasible ones 2, 1, 3, 4: the ranks differ by 1, 1, 0, 0,
    # and 1 - 6 * (1 + 1) / (4 * 15) = 0.8.
    assert said(tmp_path, "protocol") == (
        "On ifttt-fedrule graphrule has AUC 0.990 [0.990, 0.990] against random non-rules, 0.600 [0.600, 0.600] "
        "against rules that the home could have, and MRR 0.100 [0.100, 0.100]; popularity has AUC 0.970 [0.970, "
        "0.970] against random non-rules, 0.700 [0.700, 0.700] against rules that the home could have, and MRR 0.300 "
        "[0.300, 0.300]. The rank correlation of methods by MRR and by each of the two AUC is -1.00 [-1.00, -1.00] "
        "and 0.80 [0.80, 0.80] on ifttt-fedrule [95 % over seeds]."
    )


def test_three_methods_by_both_protocols_are_too_few_to_correlate(tmp_path):
    for method in ("graphrule", "fedgnn", "popularity"):
        keep(tmp_path, method, 0.2, data="ifttt-fedrule", **EXACT)
        paper(tmp_path, method, auc=0.9, loss=0.5)
    assert answer(tmp_path, "protocol").text == "These results do not say: no data set has 4 methods by both protocols."


def test_the_number_of_homes_is_told_by_its_two_ends(tmp_path):
    for homes, graphrank, ease in ((1000, 0.3, 0.2), (10_000, 0.2, 0.1), (76_218, 0.3, 0.25)):
        size = {"options": {"homes": homes}, "fingerprint": f"{homes:016d}", "counts": {"homes": homes}}
        keep(tmp_path, "graphrank", graphrank, **size, **EXACT)
        keep(tmp_path, "ease", ease, **size, **EXACT)
    # 0.3 / 0.2 = 1.50 and 0.3 / 0.25 = 1.20
    assert said(tmp_path, "homes") == (
        "With so many homes of wyze-synthetic, graphrank has MRR 0.300 [0.300, 0.300] of 1,000 and 0.300 [0.300, "
        "0.300] of 76,218; ease has MRR 0.200 [0.200, 0.200] of 1,000 and 0.250 [0.250, 0.250] of 76,218. "
        f"The {BEST}: 1.50 [1.50, 1.50] with 1,000 homes (graphrank, evidence ranking, over ease; told apart) and "
        "1.20 [1.20, 1.20] with 76,218 homes (graphrank, evidence ranking, over ease; told apart)."
    )


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
    # Of two seeds, homes of 3-5 devices have 10 hidden rules, fewer than 30. 0.6 / 0.5 = 1.20 and 0.2 / 0.1 = 2.00.
    assert said(tmp_path, "home-size") == (
        "MRR of the best method in small and in large homes: on wyze-synthetic graphrank has 0.600 [0.600, 0.600] "
        "with 1-2 devices (1.20 [1.20, 1.20] times ease) and 0.200 [0.200, 0.200] with more than 20 devices (2.00 "
        "[2.00, 2.00] times ease) [95 % over seeds]."
    )


LARGE = "devices >20"


def test_unseen_rules_have_a_best_method_of_their_own(tmp_path):
    for method, mean, seen, unseen in (("ease", 0.3, 0.4, 0.0), ("graphrule", 0.1, 0.2, 0.05)):
        in_slices(tmp_path, method, mean, {("seen", "mrr, all"): (60, seen), ("unseen", "mrr, all"): (20, unseen)})
    # 20 of 80 are 25 %.
    assert said(tmp_path, "unseen-rules") == (
        "Hidden rules that no training home has: 25 % on wyze-synthetic. Their highest MRR, among all candidates "
        "(picked among 2 methods): graphrule 0.0500 [0.0500, 0.0500] on wyze-synthetic (0.200 [0.200, 0.200] for rules "
        "that some training home has) [95 % over seeds]."
    )


def test_homes_not_seen_in_training_have_a_sentence_of_their_own(tmp_path):
    for split, graphrank in (("new_homes", 0.3), ("holdout", 0.9), ("leave_one_out", 0.9)):
        keep(tmp_path, "graphrank", graphrank, split={"split": split}, **EXACT)
        keep(tmp_path, "ease", 0.2, split={"split": split}, **EXACT)
    assert said(tmp_path, "new-homes") == (
        f"In homes not seen in training the {BEST}: 1.50 [1.50, 1.50] on wyze-synthetic, 40 homes, 2 seeds "
        "(graphrank, evidence ranking, over ease; told apart)."
    )


def test_new_homes_are_told_with_the_options_of_their_data(tmp_path):
    for method, mean in (("graphrank", 0.3), ("ease", 0.2)):
        where = {"track": "instances", "options": {"preset": "public"}, "split": {"split": "new_homes"}}
        keep(tmp_path, method, mean, **where, **EXACT)
    assert " on single devices of wyze-synthetic (preset=public), 40 homes, 2 seeds (" in said(tmp_path, "new-homes")


def test_what_remains_open_is_what_the_best_list_misses(tmp_path):
    values = {"mrr": [0.5] * HOMES, "hr@10": [1.0] * 30 + [0.0] * 10}
    unseen = {"unseen: hidden": 15.0, "unseen: hr@10, all": 0.2}
    keep(tmp_path, "graphrank", values, seeds=(0, 1), summary=unseen)
    keep(tmp_path, "ease", {"mrr": [0.4] * HOMES, "hr@10": [1.0] * HOMES}, summary=unseen | {"unseen: hr@10, all": 0.1})
    # 10 of 40 homes: 25 %. The same homes with each seed, so the error is that of 40 homes:
    # sqrt(40 / 39 * 40 * 0.25 * 0.75 / 40^2) = 0.0693, times 2.02 is 0.14.
    assert said(tmp_path, "open") == (
        "Hidden rules that the best list does not have among its first ten: 25 % [11, 39] on wyze-synthetic "
        "(graphrank). Of the hidden rules that no training home has, among all candidates, so many are not found by "
        "the method with the fewest misses (picked among 2 methods): 80 % [80, 80] on wyze-synthetic (graphrank) "
        "[95 % over seeds]."
    )


@pytest.mark.parametrize("name", NAMES)
def test_without_results_every_finding_says_what_to_run(tmp_path, name):
    found = answer(tmp_path, name)
    assert not found.known
    assert found.text.startswith("These results do not say: ")
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
