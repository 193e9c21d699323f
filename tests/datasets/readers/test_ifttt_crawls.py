"""The two public crawls of IFTTT recipes, and what is wrong with their lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets.common.errors import DataError
from datasets.readers.ifttt import UR_FIELDS, ifttt_full
from tests.support.ifttt_files import mi_line, ur_line, write


@pytest.mark.parametrize("header", [[], ["\t".join(UR_FIELDS)], ["\t".join(UR_FIELDS).upper()]])
def test_the_tsv_is_read_with_and_without_a_header(tmp_path: Path, header: list[str]) -> None:
    write(tmp_path / "anything", [*header, ur_line(), ur_line("bob"), ur_line("bob", number=3)])
    homes = ifttt_full(tmp_path)
    assert homes.users.tolist() == ["ann", "bob"]
    assert homes.types == ("Dropbox", "Instagram")
    assert homes.relations == (("Any new photo by you", "Add file from URL"),)
    assert homes.provenance.counts["duplicate rules"] == 1
    assert "this is the crawl of Ur et al. 2016" in homes.provenance.notes[0]


def test_a_header_in_another_order_counts(tmp_path: Path) -> None:
    swapped = [["\t".join(reversed(line.split("\t")))] for line in ("\t".join(UR_FIELDS), ur_line())]
    homes = ifttt_full(write(tmp_path / "recipes.tsv", [line for part in swapped for line in part]))
    assert homes.home(0).rules[0].relation == ("Any new photo by you", "Add file from URL")


def test_a_quoted_header_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "r.tsv", ["\t".join(f'"{field}"' for field in UR_FIELDS), ur_line()])
    with pytest.raises(DataError, match=r"r\.tsv line 1: the fields are quoted; write the file without quotes"):
        ifttt_full(file)


def test_quotes_in_the_tsv_are_characters_like_any_other(tmp_path: Path) -> None:
    homes = ifttt_full(write(tmp_path / "r.tsv", [ur_line(user='"ann'), ur_line(trigger='New "photo"')]))
    assert homes.users.tolist() == ['"ann', "ann"]
    assert homes.relations[1].trigger == 'New "photo"'


def test_json_lines_are_read(tmp_path: Path) -> None:
    lines = [mi_line(), mi_line(creatorName="Zoë", triggerTitle=" You like a photo "), mi_line(addCount=None)]
    homes = ifttt_full(write(tmp_path / "recipes.json", lines))
    assert homes.users.tolist() == ["Zoë", "ann"]
    assert [relation.trigger for relation in homes.relations] == ["Any new photo by you", "You like a photo"]
    assert "this is the crawl of Mi et al. 2017" in homes.provenance.notes[0]
    assert homes.provenance.published == ""  # the paper's numbers are of other files


def test_only_recrules_comes_in_parts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="part='trainset': only RecRules has parts"):
        ifttt_full(write(tmp_path / "recipes.json", [mi_line()]), part="trainset")


def test_an_empty_crawl_and_a_lone_header_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found r is empty"):
        ifttt_full(write(tmp_path / "r", []))
    with pytest.raises(DataError, match="holds no recipe that can be used"):
        ifttt_full(write(tmp_path / "r", ["\t".join(UR_FIELDS)]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (ur_line()[:40], "line 2: the line has 6 of 11 fields .*; expected id, description, author"),
        (ur_line(user=" "), r"line 2: author is missing or not a text \(' '\); fill it in or remove the line"),
        (ur_line(trigger=""), "line 2: trigger is missing"),
        (ur_line() + "\tmore", "line 2: the line has 12 of 11 fields"),
    ],
)
def test_a_bad_line_of_the_tsv_is_named_or_skipped(tmp_path: Path, line: str, said: str) -> None:
    file = write(tmp_path / "r.tsv", [ur_line(), line, ur_line("bob")])
    with pytest.raises(DataError, match=said):
        ifttt_full(file)
    homes = ifttt_full(file, on_error="skip")
    assert homes.users.tolist() == ["ann", "bob"]
    assert homes.provenance.skipped[0].endswith(": 2")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (mi_line()[:-20], "line 2: the line is not JSON .*; expected one JSON object per line"),
        ("[1, 2]", "line 2: the line is not a JSON object"),
        ("[" * 100_000, "line 2: the line is not JSON"),
        (mi_line(creatorName=None), "line 2: creatorName is missing or not a text; fill"),
        (mi_line(actionTitle=5), r"line 2: actionTitle is missing or not a text \(5\)"),
        ("{}", "line 2: creatorName is missing"),
        (mi_line(triggerTitle="photo \ud800"), r"line 2: triggerTitle is missing or not a text \('photo \\ud800'\)"),
    ],
)
def test_a_bad_line_of_the_json_is_named_or_skipped(tmp_path: Path, line: str, said: str) -> None:
    file = write(tmp_path / "recipes.json", [mi_line(), line, mi_line(creatorName="bob")])
    with pytest.raises(DataError, match=said):
        ifttt_full(file)
    homes = ifttt_full(file, on_error="skip")
    assert homes.users.tolist() == ["ann", "bob"]
    assert homes.provenance.skipped[0].endswith(": 2")


def test_all_bad_lines_of_a_kind_are_one_sentence_with_every_number(tmp_path: Path) -> None:
    lines = [mi_line() if number % 3 else "{" for number in range(1, 10)]
    homes = ifttt_full(write(tmp_path / "recipes.json", lines), on_error="skip")
    assert homes.provenance.skipped == ("recipes.json: 3 lines skipped because the line is not JSON: 3, 6, 9",)


NAME = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r", exclude_categories=["Cs"]), min_size=1).filter(
    str.strip
)


@given(st.lists(st.tuples(NAME, NAME, NAME, NAME, NAME), min_size=1, max_size=8))
def test_both_crawls_keep_every_recipe_whatever_the_names(
    tmp_path_factory: pytest.TempPathFactory, recipes: list[tuple[str, str, str, str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("crawl")
    fields = ("creatorName", "triggerChannelTitle", "triggerTitle", "actionChannelTitle", "actionTitle")
    mi = [json.dumps(dict(zip(fields, recipe, strict=True))) for recipe in recipes]
    ur = ["\t".join(["1", "", u, "", "", ts, t, "", ac, a, ""]) for u, ts, t, ac, a in recipes]
    expected = {tuple(text.strip() for text in recipe) for recipe in recipes}
    for homes in (ifttt_full(write(folder / "mi", mi)), ifttt_full(write(folder / "ur", ur))):
        got = {(h.user, r.trigger.id, *r.relation, r.action.id) for h in homes for r in h.rules}
        assert got == {(u, ts, t, a, ac) for u, ts, t, ac, a in expected}
