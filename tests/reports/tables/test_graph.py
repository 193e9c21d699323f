"""Graph methods against user-item ones, and what each option brings: ratios and marks from small made results."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.graph import ablations, ratios
from reports.text.formats import NONE, as_csv
from tests.support.made_runs import keep


def rows(table, first=0):
    """The cells of each row by the text of one of them."""
    return {row[first].text: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_a_ratio_is_of_the_best_user_item_method_and_marked_where_it_is_told_apart(tmp_path):
    for method, mean in {"ease": 0.25, "mf": 0.2, "graphrank": 0.3, "graphrule": 0.1}.items():
        keep(tmp_path, method, mean)  # they differ by the same in every home
    keep(tmp_path, "popularity", 0.26, swing=-0.2)  # in even homes below all others, in odd ones above
    (row,) = rows(ratios(Inputs.read(tmp_path))).values()
    assert row["best user-item"].text == "ease"
    assert row["homes"].text == "40"
    # 0.3 / 0.25 = 1.2, 0.1 / 0.25 = 0.4, 0.26 / 0.25 = 1.04
    assert [row[name].text for name in ("graphrank", "graphrule", "popularity")] == ["1.20", "0.40", "1.04"]
    assert [row[name].strong for name in ("graphrank", "graphrule", "popularity")] == [True, False, False]
    assert [row[name].underlined for name in ("graphrank", "graphrule", "popularity")] == [False, False, True]
    assert "fedrank" not in row  # which was not run


def test_the_csv_file_has_the_intervals_of_ratios_and_the_page_the_numbers_alone(tmp_path):
    keep(tmp_path, "ease", 0.2, swing=0.1)
    keep(tmp_path, "graphrank", 0.4, swing=0.2)
    table = ratios(Inputs.read(tmp_path))
    # Twice the value in every home: 0.6 of 0.3 and 0.2 of 0.1, so that the ratio has no error.
    assert rows(table)["wyze-synthetic"]["graphrank"].text == "2.00"
    header, line = as_csv(table).splitlines()
    values = dict(zip(header.split(","), line.split(","), strict=True))
    found = [float(values[f"graphrank{end}"]) for end in ("", " low", " high")]
    assert found == pytest.approx([2, 2, 2])


def test_lists_of_all_splits_and_tracks_stand_below_each_other_known_homes_first(tmp_path):
    for split, track, mean in (
        ("new_homes", "types", 0.3),
        ("holdout", "instances", 0.5),
        ("leave_one_out", "types", 0.4),
        ("holdout", "types", 0.24),
    ):
        keep(tmp_path, "ease", 0.2, split={"split": split}, track=track)
        keep(tmp_path, "graphrank", mean, split={"split": split}, track=track)
    keep(tmp_path, "graphrank", 0.9, data="ifttt-synthetic")  # beside no user-item method
    table = ratios(Inputs.read(tmp_path))
    assert [(row[0].text, row[1].text) for row in table.rows] == [
        ("wyze-synthetic", "holdout"),
        ("wyze-synthetic, single devices", "holdout"),
        ("wyze-synthetic", "one automation hidden"),
        ("wyze-synthetic", "homes not seen in training"),
    ]
    # 0.24, 0.4, 0.3 and 0.5 of 0.2
    assert table.about.caption == (
        "The best graph method has so many times the MRR of the best user-item method: with devices merged by type "
        "1.20 (graphrank on wyze-synthetic (40 homes)) to 2.00 (graphrank on wyze-synthetic (40 homes, one automation "
        "hidden)), more and told apart on 3 of 3 lists; among single devices 2.50 (graphrank on wyze-synthetic (40 "
        "homes, single devices)), more and told apart on 1 of 1 lists."
    )


def test_one_seed_tells_nothing_apart(tmp_path):
    for method, mean in {"ease": 0.25, "graphrank": 0.3}.items():
        keep(tmp_path, method, mean, seeds=(0,))
    cell = rows(ratios(Inputs.read(tmp_path)))["wyze-synthetic"]["graphrank"]
    assert (cell.text, cell.strong, cell.underlined) == ("1.20", False, True)


def test_without_both_kinds_of_methods_the_command_is_named(tmp_path):
    keep(tmp_path, "graphrank", 0.3)
    with pytest.raises(Missing, match="no list has a graph method and a user-item method") as missing:
        ratios(Inputs.read(tmp_path))
    assert missing.value.command == "python -m benchmarks run default"


def test_an_option_is_compared_with_the_defaults_of_its_method(tmp_path):
    keep(tmp_path, "popularity", 0.2)
    keep(tmp_path, "graphrule", 0.1)
    keep(tmp_path, "graphrule", 0.15, parameters={"non_rules": "feasible"})
    keep(tmp_path, "graphrule", 0.105, parameters={"context": 16}, swing=-0.1)
    keep(tmp_path, "graphrank", 0.3)
    keep(tmp_path, "graphrank", 0.25, parameters={"objective": "bce"})
    keep(tmp_path, "mf", 0.9, parameters={"factors": 3})  # no option of the graph method
    table = ablations(Inputs.read(tmp_path))
    assert table.columns == ("method", "wyze-synthetic, 40 homes, 2 seeds: MRR", "sd over seeds", "HR@10")
    assert [(row[0].text, row[1].strong, row[1].underlined) for row in table.rows] == [
        ("graphrank", False, False),
        ("graphrank (objective=bce)", False, False),  # less than the defaults, and told apart
        ("popularity", False, False),
        ("graphrule (non_rules=feasible)", True, False),  # more
        ("graphrule (context=16)", False, True),  # cannot be told apart
        ("graphrule", False, False),
    ]
    # HR@10 as made up: 0.3 * 10^0.3 = 0.5986
    assert table.rows[0][1].text.startswith("0.300 [")
    assert table.rows[0][3].text == "0.599"
    assert table.about.caption == (
        "On wyze-synthetic graphrule has 0.100, most with (non_rules=feasible): 0.150; "
        "graphrank has 0.300, least with (objective=bce): 0.250."
    )
    assert (
        "The defaults themselves and ease, popularity and orphans are plain too: not compared." in table.about.notes[0]
    )


def test_ablations_of_two_data_sets_share_rows_and_those_with_most_settings_count(tmp_path):
    for homes, settings in ((2000, ({}, {"draws": 1}, {"context": 16})), (10000, ({}, {"draws": 1}))):
        for parameters in settings:
            fingerprint = f"{homes:016d}"
            counts = {"homes": homes}
            options = {"homes": homes}
            more = {"parameters": parameters, "options": options, "fingerprint": fingerprint, "counts": counts}
            keep(tmp_path, "graphrule", 0.1, **more)
    keep(tmp_path, "graphrule", 0.3, data="ifttt-synthetic")
    keep(tmp_path, "graphrule", 0.2, data="ifttt-synthetic", parameters={"bias": "counts"})
    table = ablations(Inputs.read(tmp_path))
    assert table.columns[1::3] == (
        "wyze-synthetic, 2,000 homes, 2 seeds: MRR",
        "ifttt-synthetic, 40 homes, 2 seeds: MRR",
    )
    found = rows(table)
    assert set(found) == {f"graphrule{each}" for each in ("", " (draws=1)", " (context=16)", " (bias=counts)")}
    assert found["graphrule (bias=counts)"]["wyze-synthetic, 2,000 homes, 2 seeds: MRR"].text == NONE


def test_defaults_alone_are_no_ablation(tmp_path):
    keep(tmp_path, "graphrule", 0.1)
    keep(tmp_path, "graphrank", 0.3)
    with pytest.raises(Missing, match="option changed at a time") as missing:
        ablations(Inputs.read(tmp_path))
    assert missing.value.command == "python -m benchmarks run ablations"
