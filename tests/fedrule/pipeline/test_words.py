"""Words of devices from a third table, or from the names and rooms of devices, which are never said or stored."""

from __future__ import annotations

import sqlite3
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datasets
from datasets.common.errors import DataError
from datasets.readers.tables import from_tables
from datasets.words import words_of_names

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

import sqlalchemy as sql

from fedrule.__main__ import main
from fedrule.pipeline import Pipeline, TableConfig
from tests.support.pipeline_tables import DEVICES, RULES, THREE_HOMES, fill, spelled, tables
from tests.support.strategies import words_by_device

pytest_plugins = ("tests.support.postgres_server",)

# Both devices of 1 are in the hall, one of them upstairs; one of 2 is in a room of its own.
WORDS = pd.DataFrame({"user": [2, 1, 1, 1], "device": [22, 12, 11, 12], "word": ["garage", "upstairs", "hall", "hall"]})
ROOMS = pd.DataFrame(
    {
        "user": [1] * 4 + [2] * 4,
        "device": [11, 12, 13, 14, 21, 22, 23, 24],
        "type": ["Light", "Plug"] * 4,
        "label": ["Hall lamp", "hall socket", "Attic lamp", None, "Küche", "Lampe Küche", "", "Bad"],
        "area": [None, None, "Attic", "attic", None, None, "Bad", None],
    }
)
NAMED = {"name": "label", "room": "area"}


@pytest.fixture(params=["file", "server"])
def url(request, tmp_path):
    """Each kind of database, with the devices and rules of the three homes."""
    address = tmp_path / "a.db" if request.param == "file" else request.getfixturevalue("postgres").url()
    fill(address, "devices", DEVICES)
    fill(address, "rules", RULES)
    return address


def three_tables(url: object, *, rows: int = 10_000, **options: object) -> Pipeline:
    return Pipeline(TableConfig(str(url)), TableConfig(), words=TableConfig(), rows=rows, **options)


def by_device(homes: datasets.Homes) -> dict[str, list[int]]:
    """The words of each device that has any, by its id, which no two homes share here."""
    words = words_by_device(homes)
    return {str(id_): own for id_, own in zip(homes.device_ids, words, strict=True) if own}


def shared(homes: datasets.Homes) -> set[tuple[str, str]]:
    """The pairs of devices of one home that share a word."""
    pairs = [
        (one, other)
        for one, other in combinations(range(homes.n_devices), 2)
        if homes.device_home[one] == homes.device_home[other]
    ]
    one, other = np.array(pairs).T
    return {tuple(str(homes.device_ids[n]) for n in pairs[p]) for p in np.flatnonzero(homes.share_word(one, other))}


def test_words_of_a_table_are_numbered_within_their_home(url):
    fill(url, "words", WORDS)
    homes = three_tables(url).load()
    # In alphabetical order: hall is 0 and upstairs 1 in home 1, garage is 0 in home 2.
    assert by_device(homes) == {"11": [0], "12": [0, 1], "22": [0]}
    assert spelled(homes) == THREE_HOMES
    assert homes.provenance.counts["word rows"] == 4
    assert homes.provenance.source.count(" and ") == 2


@pytest.mark.parametrize("rows", [1, 2, 10_000])
def test_every_way_of_reading_gives_a_home_the_same_words(url, rows):
    """Even of words that look like numbers: read alone, those of 2 would be taken for some."""
    fill(url, "words", WORDS.replace({"garage": "70", "upstairs": "7"}))
    pipeline = three_tables(url, rows=rows)
    whole = pipeline.load()
    assert by_device(whole) == {"11": [1], "12": [0, 1], "22": [0]}
    parts = list(pipeline.batches(1))
    assert [part.users.tolist() for part in parts] == [[1], [2], [3]]
    for user, part in zip((1, 2, 3), parts, strict=True):
        alone = pipeline.vocabulary().encode(pipeline.load(users=[user]))
        assert alone.fingerprint == part.fingerprint
        assert by_device(part).items() <= by_device(whole).items()


def test_numbers_of_words_are_kept(url):
    fill(url, "words", WORDS.assign(word=[5, 9, 2, 2]))
    assert by_device(three_tables(url).load()) == {"11": [2], "12": [2, 9], "22": [5]}


def test_a_table_of_words_may_be_empty_or_elsewhere_and_its_columns_have_any_name(url, tmp_path):
    fill(url, "words", WORDS[:0])
    assert len(three_tables(url).load().words) == 0
    assert all(len(part.words) == 0 for part in three_tables(url).batches(1))
    fill(tmp_path / "words.db", "places", WORDS.rename(columns={"word": "place"}))
    words = TableConfig(str(tmp_path / "words.db"), table="places", columns={"word": "place"})
    homes = Pipeline(TableConfig(str(url)), TableConfig(), words=words).load()
    assert by_device(homes) == {"11": [0], "12": [0, 1], "22": [0]}


def test_devices_that_are_sorted_anew_keep_their_words(tmp_path):
    """As text, which those of the rules are, 100 comes before 11."""
    fill(tmp_path / "a.db", "devices", DEVICES.replace({12: 100}))
    fill(tmp_path / "a.db", "rules", RULES.replace({12: 100}).astype({"trigger_device": str, "action_device": str}))
    fill(tmp_path / "a.db", "words", WORDS.replace({12: 100}))
    homes = three_tables(tmp_path / "a.db").load()
    assert homes.device_ids.tolist()[:2] == ["100", "11"]
    assert by_device(homes) == {"11": [0], "100": [0, 1], "22": [0]}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "insert into words values (1, 21, 'secret')",
            "words row with user '1', device '21': the device is not among its user's devices in devices; "
            "add the device there, or delete the line",
        ),
        (
            "insert into words values (4, 41, 'secret')",
            "words row with user '4', device '41': the device is not among its user's devices in devices; "
            "add the device there, or delete the line",
        ),
        ("insert into words values (1, 11, null)", "words row with user '1', device '11': word is missing; "),
        ("insert into words values (null, 11, 'secret')", "words row with user None, device '11': user is missing; "),
        (
            "insert into words values (1, 11, cast(x'50ff' as text))",
            "words row with user '1', device '11': word is not UTF-8; correct it",
        ),
    ],
)
@pytest.mark.parametrize("rows", [1, 1000])
def test_a_bad_row_of_words_is_named_without_its_word(tmp_path, statement, message, rows):
    for table, frame in (("devices", DEVICES), ("rules", RULES), ("words", WORDS)):
        fill(tmp_path / "a.db", table, frame)
    expected = three_tables(tmp_path / "a.db").load()
    connection = sqlite3.connect(tmp_path / "a.db")
    with connection:
        connection.execute(statement)
    connection.close()
    with pytest.raises(DataError) as caught:
        three_tables(tmp_path / "a.db", rows=rows).load()
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)
    skipping = three_tables(tmp_path / "a.db", rows=rows, on_error="skip")
    homes = skipping.load()
    assert spelled(homes) == THREE_HOMES
    assert shared(homes) == shared(expected) == {("11", "12")}
    assert "1 row skipped because" in homes.provenance.skipped[0]
    parts = list(skipping.batches(1))
    assert {device: own for part in parts for device, own in by_device(part).items()} == by_device(homes)


def test_text_in_an_integer_column_of_words_is_refused(tmp_path):
    for table, frame in (("devices", DEVICES), ("rules", RULES), ("words", WORDS.assign(word=1))):
        fill(tmp_path / "a.db", table, frame)
    connection = sqlite3.connect(tmp_path / "a.db")
    with connection:
        connection.execute("insert into words values (1, 11, 'secret')")
    connection.close()
    with pytest.raises(DataError, match=r"device '11': word is not an integer, as its column's type says; correct it$"):
        three_tables(tmp_path / "a.db").load()
    fill(tmp_path / "a.db", "words", WORDS.assign(word=0.5), word=sql.Float())
    with pytest.raises(DataError, match="'word' holds FLOAT; words must be integers or text"):
        three_tables(tmp_path / "a.db").load()


def test_homes_whose_words_changed_are_read_too(tmp_path):
    fill(tmp_path / "a.db", "devices", DEVICES.assign(at=1))
    fill(tmp_path / "a.db", "rules", RULES.assign(at=1))
    fill(tmp_path / "a.db", "words", WORDS.assign(at=[1, 1, 1, 5]))
    at = TableConfig(str(tmp_path / "a.db"), updated="at"), TableConfig(updated="at")
    homes = Pipeline(*at, words=TableConfig(updated="at")).load(since=4)
    assert by_device(homes) == {"11": [0], "12": [0, 1]}
    with pytest.raises(DataError, match=r"since= needs a column with times; give its name as updated= in \[words\]"):
        Pipeline(*at, words=TableConfig()).load(since=4)


def named(url: object, *, columns: dict[str, str] = NAMED, **options: object) -> Pipeline:
    return Pipeline(TableConfig(str(url), columns=columns), TableConfig(), **options)


def test_words_are_derived_from_names_and_rooms(url):
    fill(url, "devices", ROOMS.sample(frac=1, random_state=1))
    fill(url, "rules", RULES[:0])
    homes = named(url).load()
    # 11 and 12 share hall, 13 and 14 attic; 21 and 22 share the kitchen, 23 and 24 the bathroom.
    assert by_device(homes) == {str(n): [n % 20 // 13 if n < 20 else (n - 21) // 2] for n in ROOMS["device"]}
    expected = [
        words_of_names(list(home["label"].fillna("")), rooms=list(home["area"].fillna("")), types=list(home["type"]))
        for _, home in ROOMS.groupby("user")
    ]
    assert words_by_device(homes) == [list(own) for home in expected for own in home]
    assert "word rows" not in homes.provenance.counts
    assert homes.provenance.counts["device rows"] == 8


@pytest.mark.parametrize(("columns", "worded"), [({"name": "label"}, {"11", "12"}), ({"room": "area"}, {"13", "14"})])
def test_names_or_rooms_are_enough(url, columns, worded):
    fill(url, "devices", ROOMS[ROOMS["user"] == 1])
    fill(url, "rules", RULES[:0])
    assert by_device(named(url, columns=columns).load()).keys() == worded


def test_every_way_of_reading_derives_the_same_words(url):
    fill(url, "devices", ROOMS)
    fill(url, "rules", RULES[:0])
    for rows in (1, 3, 10_000):
        pipeline = named(url, rows=rows)
        whole = pipeline.load()
        for user, part in zip((1, 2), pipeline.batches(1), strict=True):
            alone = pipeline.vocabulary().encode(pipeline.load(users=[user]))
            assert alone.fingerprint == part.fingerprint
            assert by_device(part).items() <= by_device(whole).items()


def test_names_are_not_read_unless_columns_gives_them(url):
    fill(url, "devices", DEVICES.assign(name="Hall", room="Hall"))
    assert Pipeline(TableConfig(str(url)), TableConfig()).load().words is None


def test_a_device_that_is_listed_twice_does_not_share_words_with_itself(tmp_path):
    fill(tmp_path / "a.db", "rules", RULES[:0])
    once = ROOMS[ROOMS["device"].isin([11, 13, 14])]
    fill(tmp_path / "a.db", "devices", pd.concat([once, once, once.assign(type=None)]))
    homes = named(tmp_path / "a.db", on_error="skip").load()
    assert homes.provenance.counts["device rows repeated"] == 3
    fill(tmp_path / "a.db", "devices", once)
    assert homes.fingerprint == named(tmp_path / "a.db").load().fingerprint


def test_devices_that_only_rules_name_have_no_words(tmp_path):
    fill(tmp_path / "a.db", "devices", ROOMS)
    cloud = pd.DataFrame({"user": [1], "trigger_device": 11, "trigger_state": "On", "action": "Say"})
    fill(tmp_path / "a.db", "rules", cloud.assign(action_device=99, trigger_type="Light", action_type="Cloud"))
    homes = named(tmp_path / "a.db", add_devices=True).load()
    assert "99" in homes.device_ids.astype(str).tolist()
    assert by_device(homes).keys() == set(map(str, ROOMS["device"]))


def test_a_name_that_is_not_utf8_is_not_shown(tmp_path):
    fill(tmp_path / "a.db", "devices", ROOMS)
    fill(tmp_path / "a.db", "rules", RULES[:0])
    connection = sqlite3.connect(tmp_path / "a.db")
    with connection:
        connection.execute("update devices set label = cast(x'536563726574ff' as text) where device = 11")
    connection.close()
    with pytest.raises(DataError) as caught:
        named(tmp_path / "a.db").load()
    assert str(caught.value) == "devices row with user '1', device '11': label is not UTF-8; correct it"


def test_words_have_one_source(tmp_path):
    with pytest.raises(DataError, match="give a table of words or name in columns of devices, not both"):
        Pipeline(TableConfig(str(tmp_path / "a.db"), columns=NAMED), TableConfig(), words=TableConfig())


@pytest.mark.parametrize("how", ["table", "names"])
def test_the_command_checks_and_exports_words(tmp_path, capsys, how):
    fill(tmp_path / "homes.db", "devices", ROOMS)
    fill(tmp_path / "homes.db", "rules", RULES[:0])
    fill(tmp_path / "homes.db", "places", pd.DataFrame({"user": 1, "device": [11, 12], "word": "hall"}))
    section = '[words]\ntable = "places"\n' if how == "table" else ""
    columns = 'columns = { name = "label", room = "area" }\n' if how == "names" else ""
    toml = tmp_path / "homes.toml"
    toml.write_text(f'[devices]\nurl = "homes.db"\n{columns}[rules]\n{section}')
    assert main(["pipeline", "check", str(toml)]) == 0
    said = capsys.readouterr().out.splitlines()
    place = f"SQLite {tmp_path / 'homes.db'}"
    line = f"words (places) in {place}: 2 rows; user = user, device = device, word = word"
    assert (line in said) == (how == "table")
    assert f"devices with words: {2 if how == 'table' else 8}" in said
    assert main(["pipeline", "export", str(toml), str(tmp_path / "out.parquet")]) == 0
    exported = datasets.load("saved", path=tmp_path / "out.parquet")
    assert exported.fingerprint == Pipeline.from_file(toml).load().fingerprint
    assert exported.words is not None


@settings(max_examples=20)
@given(both=tables(), rows=st.integers(1, 5), size=st.integers(1, 4), add=st.booleans(), data=st.data())
def test_words_are_those_of_the_tables_that_are_read(tmp_path_factory, both, rows, size, add, data):
    """Also with words of devices that are not there, which are refused."""
    devices, rules = both
    known = sorted({*zip(devices["user"], devices["device"], strict=True)}, key=str)
    known += sorted({*zip(rules["user"], rules["action_device"], strict=True)}, key=str)
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(known), st.sampled_from(["hall", "Flur", "a b"])), max_size=9))
    words = pd.DataFrame([(*who, word) for who, word in drawn] or None, columns=WORDS.columns)
    words = words.astype({"user": devices["user"].dtype, "device": devices["device"].dtype, "word": object})
    path = tmp_path_factory.mktemp("words") / "a.db"
    for kind, table in (("devices", devices), ("rules", rules), ("words", words)):
        fill(path, kind, table)
    options = {"add_devices": add, "on_error": "skip"}
    expected = from_tables(devices, rules, words=words if len(words) else None, **options)
    pipeline = three_tables(path, rows=rows, **options)
    homes = pipeline.load()
    assert spelled(homes) == spelled(expected)
    assert words_by_device(homes) == (words_by_device(expected) or [[] for _ in range(homes.n_devices)])
    if not add:  # a device that a rule adds may be another home's, which a part does not know
        parts = list(pipeline.batches(size))
        assert [own for part in parts for own in words_by_device(part)] == words_by_device(homes)
