"""Formulations and where they are trained: pairs of methods, what federation keeps, and what was not run."""

from __future__ import annotations

import pytest

from benchmarks.results.formulations import FEDERATED_METHODS, FORMULATIONS
from reports.inputs import PLACES, WYZE, Inputs
from reports.outputs import Missing
from reports.tables.formulations import formulations
from reports.text.formats import NONE
from tests.support.made_runs import keep, keep_failure, rounds
from tests.support.seen import column, texts

INSTANCES = next(role for role in PLACES if role.name == "wyze-instances")


def row(table, central, federated=NONE):
    """The row of a pair, by column."""
    (found,) = [each for each in table.rows if (each[1].text, each[3].text) == (central, federated)]
    return dict(zip(table.columns, found, strict=True))


@pytest.fixture
def results(tmp_path):
    """graphrank and its twin, ease and mf without theirs; fedrank sends in 10 rounds, 8 of 40 homes in each."""
    keep(tmp_path, "graphrank", 0.4)
    keep(tmp_path, "fedrank", 0.3, history=rounds(10, sends=100.0, clients=8, first={"statistics_bytes": 500.0}))
    keep(tmp_path, "ease", 0.2)
    return tmp_path


def test_a_federated_method_stands_beside_its_twin_with_what_it_keeps_and_sends(results):
    found = row(formulations(Inputs.read(results), WYZE), "graphrank", "fedrank")
    assert found["formulation"].text == "evidence ranking"
    assert found["MRR, central"].text.startswith("0.4000 [")
    assert found["MRR, central"].strong
    assert found["MRR, federated"].text.startswith("0.3000 [")
    assert found["federated / central"].text == "0.75"  # 0.3 / 0.4, less in every home
    assert not found["federated / central"].underlined
    assert found["leaves a home"].text.startswith("counts of patterns in its rules")
    # 10 rounds of 100 bytes, in which 8 of 40 homes send: 10 * 100 * 8 / 40 = 200; and 500 of counts before.
    assert (found["sent by a home"].text, found["sent by a home"].value) == ("700 bytes", pytest.approx(700.0))


def test_every_known_method_has_a_row_and_what_was_not_run_is_a_dash_with_the_command(results):
    table = formulations(Inputs.read(results), WYZE)
    names = {cell.text for name in ("central", "federated") for cell in column(table, name)} - {NONE}
    known = {method for each in FORMULATIONS for method in each.central} | {each.name for each in FEDERATED_METHODS}
    assert names == known - {"random", "orphans"}
    missing = row(table, "mf", "fcf")
    assert [missing[name].text for name in ("MRR, central", "MRR, federated", "federated / central")] == [NONE] * 3
    assert missing["sent by a home"].text == NONE
    (note,) = [note for note in table.about.notes if note.startswith("Not run on wyze-synthetic: ")]
    assert "graphrank" not in note
    assert "mf, fcf, " in note
    assert "`python -m benchmarks run rivals --methods popularity,itemknn,fedease,mf,fcf," in note


def test_a_method_without_a_twin_gives_all_to_the_server(results):
    found = row(formulations(Inputs.read(results), WYZE), "gcmc")
    assert found["leaves a home"].text == "all devices and rules"
    assert found["federated / central"].text == NONE


def test_a_ratio_is_underlined_where_the_two_cannot_be_told_apart(tmp_path):
    keep(tmp_path, "graphrule", 0.3)
    keep(tmp_path, "fedgnn", 0.299, swing=-0.02)  # above in odd homes, below in even ones
    keep(tmp_path, "fedrule", 0.2)
    table = formulations(Inputs.read(tmp_path), WYZE)
    assert row(table, "graphrule", "fedgnn")["federated / central"].underlined
    assert not row(table, "graphrule", "fedrule")["federated / central"].underlined


def test_a_twin_on_other_seeds_has_no_ratio(tmp_path):
    keep(tmp_path, "graphrank", 0.4, seeds=(0, 1))
    keep(tmp_path, "fedrank", 0.3, seeds=(2, 3))
    found = row(formulations(Inputs.read(tmp_path), WYZE), "graphrank", "fedrank")
    assert found["federated / central"].text == NONE
    assert found["MRR, federated"].text.startswith("0.3000")


def test_unknown_methods_come_last_federated_where_their_homes_send(results):
    keep(results, "my-own", 0.1)
    keep(results, "my-federated", 0.1, history=rounds(1))
    table = formulations(Inputs.read(results), WYZE)
    assert {tuple(each[:2]) for each in (texts_of[0:4:3] for texts_of in texts(table)[-2:])} == {
        ("other", NONE),
        ("other", "my-federated"),
    }
    assert row(table, "my-own")["leaves a home"].text == "all devices and rules"
    assert row(table, NONE, "my-federated")["leaves a home"].text == NONE


def test_the_caption_names_the_first_of_each_place_and_the_range_of_what_is_kept(results):
    keep(results, "graphrule", 0.1)
    keep(results, "fedrule", 0.11)
    keep(results, "itemknn", 0.01)
    keep(results, "fedease", 0.2)  # of itemknn 20 times, which is another model: only ease counts, 0.2 / 0.2
    caption = formulations(Inputs.read(results), WYZE).about.caption
    assert caption == (
        "wyze-synthetic, 40 homes: graphrank is first with all data in one place, 0.400; fedrank is first of those "
        "trained in the homes, 0.300. Federated methods have 75 % (fedrank of graphrank) to 110 % (fedrule of "
        "graphrule) of the MRR of their twins."
    )


def test_rows_are_of_the_defaults_where_a_method_was_run_with_them(results):
    keep(results, "ease", 0.9, parameters={"regularization": 7.0})
    keep(results, "mf", 0.35, parameters={"factors": 7})
    table = formulations(Inputs.read(results), WYZE)
    assert row(table, "ease", "fedease")["MRR, central"].text.startswith("0.2000")
    assert row(table, "mf (factors=7)", "fcf")["MRR, central"].text.startswith("0.3500")


def test_a_method_without_a_finite_rank_is_left_out_and_failures_are_named(results):
    keep(results, "mf", {"hr@10": [0.1] * 40}, summary={"mrr": float("nan")})
    keep_failure(results, "gcmc", "MemoryError: 12 GB are not there")
    keep_failure(results, "gcmc", "elsewhere", data="ifttt-synthetic")
    table = formulations(Inputs.read(results), WYZE)
    assert row(table, "mf", "fcf")["MRR, central"].text == NONE
    (note,) = [note for note in table.about.notes if note.startswith("Failed runs")]
    assert "12 GB" in note
    assert "elsewhere" not in note


def test_each_data_set_and_track_has_a_table_of_its_own(results):
    keep(results, "graphrank", 0.1, track="instances")
    table = formulations(Inputs.read(results), INSTANCES)
    assert row(table, "graphrank", "fedrank")["MRR, central"].text.startswith("0.1000")
    assert table.about.caption.startswith("wyze-synthetic, 40 homes, single devices: graphrank is first")
    for role in PLACES:
        if role not in (WYZE, INSTANCES):
            with pytest.raises(Missing, match=f"no rankings on {role.data[0]}") as missing:
                formulations(Inputs.read(results), role)
            assert missing.value.command == "python -m benchmarks run rivals"


def test_one_method_alone_is_not_called_the_best(tmp_path):
    keep(tmp_path, "ease", 0.2)
    found = row(formulations(Inputs.read(tmp_path), WYZE), "ease", "fedease")
    assert not found["MRR, central"].strong
