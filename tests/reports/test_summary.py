"""The summary says what the numbers say, whatever was run."""

from __future__ import annotations

import math

import pytest

from reports.boards import main_lists
from reports.inputs import Inputs
from reports.text.summary import round_number, summary
from tests.support.made_runs import keep


def said(folder, lead):
    """What is said in detail of one point of the summary."""
    points = {point.lead: point.details for point in summary(*main_lists(Inputs.read(folder)))}
    return points[lead]


WINNER, BELIEF, COST = "Best method", "Significance", "Cost of federation"


def test_the_winner_is_compared_with_the_best_user_item_method_and_popularity(tmp_path):
    for method, mean in {"mf": 0.22, "ease": 0.25, "graphrank": 0.3, "popularity": 0.2}.items():
        keep(tmp_path, method, mean)
    # 0.30 - 0.25 = 0.05 and 0.30 - 0.20 = 0.10 in every home, so the intervals have no width.
    assert said(tmp_path, WINNER) == (
        "On wyze-synthetic (40 homes) graphrank wins with MRR 0.300: 0.050 more [0.050 to 0.050] than the best "
        "user-item method, ease (0.250), and 0.10 more [0.10 to 0.10] than popularity (0.200).",
    )
    assert (
        said(tmp_path, BELIEF)[0]
        == "On wyze-synthetic (40 homes) graphrank is significantly better than the runner-up, ease (2 seeds)."
    )


def test_three_sentences_say_it_all_in_short(tmp_path):
    for data, means in {
        "wyze-synthetic": {"graphrank": 0.3, "fedrank": 0.27, "ease": 0.2},
        "ifttt-synthetic": {"graphrank": 0.2, "fedrank": 0.19, "ease": 0.25},
    }.items():
        for method, mean in means.items():
            keep(tmp_path, method, mean, data=data)
    # 0.27 / 0.3 = 90 % and 0.19 / 0.2 = 95 %
    assert [point.sentence for point in summary(*main_lists(Inputs.read(tmp_path)))] == [
        "graphrank is best on wyze-synthetic (40 homes, MRR 0.300); "
        "ease is best on ifttt-synthetic (40 homes, MRR 0.250).",
        "The leader is significantly better than all others on 2 of 2 lists.",
        "fedrank has 90 % to 95 % of graphrank's MRR (2 lists).",
    ]


def test_ties_and_single_seeds_are_counted_in_short(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.2)
    keep(tmp_path, "ease", 0.29, swing=-0.2)
    for method, mean in (("mf", 0.3), ("ease", 0.2)):
        keep(tmp_path, method, mean, data="ifttt-synthetic", seeds=(0,))
    first, belief, cost = summary(*main_lists(Inputs.read(tmp_path)))
    assert first.sentence == (
        "graphrank is first on wyze-synthetic (40 homes, MRR 0.300, cannot be told apart from 1 more); "
        "mf is first on ifttt-synthetic (40 homes, MRR 0.300, cannot be told apart from 1 more)."
    )
    assert belief.sentence == (
        "The leader is significantly better than all others on 0 of 2 lists: 1 method that cannot be told "
        "apart from it on wyze-synthetic (40 homes); one seed only on ifttt-synthetic (40 homes)."
    )
    assert cost.sentence == "No list by MRR has a federated method and its centralized counterpart."


def test_a_share_of_an_auc_or_a_loss_is_not_said(tmp_path):
    for method, auc in (("graphrule", 0.9), ("fedrule", 0.81)):
        keep(tmp_path, method, auc, protocol="paper", metric="auc")
    _, _, cost = summary(*main_lists(Inputs.read(tmp_path)))
    assert cost.sentence == "No list by MRR has a federated method and its centralized counterpart."
    assert cost.details[0].startswith("On wyze-synthetic (40 homes) fedrule has 0.810 against 0.900 of graphrule")


def test_a_leader_that_cannot_be_told_apart_leads_and_does_not_win(tmp_path):
    keep(tmp_path, "graphrank", 0.30, swing=0.2)
    keep(tmp_path, "ease", 0.29, swing=-0.2)
    assert "graphrank leads with MRR 0.300" in said(tmp_path, WINNER)[0]
    assert said(tmp_path, WINNER)[0].endswith(" Not run there: popularity.")
    assert "graphrank cannot be told apart from ease (2 seeds)" in said(tmp_path, BELIEF)[0]


def test_one_seed_is_not_to_be_believed(tmp_path):
    keep(tmp_path, "graphrank", 0.3, seeds=(0,))
    keep(tmp_path, "ease", 0.2, seeds=(0,))
    assert "graphrank leads with MRR 0.300" in said(tmp_path, WINNER)[0]
    assert said(tmp_path, BELIEF)[0] == "Only one seed was run: no difference here is conclusive."
    for method, mean in {"ease": 0.3, "mf": 0.2}.items():
        keep(tmp_path, method, mean, data="ifttt-synthetic")
    assert said(tmp_path, BELIEF)[:2] == (
        "On wyze-synthetic (40 homes) graphrank and the runner-up, ease, share only one seed: no difference is "
        "conclusive.",
        "On ifttt-synthetic (40 homes) ease is significantly better than the runner-up, mf (2 seeds).",
    )


def test_a_leader_of_one_seed_is_not_believed_whatever_the_others_have(tmp_path):
    keep(tmp_path, "graphrank", 0.3, seeds=(0,))
    for method, mean in {"ease": 0.2, "mf": 0.1}.items():
        keep(tmp_path, method, mean, seeds=(0, 1, 2))
    assert "graphrank leads with MRR 0.300" in said(tmp_path, WINNER)[0]
    assert "graphrank and the runner-up, ease, share only one seed" in said(tmp_path, BELIEF)[0]
    (_, belief, _) = summary(*main_lists(Inputs.read(tmp_path)))
    assert belief.sentence == (
        "The leader is significantly better than all others on 0 of 1 list: one seed only on wyze-synthetic (40 homes)."
    )


def test_a_leader_without_a_common_seed_is_not_compared(tmp_path):
    keep(tmp_path, "graphrank", 0.3, seeds=(0, 1))
    keep(tmp_path, "ease", 0.2, seeds=(2, 3))
    assert "graphrank and the runner-up, ease, have no seed in common and cannot" in said(tmp_path, BELIEF)[0]


def test_a_user_item_method_that_wins_is_compared_with_the_others(tmp_path):
    for method, mean in {"ease": 0.3, "mf": 0.28, "graphrank": 0.25, "graphrule": 0.1}.items():
        keep(tmp_path, method, mean)
    # ease is the best user-item method itself; 0.30 - 0.25 = 0.05.
    assert said(tmp_path, WINNER) == (
        "On wyze-synthetic (40 homes) ease wins with MRR 0.300: 0.050 more [0.050 to 0.050] than the best of the other "
        "methods, graphrank (0.250). Not run there: popularity.",
    )


def test_federation_costs_the_difference_from_the_same_method_with_all_data_in_one_place(tmp_path):
    for method, mean, swing in (("graphrank", 0.3, 0.02), ("fedrank", 0.27, 0.02), ("graphrule", 0.2, 0.1)):
        keep(tmp_path, method, mean, swing=swing)
    keep(tmp_path, "fedrule", 0.21, swing=-0.1)
    ruled, ranked = said(tmp_path, COST)
    # 0.30 - 0.27 = 0.03 in every home.
    assert ranked == (
        "On wyze-synthetic (40 homes) fedrank has 0.270 against 0.300 of graphrank: 0.030 less [0.030 to 0.030]."
    )
    # 0.21 - 0.20 = 0.01 on the mean; -0.19 in even homes and 0.21 in odd ones.
    assert "fedrule has 0.210 against 0.200 of graphrule: 0.010 more [-0." in ruled
    assert ruled.endswith(", which may be due to chance.")


def test_many_pairs_are_said_in_one_sentence_by_the_least_and_the_most_that_is_kept(tmp_path):
    kept = {"mf": 0.4, "fcf": 0.3, "ease": 0.4, "fedease": 0.4, "graphrank": 0.5, "fedrank": 0.4}
    for method, mean in (kept | {"complex": 0.2, "fede": 0.1}).items():
        keep(tmp_path, method, mean)
    *_, cost = summary(*main_lists(Inputs.read(tmp_path)))
    # 0.3 / 0.4 = 75 %, 0.4 / 0.4 = 100 %, 0.4 / 0.5 = 80 %, 0.1 / 0.2 = 50 %
    assert cost.sentence == (
        "4 federated methods have 50 % (fede of complex) to 100 % (fedease of ease) of the MRR with all data in one "
        "place."
    )
    assert "fcf 0.300 of 0.400 (mf)" in cost.details[0]


def test_the_range_of_many_pairs_is_over_all_lists_and_names_them(tmp_path):
    federated = {"fcf": 0.4, "fedease": 0.4, "fedrank": 0.5}
    for data, fede in (("wyze-synthetic", 0.1), ("ifttt-synthetic", 0.2)):
        central = {"mf": 0.4, "ease": 0.4, "graphrank": 0.5, "complex": 0.2}
        for method, mean in (central | federated | {"fede": fede}).items():
            keep(tmp_path, method, mean, data=data)
    *_, cost = summary(*main_lists(Inputs.read(tmp_path)))
    # 0.1 / 0.2 = 50 % on one list and 100 % on the other, 75 % on average.
    assert cost.sentence.startswith(
        "4 federated methods have 50 % (fede of complex on wyze-synthetic (40 homes)) to 100 %"
    )


def test_without_the_pairs_nothing_is_said_about_federation(tmp_path):
    keep(tmp_path, "fedrank", 0.3)
    keep(tmp_path, "graphrank", 0.4, seeds=(2, 3))  # hidden rules of other seeds are other rules
    assert said(tmp_path, COST) == ("Unknown: no list has a federated method and its counterpart on the same seeds.",)


def test_a_method_of_other_seeds_has_its_value_and_no_difference(tmp_path):
    keep(tmp_path, "graphrank", 0.4, seeds=(0, 1))
    keep(tmp_path, "ease", 0.3, seeds=(2, 3))
    assert ": the best user-item method, ease has 0.300 on other seeds." in said(tmp_path, WINNER)[0]


def test_lower_is_better_where_it_is(tmp_path):
    keep(tmp_path, "graphrule", 0.2, protocol="paper", metric="loss")
    keep(tmp_path, "popularity", 0.5, protocol="paper", metric="loss")
    # 0.2 - 0.5 = -0.3 in every home.
    assert said(tmp_path, WINNER) == (
        "On wyze-synthetic (40 homes) graphrule wins with loss 0.200 (lower is better): 0.30 less [0.30 to 0.30] than "
        "popularity (0.500). Not run there: a user-item method.",
    )


def test_a_single_method_has_nothing_to_be_compared_with(tmp_path):
    keep(tmp_path, "their-own", 0.3, data="their-homes")
    assert said(tmp_path, WINNER)[0].startswith("On their-homes (40 homes) their-own leads with MRR 0.300. Not run")
    assert said(tmp_path, BELIEF)[0] == "On their-homes (40 homes) there is nothing to compare their-own with."


def test_a_method_without_a_value_is_left_out(tmp_path):
    keep(tmp_path, "ease", math.nan)
    keep(tmp_path, "popularity", 0.2)
    first, last = said(tmp_path, WINNER)
    assert "popularity leads" in first
    assert last == "wyze-synthetic, 40 homes, types, holdout, ranking: no finite MRR of ease."
    assert said(tmp_path, BELIEF)[0].endswith("nothing to compare popularity with.")


def test_a_list_whose_tables_are_gone_is_named_and_the_others_are_said(tmp_path):
    keep(tmp_path, "ease", 0.3)
    keep(tmp_path, "ease", 0.4, data="ifttt-synthetic")
    inputs = Inputs.read(tmp_path)
    for run in inputs.runs:
        if run.key.data == "wyze-synthetic":
            (tmp_path / f"{run.key.hash}.homes.parquet").unlink()
    first, last = summary(*main_lists(inputs))[0].details
    assert "On ifttt-synthetic (40 homes) ease leads" in first
    assert last.startswith("wyze-synthetic, 40 homes, types, holdout, ranking: ")
    assert "not a readable Parquet file" in last


def test_other_settings_than_the_defaults_are_counted_and_left_out(tmp_path):
    keep(tmp_path, "popularity", 0.2)
    keep(tmp_path, "popularity", 0.4, parameters={"smoothing": 7.0})
    first, last = said(tmp_path, WINNER)
    assert "popularity leads with MRR 0.200" in first
    assert last == "wyze-synthetic: 1 row with settings other than the defaults left out."


def test_nothing_that_was_run_is_said(tmp_path):
    (point,) = summary(*main_lists(Inputs.read(tmp_path)))
    assert point.sentence == "No method has been run yet."


def test_runs_of_different_data_are_not_compared_and_the_reason_is_said(tmp_path):
    keep(tmp_path, "ease", 0.3, fingerprint="a" * 16)
    keep(tmp_path, "popularity", 0.2, fingerprint="b" * 16)
    (reason,) = said(tmp_path, WINNER)
    assert "Smart homes: wyze-synthetic: results of different data cannot be compared" in reason


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.41234, "0.412"),
        (0.4, "0.400"),
        (0.0038, "0.00380"),
        (0.00044, "0.0004"),
        (0.00001, "0"),
        (4.349, "4.35"),
        (1234.5, "1,234"),
        (-0.25, "-0.250"),
        (math.nan, "unknown"),
        (-math.inf, "-infinity"),
    ],
)
def test_numbers_have_as_many_digits_as_one_reads(value, text):
    assert round_number(value) == text
