"""The tables of data sets and of one example home: what is shown, what is cut, what is marked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.results.records import (
    DatasetSummary,
    EntityType,
    Entry,
    Example,
    HomeRule,
    MethodLists,
    OwnedDevice,
    RankedList,
    RelationUse,
    Statistic,
)
from benchmarks.runs.examples import ExampleSpec, make_example, save_example
from benchmarks.runs.experiment import make_experiment, make_source
from reports.inputs import Inputs
from reports.outputs import Missing
from reports.tables.data import MAX_ROWS, entities, example_rules, pairs, recommendations, statistics
from reports.text.formats import FORMATS, NONE
from tests.support.seen import texts

SOMEBODY = DatasetSummary(
    data="wyze-synthetic",
    options={"homes": None, "seed": 0},
    fingerprints={"types": "a" * 16, "instances": "b" * 16},
    statistics=(Statistic("homes", 1234.0, 76218.0), Statistic("rules per home, mean", 2.654, None)),
    source="Somebody, 2020",
    notes=("made up",),
    fidelity=(
        Statistic("homes", 1234.0, 76218.0, "off"),
        Statistic("rules", 5.0, 5.0, "met"),
        Statistic("x", 1.0, None, ""),
    ),
    rules_per_home={2: 3},
    devices_per_home={4: 3},
    types=(EntityType("Camera", 30, 20, 10, 40), EntityType("Lo|ck", 10, 10, 0, 10)),
    relations=(RelationUse("Open", "Power On", 30, 20), RelationUse("Close", "Power Off", 10, 5)),
    example=None,
)


def test_numbers_stand_beside_the_published_ones_with_their_source():
    table = statistics(Inputs(summaries=(SOMEBODY,)))
    assert table.columns == ("statistic", "wyze-synthetic", "wyze-synthetic, published")
    assert texts(table) == [["homes", "1,234", "76,218"], ["rules per home, mean", "2.65", NONE]]
    assert "wyze-synthetic: published numbers from Somebody, 2020." in table.about.notes
    assert (
        "wyze-synthetic: 1 of 2 published numbers are matched; off: homes (1234, not 76218)." in table.about.notes
    )  # the third has nothing to be held against
    assert "wyze-synthetic: made up." in table.about.notes
    assert table.about.caption == "wyze-synthetic: 1,234 homes."
    assert table.about.sources == (f"data/{SOMEBODY.file}",)


def test_a_data_set_without_published_numbers_has_one_column():
    alone = replace(SOMEBODY, statistics=(Statistic("homes", 3.0, None),), source="", fidelity=(), notes=())
    table = statistics(Inputs(summaries=(alone,)))
    assert table.columns == ("statistic", "wyze-synthetic")
    assert table.about.notes == ()


def test_two_portraits_of_one_data_set_are_told_apart_by_their_options():
    small = replace(SOMEBODY, options={"homes": 500, "seed": 0}, statistics=(Statistic("devices", 7.0, None),))
    table = statistics(Inputs(summaries=(SOMEBODY, small)))
    assert table.columns[1] == "wyze-synthetic (homes=all)"
    assert table.columns[3] == "wyze-synthetic (homes=500)"
    assert [row[0] for row in texts(table)] == ["homes", "rules per home, mean", "devices"]
    assert texts(table)[2][1:] == [NONE, NONE, "7"]


def test_entity_types_are_listed_with_what_uses_them():
    table = entities(Inputs(summaries=(SOMEBODY,)))
    assert texts(table)[0] == ["wyze-synthetic", "Camera", "30", "20", "10", "40"]
    assert "wyze-synthetic has 2, most often Camera (30 of 40)" in table.about.caption
    assert table.about.notes == ()


def test_pairs_are_listed_with_their_share_of_the_rules():
    table = pairs(Inputs(summaries=(SOMEBODY,)))
    # 30 of 40 rules
    assert texts(table)[0] == ["wyze-synthetic", "Open", "Power On", "30", "75.0 %", "20"]
    assert "the ten most common have 100 % of rules" in table.about.caption


def test_a_long_list_is_cut_and_says_what_is_left_out():
    many = replace(
        SOMEBODY,
        types=tuple(EntityType(f"type {i}", 2, 1, 0, 0) for i in range(MAX_ROWS + 3)),
        relations=tuple(RelationUse("Open", f"action {i}", 5, 1) for i in range(MAX_ROWS + 1)),
    )
    inputs = Inputs(summaries=(many,))
    assert len(entities(inputs).rows) == len(pairs(inputs).rows) == MAX_ROWS
    (note,) = entities(inputs).about.notes  # 3 types of 2 devices
    assert note.startswith("wyze-synthetic: the 40 of 43 entity types with the most devices; the others have 6.")
    assert f"data/{many.file}" in note
    assert "the others have 5." in pairs(inputs).about.notes[0]  # 1 pair of 5 rules


def test_data_without_rules_is_described_all_the_same():
    empty = replace(SOMEBODY, statistics=(), types=(), relations=())
    for make_table in (statistics, entities, pairs):
        assert make_table(Inputs(summaries=(empty,))).rows == ()


def entry(action="Power On", probability=0.9, *, owned=True, hidden=False):
    return Entry("Sensor", 1, "Open", action, "Light", 2 if owned else None, probability, owned, True, hidden)


def answer(method, *entries, rank=1.0, parameters=None, calibrated=False):
    listed = RankedList(rank, 100, entries)
    return MethodLists(method, parameters or {}, "graph", calibrated, listed, RankedList(None, 0, ()), ())


SENSOR, LIGHT = OwnedDevice(1, "Sensor"), OwnedDevice(2, "Light")
ASKED = Example(
    data="wyze-synthetic",
    options={"homes": 5},
    fingerprint="a" * 16,
    seed=0,
    codes={},
    user=7,
    devices=(SENSOR, LIGHT),
    known=(HomeRule(SENSOR, "Close", "Power Off", LIGHT),),
    hidden=HomeRule(SENSOR, "Open", "Power On", LIGHT),
    homes_with_hidden=3,
    methods=(
        answer("good", entry(hidden=True), entry("Dim", 0.25)),
        answer("bad", entry("Lock", 0.5, owned=False), rank=45.0, calibrated=True),
        answer("mute", rank=None),
    ),
)


def test_lists_stand_side_by_side_with_the_hidden_and_the_impossible_marked():
    table = recommendations(Inputs(examples=(ASKED,)))
    assert table.columns == ("rank", "good", "bad", "mute")
    assert texts(table) == [
        ["1", "Sensor: Open → Power On: Light (0.90)", "Sensor: Open → Lock: Light (0.50)", ""],
        ["2", "Sensor: Open → Dim: Light (0.25)", "", ""],
    ]
    assert [cell.mark for cell in table.rows[0]] == ["", "hidden", "impossible", ""]
    assert "(0.90) (hidden rule)" in FORMATS[".csv"](table)


def test_the_caption_says_where_each_method_has_the_hidden_rule_and_what_cannot_be_done():
    about = recommendations(Inputs(examples=(ASKED,))).about
    assert "good 1 of 100, bad 45 of 100, mute has no score for it." in about.caption
    assert "good 0 of 2, bad 1 of 1, mute 0 of 0." in about.caption
    assert any("valid filter" in note for note in about.notes)
    assert any("scores are not log-odds: bad." in note for note in about.notes)
    assert "Fewer than 20 candidates have a score: good (2), bad (1), mute (0)." in about.notes


def test_the_rules_of_the_home_are_shown_with_the_hidden_one_last():
    table = example_rules(Inputs(examples=(ASKED,)))
    assert texts(table) == [["Sensor", "Close", "Power Off", "Light"], ["Sensor", "Open", "Power On", "Light"]]
    assert [row[0].mark for row in table.rows] == ["", "hidden"]
    assert "2 devices: Sensor (1), Light (2)" in table.about.caption
    assert "which 3 other homes have" in table.about.caption


def test_examples_of_the_same_question_are_one_table_and_other_homes_stay_out():
    more = replace(ASKED, methods=(answer("good", entry("Other")), answer("good", entry(), parameters={"depth": 2})))
    other = replace(ASKED, data="ifttt-fedrule")
    inputs = Inputs(examples=(other, ASKED, more))
    assert recommendations(inputs).columns == ("rank", "good", "bad", "mute", "good (depth=2)")
    assert len(recommendations(inputs).about.sources) == 2
    assert example_rules(Inputs(examples=(other,))).about.caption.startswith("A home of ifttt-fedrule")


@pytest.mark.parametrize("make_table", [statistics, entities, pairs, recommendations, example_rules])
def test_without_anything_a_table_says_what_to_run(make_table):
    with pytest.raises(Missing) as error:
        make_table(Inputs())
    assert error.value.command == "python -m reports.build"


def test_the_source_of_an_example_is_the_file_that_holds_it(tmp_path):
    homes = make_source("wyze-synthetic", options={"homes": 60})
    asked = ExampleSpec(
        homes, tuple(make_experiment(method, homes, parameters={}, options={}) for method in ("popularity", "ease"))
    )
    path = save_example(make_example(asked), tmp_path)
    table = recommendations(Inputs.read(tmp_path))
    assert table.about.sources == (f"examples/{path.name}",)
    assert table.columns == ("rank", "popularity", "ease")
