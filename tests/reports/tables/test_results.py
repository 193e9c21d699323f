"""The tables of results: who leads, what cannot be told apart, and the paper's numbers beside ours."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.results.compare import ALPHA, LEVEL
from benchmarks.results.formulations import FEDERATED
from reports.boards import FAMILIES, main_lists, ranked_board, ranked_boards, ranking_of, with_rows
from reports.inputs import IFTTT, WYZE, Inputs
from reports.outputs import Missing
from reports.tables.results import final_results, leaderboard, one_hidden, paper_protocol, unseen_homes
from reports.text.formats import NONE
from tests.support.made_runs import HOMES, keep, keep_failure
from tests.support.seen import column, texts

# Means over 40 homes: 0.5; (20 x 0 + 20 x 0.9) / 40 = 0.45; 0.1. The second goes up and down by 0.45 around its mean,
# 0.07 for the mean of 40 homes, so that 0.05 less than the first is nothing; the third is less in every home.
STEADY, WILD, POOR = [0.5] * HOMES, [0.0, 0.9] * (HOMES // 2), [0.1] * HOMES
RANKING = {"hr@10": 0.75, "ndcg@10": 0.5, "recall@10": 0.25, "map": 0.375, "mrr_first": 0.875}
RANKING |= {"mrr, raw": 0.0625, "mrr, all": 0.125, "unanswered": 10.0}


@pytest.fixture
def ranked(tmp_path):
    """Three methods on one data set, none of them known."""
    for method, values in (("toy-steady", STEADY), ("toy-wild", WILD), ("toy-poor", POOR)):
        keep(tmp_path, method, {"mrr": values}, summary=RANKING)
    return tmp_path


def paper(folder, method, *, loss=0.2, auc=0.9, mr=3.0, mr_rt=2.0, data="ifttt-fedrule", **key):
    """A run by the paper's protocol with the same numbers in every home."""
    by_home = {"loss": [loss] * HOMES, "auc": [auc] * HOMES, "mr": [mr] * HOMES, "mr_rt": [mr_rt] * HOMES}
    return keep(folder, method, by_home, summary={"mr_paper": mr - 1}, protocol="paper", data=data, **key)


def test_data_that_lists_only_used_devices_is_ranked_on_closed_lists(tmp_path):
    # 2 of 20 devices are used by no rule: 10 %, less than MOST_UNUSED. The order of the two lists differs.
    counts = {"homes": HOMES, "devices": 20, "devices without rules": 2}
    for method, closed, plain in (("toy-hint", 0.1, 0.5), ("toy-fair", 0.3, 0.4)):
        by_home = {"mrr, closed": [closed] * HOMES, "mrr": [plain] * HOMES, "n_hidden, closed": [1] * HOMES}
        keep(tmp_path, method, by_home, summary={"hr@10, closed": closed, "hr@10": plain}, counts=counts)
    table = leaderboard(Inputs.read(tmp_path))
    assert [cell.text for cell in column(table, "method")] == ["toy-fair", "toy-hint"]
    assert [cell.text for cell in column(table, "data")] == ["wyze-synthetic, closed"] * 2
    assert [cell.text for cell in column(table, "HR@10")] == ["0.300", "0.100"]
    assert [cell.text for cell in column(table, "MRR, with orphans")] == ["0.4000", "0.5000"]
    (found,), _ = main_lists(Inputs.read(tmp_path))
    assert (found.data, found.metric) == ("wyze-synthetic (40 homes, closed)", "MRR")
    assert [(row.label, row.value, row.hits) for row in found.rows] == [
        ("toy-fair", pytest.approx(0.3), pytest.approx(0.3)),
        ("toy-hint", pytest.approx(0.1), pytest.approx(0.1)),
    ]


def test_the_best_is_bold_what_ties_with_it_underlined_and_the_rest_plain(ranked):
    table = leaderboard(Inputs.read(ranked))
    assert [cell.text for cell in column(table, "method")] == ["toy-steady", "toy-wild", "toy-poor"]
    assert [cell.text for cell in column(table, "group")] == ["1", "1", "2"]
    assert [(cell.strong, cell.underlined) for cell in column(table, "MRR")] == [
        (True, False),
        (False, True),
        (False, False),
    ]
    assert table.sortable


def test_who_cannot_be_told_apart_from_the_best_is_underlined_in_whatever_group(tmp_path):
    # toy-near is 0.05 less in every home. toy-wild is 0.08 less with 0.067 for the mean of 40 homes: nothing to say.
    wild = [0.0, 0.84] * (HOMES // 2)
    for method, values in (("toy-best", STEADY), ("toy-near", [0.45] * HOMES), ("toy-wild", wild)):
        keep(tmp_path, method, {"mrr": values}, summary=RANKING)
    inputs = Inputs.read(tmp_path)
    table = leaderboard(inputs)
    assert [cell.text for cell in column(table, "group")] == ["1", "2", "2"]
    assert [cell.underlined for cell in column(table, "MRR")] == [False, False, True]
    assert "cannot be told apart from 1 of 2 others" in table.about.caption
    assert any("of a later group may still not be told apart from the best" in note for note in table.about.notes)
    (found,), _ = main_lists(inputs)
    assert [row.tied for row in found.rows] == [False, False, True]
    assert (found.ranking.tied, found.ranking.clear) == (["toy-wild"], False)


def test_the_lists_of_the_findings_are_first_and_smaller_ones_of_the_same_data_last(tmp_path):
    for homes in (300, 1_000):
        where = {"options": {"homes": homes}, "fingerprint": f"{homes:016x}", "counts": {"homes": homes}}
        keep(tmp_path, "toy", 0.3, **where)
    keep(tmp_path, "toy", 0.3, data="ifttt-fedrule")
    keep(tmp_path, "toy", 0.3, track="instances")
    names = list(dict.fromkeys(cell.text for cell in column(leaderboard(Inputs.read(tmp_path)), "data")))
    first = ["wyze-synthetic, 1,000 homes", "ifttt-fedrule", "wyze-synthetic, single devices"]
    assert names == [*first, "wyze-synthetic, 300 homes"]


def test_a_row_says_what_was_measured_where_and_at_which_cost(ranked):
    table = leaderboard(Inputs.read(ranked))
    assert dict(zip(table.columns, texts(table)[0], strict=True)) == {
        "data": "wyze-synthetic",
        "homes": "40",
        "hidden rules": "40",
        "group": "1",
        "method": "toy-steady",
        "MRR": "0.5000 [0.5000, 0.5000]",
        "sd over seeds": "0.0000",
        "HR@10": "0.750",
        "NDCG@10": "0.500",
        "recall@10": "0.250",
        "MAP": "0.375",
        "MRR of the first hit": "0.875",
        "MRR, raw": "0.0625",
        "MRR, with orphans": "0.5000",
        "MRR, no valid filter": "0.1250",
        "fit s": "1.50",
        "fit MB": "100",
        "seeds": "2",
        "unanswered": "0.250",  # 10 of 40
        "status": "",
    }


def test_the_caption_names_leader_and_ties_in_numbers(ranked):
    about = leaderboard(Inputs.read(ranked)).about
    assert "toy-steady 0.500 on wyze-synthetic (cannot be told apart from 1 of 2 others)" in about.caption
    assert len(about.sources) == 6
    assert not any(note.startswith("One seed only") for note in about.notes)


@pytest.mark.parametrize(("seeds", "begin"), [((0,), "one seed: "), ((0, 1), "")])
def test_where_nobody_can_be_told_apart_the_caption_does_not_count_ties(tmp_path, seeds, begin):
    # Homes of each differ from those of the others by as much as 0.4, up and down in patterns of their own.
    patterns = {"toy-a": (1, -1, 1, -1), "toy-b": (1, 1, -1, -1), "toy-c": (1, -1, -1, 1)}
    for number, (method, signs) in enumerate(patterns.items()):
        values = [0.41 - 0.01 * number + 0.2 * signs[home % 4] for home in range(HOMES)]
        keep(tmp_path, method, {"mrr": values}, seeds=seeds)
    caption = leaderboard(Inputs.read(tmp_path)).about.caption
    assert f"toy-a 0.410 on wyze-synthetic ({begin}none of the 2 others can be told apart from it)" in caption


def test_lists_of_one_data_set_with_other_numbers_of_homes_have_names_of_their_own(tmp_path):
    for homes in (300, 1_000):
        where = {"options": {"homes": homes}, "fingerprint": f"{homes:016x}", "counts": {"homes": homes}}
        keep(tmp_path, "toy", 0.3, **where)
    table = leaderboard(Inputs.read(tmp_path))
    names = {"wyze-synthetic, 300 homes", "wyze-synthetic, 1,000 homes"}
    assert {cell.text for cell in column(table, "data")} == names
    assert all(f"toy 0.300 on {name} (nothing else was run)" in table.about.caption for name in names)


def test_equal_rows_of_known_twins_are_explained_and_only_those(tmp_path):
    for method, mean in {"ease": 0.4, "fedease": 0.4, "fedrule": 0.3, "fedgate": 0.2, "toy": 0.2}.items():
        keep(tmp_path, method, mean)
    notes = leaderboard(Inputs.read(tmp_path)).about.notes
    equal = [note for note in notes if "equal rows" in note]
    assert equal == ["fedease and ease have equal rows: it is ease from sums that homes send."]


def test_a_leader_without_ties_is_ahead_of_all_others(tmp_path):
    for method, mean in (("toy-a", 0.5), ("toy-b", 0.3), ("toy-c", 0.1)):
        keep(tmp_path, method, mean)
    assert "(ahead of all 2 others)" in leaderboard(Inputs.read(tmp_path)).about.caption


def test_a_single_seed_is_said(tmp_path):
    keep(tmp_path, "toy", {"mrr": STEADY}, seeds=(3,))
    notes = leaderboard(Inputs.read(tmp_path)).about.notes
    assert any(note.startswith("One seed only") and "wyze-synthetic, 40 homes" in note for note in notes)
    assert any(f"[{100 * LEVEL:g} % interval over homes only: one seed]" in note for note in notes)
    assert column(leaderboard(Inputs.read(tmp_path)), "sd over seeds")[0].text == NONE


def test_the_spread_is_that_of_the_runs(tmp_path):
    for seed, mean in enumerate((0.3, 0.4, 0.5)):
        keep(tmp_path, "toy", mean, seeds=(seed,))
    table = leaderboard(Inputs.read(tmp_path))
    # 0.3, 0.4 and 0.5 are 0.1 from each other; over homes alone the interval would be 0.012 wide.
    assert column(table, "sd over seeds")[0].text == "0.1000"
    # 0.1 / sqrt(3) = 0.0577, where t of two degrees of freedom is 4.30: 0.4 +- 0.248
    assert column(table, "MRR")[0].text.startswith("0.4000 [0.15")
    assert any("interval over homes and seeds" in note for note in table.about.notes)


def test_the_levels_are_said_as_they_are(ranked):
    said = " ".join(leaderboard(Inputs.read(ranked)).about.notes)
    assert f"[{100 * LEVEL:g} % interval over homes and seeds]" in said
    assert f"p < {ALPHA:g}" in said


def test_options_of_data_and_split_stand_in_the_row_and_the_caption(tmp_path):
    keep(tmp_path, "toy", {"mrr": STEADY}, options={"cut": 6}, split={"fraction": 0.5})
    table = leaderboard(Inputs.read(tmp_path))
    assert texts(table)[0][0] == "wyze-synthetic (cut=6), holdout (fraction=0.5)"
    assert "on wyze-synthetic (cut=6), holdout (fraction=0.5) (nothing else was run)" in table.about.caption


def test_each_way_of_hiding_rules_has_a_table_of_its_own(tmp_path):
    keep(tmp_path, "toy", {"mrr": STEADY})
    for split, make, words in (
        ("leave_one_out", one_hidden, "wyze-synthetic, one automation hidden"),
        ("new_homes", unseen_homes, "wyze-synthetic, homes not seen in training"),
    ):
        with pytest.raises(Missing, match=f"no results by the protocol ranking, split {split}"):
            make(Inputs.read(tmp_path))
        keep(tmp_path, f"toy-{split}", {"mrr": POOR}, split={"split": split})
        table = make(Inputs.read(tmp_path))
        ((data, method, *_),) = texts(table)
        assert (data.startswith(words), method) == (True, f"toy-{split}")
    assert [row[1] for row in texts(leaderboard(Inputs.read(tmp_path)))] == ["toy"]


def test_an_option_that_did_not_exist_yet_makes_no_list_of_its_own(tmp_path):
    usual = {"min_pair_count": 8, "part": "all", "on_error": "raise"}
    keep(tmp_path, "toy-old", {"mrr": STEADY}, data="ifttt-fedrule", options=usual)
    keep(tmp_path, "toy-new", {"mrr": STEADY}, data="ifttt-fedrule", options=usual | {"cut": 0})
    assert {row[0] for row in texts(leaderboard(Inputs.read(tmp_path)))} == {"ifttt-fedrule"}
    assert len(ranked_boards(Inputs.read(tmp_path))[0]) == 1


def test_a_metric_that_a_method_lacks_is_a_dash(tmp_path):
    keep(tmp_path, "toy", {"mrr": STEADY})
    table = leaderboard(Inputs.read(tmp_path))
    assert column(table, "HR@10")[0].text == column(table, "NDCG@10")[0].text == NONE
    assert not column(table, "MRR")[0].strong  # alone it leads nobody


def test_a_method_without_any_answer_stands_last_and_is_named(ranked):
    keep(ranked, "toy-mute", {"mrr": [0.0] * HOMES}, summary={"unanswered": float(HOMES)})
    table = leaderboard(Inputs.read(ranked))
    assert column(table, "method")[-1].text == "toy-mute"
    assert column(table, "unanswered")[-1].text == "1.000"
    assert any("answered none of the hidden rules: toy-mute" in note for note in table.about.notes)


def test_runs_with_curves_are_left_out_and_said(ranked):
    keep(ranked, "toy-steady", {"mrr": STEADY}, curves=10)
    table = leaderboard(Inputs.read(ranked))
    assert len(table.rows) == 3
    assert any("curves by round are left out (2 on wyze-synthetic)" in note for note in table.about.notes)


def test_failed_runs_are_named_with_the_last_line_of_their_error(ranked):
    keep_failure(ranked, "toy-broken", "Traceback\nValueError: no such thing")
    notes = leaderboard(Inputs.read(ranked)).about.notes
    assert any("toy-broken on wyze-synthetic" in note and "ValueError: no such thing" in note for note in notes)


def test_a_board_that_cannot_be_compared_does_not_take_the_others_with_it(ranked):
    gone = keep(ranked, "toy-gone", {"mrr": STEADY}, data="ifttt-synthetic", fingerprint="a" * 16)
    inputs = Inputs.read(ranked)
    (ranked / f"{gone[0].key.hash}.homes.parquet").unlink()  # after it was found to be whole
    assert len(ranked_boards(inputs)[0]) == 1
    (note,) = ranked_boards(inputs)[1]
    assert "ifttt-synthetic" in note
    assert note in leaderboard(inputs).about.notes


def test_rows_of_data_that_has_changed_are_told_apart(ranked):
    keep(ranked, "toy-steady", {"mrr": STEADY}, fingerprint="a" * 16)
    table = leaderboard(Inputs.read(ranked))
    assert {cell.text for cell in column(table, "data")} == {
        "wyze-synthetic, data aaaaaaaaaaaaaaaa",
        "wyze-synthetic, data ffffffffffffffff",
    }


def test_data_of_unknown_size_has_a_dash_for_its_homes(tmp_path):
    keep(tmp_path, "toy", {"mrr": STEADY}, counts={})
    table = leaderboard(Inputs.read(tmp_path))
    assert texts(table)[0][-3:-1] == [NONE, "40"]


def test_a_list_is_worked_out_once_for_a_material(ranked):
    inputs = Inputs.read(ranked)
    ((listed,), _) = ranked_boards(inputs)
    assert ranked_board(inputs, listed.board, "mrr") is listed
    assert ranked_board(inputs, listed.board, "mrr").table is listed.table
    assert ranked_board(Inputs.read(ranked), listed.board, "mrr") is not listed


def test_the_words_and_the_figure_share_the_list_of_the_table(ranked):
    inputs = Inputs.read(ranked)
    ((listed,), _) = ranked_boards(inputs)
    ((of_words,), _) = main_lists(inputs)
    assert of_words.ranking is listed
    place = ranking_of(WYZE, inputs)
    assert ranked_board(inputs, with_rows(place, place.methods()), "mrr") is listed


def test_two_methods_are_compared_either_way_round(ranked):
    ((listed,), _) = ranked_boards(Inputs.read(ranked))
    there, back = listed.against("toy-steady", "toy-poor"), listed.against("toy-poor", "toy-steady")
    # 0.5 - 0.1 = 0.4 in every home
    assert (there.difference, there.low, there.high) == pytest.approx((0.4, 0.4, 0.4))
    assert (back.difference, back.low, back.high) == pytest.approx((-0.4, -0.4, -0.4))
    assert (back.a, back.b, back.value_a, back.value_b) == ("toy-poor", "toy-steady", pytest.approx(0.1), 0.5)


@pytest.mark.parametrize(("seeds", "common"), [((0, 1), 2), ((1, 2), 1), ((2, 3), 0)])
def test_a_leader_is_clear_only_where_it_shares_several_seeds_with_the_next(tmp_path, seeds, common):
    keep(tmp_path, "toy-steady", {"mrr": STEADY})
    keep(tmp_path, "toy-poor", {"mrr": POOR}, seeds=seeds)
    ((listed,), _) = ranked_boards(Inputs.read(tmp_path))
    assert (listed.seeds, listed.clear) == (common, common > 1)


@pytest.mark.parametrize(
    "make", [leaderboard, paper_protocol, partial(final_results, role=WYZE), partial(final_results, role=IFTTT)]
)
def test_without_runs_a_table_says_what_to_run(make):
    with pytest.raises(Missing) as error:
        make(Inputs())
    assert error.value.command == "python -m benchmarks run default"


def test_the_paper_protocol_is_sorted_by_auc_and_says_what_was_calibrated(tmp_path):
    paper(tmp_path, "toy-low", auc=0.8)
    paper(tmp_path, "toy-high", auc=0.9, calibrated=True)
    table = paper_protocol(Inputs.read(tmp_path))
    assert [cell.text for cell in column(table, "method")] == ["toy-high", "toy-low"]
    assert [cell.text for cell in column(table, "calibrated")] == ["yes", "no"]
    assert [cell.text for cell in column(table, "mr_paper")] == ["2.00", "2.00"]


@pytest.fixture
def federated(tmp_path):
    """The paper's methods without FedRule, one of somebody else's, and one that has no place here."""
    paper(tmp_path, "toy-federated", auc=0.85, parameters={"participation": 1.0})
    paper(tmp_path, "toy-central", auc=0.99)
    for method, auc in (("graphrule", 0.95), ("fedgnn", 0.9)):
        paper(tmp_path, method, auc=auc)
    return tmp_path


def test_our_numbers_stand_above_the_papers(federated):
    table = final_results(Inputs.read(federated), IFTTT)
    rows = [row[:4] for row in texts(table)]
    assert rows == [
        ["graphrule", "here", "0.2000 [0.2000, 0.2000]", "0.9500 [0.9500, 0.9500]"],
        ["graphrule", "paper", "0.3238", "0.9491"],
        ["fedgnn", "here", "0.2000 [0.2000, 0.2000]", "0.9000 [0.9000, 0.9000]"],
        ["fedgnn", "paper", "0.4905", "0.9072"],
        ["toy-federated", "here", "0.2000 [0.2000, 0.2000]", "0.8500 [0.8500, 0.8500]"],
        ["fedrule", "paper", "0.3614", "0.9417"],
    ]
    assert column(table, "AUC")[0].strong
    assert [cell.text for cell in column(table, "mr_paper")][:2] == ["2.000", NONE]


def test_differences_from_the_paper_are_said_with_their_reasons(federated):
    about = final_results(Inputs.read(federated), IFTTT).about
    # 9.6997 - 3 = 6.7 and 9.6745 - 2 = 7.7; the AUCs of 0.95 and 0.9491 are the same within a hundredth.
    lower = "loss lower by 0.12, MR lower by 6.7, MR(RT) lower by 7.7."
    assert f"graphrule, compared with the paper: {lower}" in about.notes
    assert "graphrule AUC 0.950 (paper 0.949), MR(RT) 2.00 (paper 9.67)" in about.caption
    assert "Not run on ifttt-fedrule: fedrule." in about.notes
    assert any("here: ifttt-fedrule, 40 homes." in note for note in about.notes)
    assert any("counts from 0" in note for note in about.notes)


def test_every_method_of_the_federated_family_is_shown(tmp_path):
    for method in FAMILIES[FEDERATED]:
        paper(tmp_path, method)
    table = final_results(Inputs.read(tmp_path), IFTTT)
    assert {row[0] for row in texts(table) if row[1] == "here"} == set(FAMILIES[FEDERATED])


def test_a_number_that_one_seed_lacks_is_a_dash_and_no_mean_of_the_others(tmp_path):
    for seed, ranks in ((0, 3.0), (1, float("nan"))):
        paper(tmp_path, "graphrule", mr=ranks, seeds=(seed,))
    table = final_results(Inputs.read(tmp_path), IFTTT)
    assert column(table, "mr_paper")[0].text == column(table, "MR")[0].text == NONE


def test_a_large_difference_from_the_paper_has_no_exponent(tmp_path):
    # 109.6997 - 9.6997 = 100 and 3009.6745 - 9.6745 = 3000
    paper(tmp_path, "graphrule", loss=0.3238, auc=0.9491, mr=109.6997, mr_rt=3009.6745)
    notes = final_results(Inputs.read(tmp_path), IFTTT).about.notes
    assert "graphrule, compared with the paper: MR higher by 100, MR(RT) higher by 3,000." in notes


def test_homes_that_were_not_counted_are_not_said_to_be_none(tmp_path):
    paper(tmp_path, "graphrule", counts={})
    notes = final_results(Inputs.read(tmp_path), IFTTT).about.notes
    assert any(note.endswith("here: ifttt-fedrule.") for note in notes)


def test_a_federated_run_that_failed_is_named(federated):
    keep_failure(federated, "fedrule", "MemoryError", protocol="paper", data="ifttt-fedrule")
    notes = final_results(Inputs.read(federated), IFTTT).about.notes
    assert any("fedrule on ifttt-fedrule" in note and "MemoryError" in note for note in notes)


def test_a_loss_that_diverged_breaks_nothing(tmp_path):
    paper(tmp_path, "toy-a", loss=float("inf"), parameters={"participation": 1.0})
    paper(tmp_path, "toy-b", loss=1e30, parameters={"participation": 1.0})
    table = final_results(Inputs.read(tmp_path), IFTTT)
    losses = {row[0]: row[2] for row in texts(table) if row[1] == "here"}
    assert losses == {"toy-a": "∞", "toy-b": "1.00e+30"}
    assert "No intervals, since some home of some run has no finite value: loss." in table.about.notes
    assert "0.9000 [0.9000, 0.9000]" in [cell.text for cell in column(table, "AUC")]
