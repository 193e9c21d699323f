"""Bring your own: two tables as files or DataFrames."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets
from datasets.common.errors import DataError
from datasets.readers.tables import from_tables, write_tables
from tests.support.strategies import words_by_device

DEVICES = pd.DataFrame(
    {"user": ["ann", "ann", "bob"], "device": ["d1", "d2", "d1"], "type": ["Sensor", "Light", "Plug"]}
)
RULES = pd.DataFrame(
    {
        "user": ["ann"],
        "trigger_device": ["d1"],
        "trigger_state": ["Open"],
        "action": ["Power On"],
        "action_device": ["d2"],
    }
)


def test_two_frames_become_homes():
    homes = from_tables(DEVICES, RULES)
    assert homes.users.tolist() == ["ann", "bob"]
    assert str(homes.home(0).rules[0]) == "<Sensor d1, Open -> Power On, Light d2>"
    assert homes.home(1).devices == (("d1", "Plug"),)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_folder_of_two_files_is_the_same_as_two_frames(tmp_path, suffix):
    for name, frame in (("devices", DEVICES), ("rules", RULES)):
        if suffix == ".parquet":
            frame.to_parquet(tmp_path / f"{name}{suffix}")
        else:
            frame.to_csv(tmp_path / f"{name}{suffix}", sep="\t" if suffix == ".tsv" else ",", index=False)
    assert datasets.load("tables", path=tmp_path).fingerprint == from_tables(DEVICES, RULES).fingerprint


def test_columns_are_mapped_by_name():
    devices = DEVICES.rename(columns={"user": "household", "type": "model"})
    rules = RULES.rename(columns={"user": "household"})
    homes = from_tables(devices, rules, columns={"user": "household", "type": "model"})
    assert homes.fingerprint == from_tables(DEVICES, RULES).fingerprint


def test_a_role_or_a_column_that_does_not_exist_is_named():
    with pytest.raises(DataError, match="unknown column role 'usr'; did you mean 'user'"):
        from_tables(DEVICES, RULES, columns={"usr": "household"})
    with pytest.raises(DataError, match=r"devices: missing 'kind'.*with columns="):
        from_tables(DEVICES, RULES, columns={"type": "kind"})
    with pytest.raises(DataError, match="rules: missing 'automation'"):
        from_tables(DEVICES, RULES, columns={"group": "automation"})


def test_ids_that_are_all_whole_numbers_are_kept_as_numbers():
    numbered = {"ann": "10", "bob": "9", "d1": "1", "d2": "2"}
    homes = from_tables(DEVICES.replace(numbered), RULES.replace(numbered))
    assert homes.users.tolist() == [9, 10]
    assert homes.device_ids.dtype == "int64"


@pytest.mark.parametrize("odd", ["007", "1.0", "9223372036854775808", "d-é"])
def test_ids_that_only_look_like_numbers_stay_text(odd):
    numbered = {"ann": "10", "bob": odd, "d1": "1", "d2": "2"}
    homes = from_tables(DEVICES.replace(numbered), RULES.replace(numbered))
    assert homes.users.tolist() == sorted(["10", odd])


def test_gaps_in_a_frame_do_not_turn_ids_into_decimals_and_are_refused():
    devices = pd.DataFrame({"user": [1, 1, None], "device": [1, 2, 3], "type": ["A", "B", "B"]})
    rules = pd.DataFrame({"user": [1], "trigger_device": [1], "trigger_state": ["s"], "action": ["x"],
                          "action_device": [2]})  # fmt: skip
    with pytest.raises(DataError, match="devices row 3: user is missing"):
        from_tables(devices, rules)
    assert from_tables(devices, rules, on_error="skip").users.tolist() == [1]


@pytest.mark.parametrize("large", [2.0**53, 1e19, -(2.0**53)])
def test_ids_that_floats_no_longer_tell_apart_are_refused(tmp_path, large):
    devices = DEVICES.assign(user=[1.0, 1.0, large])
    with pytest.raises(DataError, match=r"devices: 'user' holds whole numbers .* read the column as text or Int64"):
        from_tables(devices, RULES.assign(user=1))
    devices.to_parquet(tmp_path / "devices.parquet")
    with pytest.raises(DataError, match=r"devices\.parquet: 'user' holds whole numbers"):
        from_tables(tmp_path / "devices.parquet", RULES.assign(user=1))
    largest = DEVICES.assign(user=[1.0, 1.0, 2.0**53 - 1])
    assert from_tables(largest, RULES.assign(user=1)).users.tolist() == [1, 2**53 - 1]


@pytest.mark.parametrize("suffix", ["", ".csv", ".parquet"])
def test_one_column_may_have_two_roles(tmp_path, suffix):
    # An app is its own type, as in IFTTT.
    devices, rules = DEVICES.drop(columns="type"), RULES
    if suffix == ".csv":
        devices.to_csv(tmp_path / "devices.csv", index=False)
    elif suffix:
        devices.to_parquet(tmp_path / "devices.parquet")
    homes = from_tables(tmp_path / f"devices{suffix}" if suffix else devices, rules, columns={"type": "device"})
    assert homes.types == ("d1", "d2")


def test_columns_of_a_frame_may_be_called_by_numbers():
    devices = DEVICES.set_axis([0, 1, 2], axis=1)
    homes = from_tables(devices, RULES.rename(columns={"user": "0"}), columns={"user": "0", "device": "1", "type": "2"})
    assert homes.fingerprint == from_tables(DEVICES, RULES).fingerprint


def test_a_device_that_is_not_owned_is_refused_unless_the_rule_names_its_type():
    rules = RULES.assign(action_device="d9")
    with pytest.raises(DataError, match=r"rules row 1: action_device is not among its user's devices.*'d9'"):
        from_tables(DEVICES, rules)
    with pytest.raises(DataError, match="action_device is not among"):
        from_tables(DEVICES, rules, add_devices=True)
    homes = from_tables(DEVICES, rules.assign(action_type="Siren"), add_devices=True)
    assert ("d9", "Siren") in homes.home(0).devices


def test_a_rule_that_contradicts_the_devices_about_a_type_is_refused():
    with pytest.raises(DataError, match=r"trigger_device has another type in devices"):
        from_tables(DEVICES, RULES.assign(trigger_type="Lock"))


def test_groups_are_read_where_there_are_any():
    homes = from_tables(DEVICES, RULES.assign(group=4))
    assert homes.rules.group.tolist() == [4]
    with pytest.raises(DataError, match="group is not a whole number"):
        from_tables(DEVICES, RULES.assign(group="kitchen"))


def test_an_empty_frame_and_a_missing_or_doubled_file_are_named(tmp_path):
    with pytest.raises(DataError, match="devices: it has columns but no rows"):
        from_tables(DEVICES.iloc[:0], RULES)
    with pytest.raises(DataError, match=r"expected one file devices\.csv .*found none"):
        datasets.load("tables", path=tmp_path)
    (tmp_path / "devices.csv").touch()
    (tmp_path / "devices.tsv").touch()
    with pytest.raises(DataError, match=r"found devices\.csv and devices\.tsv"):
        datasets.load("tables", path=tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="not a readable Parquet table"):
        from_tables(tmp_path / "broken.parquet", RULES)


# Names as people write them: no surrounding spaces, not empty, not the text that means "missing".
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=6).filter(
    lambda word: word.lower() != "nan"
)


@st.composite
def frames(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A device and a rule table that are in order."""
    users = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    ids = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    owned = draw(st.lists(st.sampled_from([(u, d) for u in users for d in ids]), min_size=1, unique=True))
    kinds = draw(st.lists(WORDS, min_size=len(owned), max_size=len(owned)))
    ends = [(u, a, b) for u, a in owned for v, b in owned if u == v]
    chosen = draw(st.lists(st.tuples(st.sampled_from(ends), WORDS, WORDS), min_size=1, max_size=6))
    devices = pd.DataFrame([(*pair, kind) for pair, kind in zip(owned, kinds, strict=True)], columns=list(DEVICES))
    rules = pd.DataFrame([(u, a, s, x, b) for (u, a, b), s, x in chosen], columns=list(RULES))
    return devices, rules


@given(tables=frames())
def test_tables_in_order_are_read_whole_and_survive_saving(tmp_path_factory, tables):
    devices, rules = tables
    homes = from_tables(devices, rules)
    assert homes.n_devices == len(devices)
    assert homes.n_rules == len(rules.drop_duplicates())
    spelled = {(str(h.user), str(r.trigger.id), *r.relation, str(r.action.id)) for h in homes for r in h.rules}
    assert spelled == set(rules.itertuples(index=False, name=None))
    folder = tmp_path_factory.mktemp("tables")
    homes.save(folder / "homes.parquet")
    again = datasets.load("saved", path=folder / "homes.parquet")
    assert again.fingerprint == homes.fingerprint
    assert again.name == homes.name
    devices.to_csv(folder / "devices.csv", index=False)
    rules.to_csv(folder / "rules.csv", index=False)
    assert datasets.load("tables", path=folder).fingerprint == homes.fingerprint


def test_saved_homes_keep_their_name(tmp_path):
    from_tables(DEVICES, RULES, name="ann and bob").save(tmp_path / "homes.parquet")
    assert datasets.load("saved", path=tmp_path / "homes.parquet").name == "ann and bob"


@pytest.mark.parametrize("name", ["tables", "saved"])
def test_where_the_files_are_can_only_be_said_by_path_if_the_data_has_no_folder(monkeypatch, tmp_path, name):
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    with pytest.raises(DataError) as error:
        datasets.load(name)
    assert "give the place of its files by path= (--data on the command line); expected" in str(error.value)
    assert "FEDRULE_DATA" not in str(error.value)


# Four devices of Ann's, so that two are half of them.
NAMED = pd.DataFrame(
    {
        "user": ["ann"] * 4 + ["bob"],
        "device": ["d1", "d2", "d3", "d4", "d1"],
        "type": ["Sensor", "Light", "Light", "Plug", "Plug"],
        "name": ["Hall sensor", None, "Kitchen light", "hall plug", "Hall"],
        "room": [None, "Kitchen", None, None, "Hall"],
    }
)


def test_a_third_table_gives_words_as_texts_or_numbers_of_their_home():
    words = pd.DataFrame(
        {"user": ["ann", "ann", "bob"], "device": ["d2", "d1", "d1"], "word": ["hall", "hall", "attic"]}
    )
    homes = from_tables(DEVICES, RULES, words=words)
    assert words_by_device(homes) == [[0], [0], [0]]  # a number counts within its home
    assert homes.provenance.counts["word rows"] == 3
    more = words.assign(word=["kitchen", "hall", "hall"])
    assert words_by_device(from_tables(DEVICES, RULES, words=more)) == [[0], [1], [0]]
    assert words_by_device(from_tables(DEVICES, RULES, words=words.assign(word=[7, 3, 5]))) == [[3], [7], [5]]
    mapped = words.rename(columns={"user": "household", "word": "room"})
    called = {"words.user": "household", "word": "room"}
    assert from_tables(DEVICES, RULES, words=mapped, columns=called).fingerprint == homes.fingerprint


def test_a_word_of_a_device_that_the_home_does_not_have_is_named_by_its_line(tmp_path):
    DEVICES.to_csv(tmp_path / "devices.csv", index=False)
    RULES.to_csv(tmp_path / "rules.csv", index=False)
    (tmp_path / "words.csv").write_text("user,device,word\nann,d1,hall\nbob,d2,hall\nann,d2,\n")
    with pytest.raises(DataError) as error:
        datasets.load("tables", path=tmp_path)
    assert str(error.value).splitlines() == [
        "words.csv line 3: the device is not among its user's devices in devices.csv (device 'd2'); "
        "add the device there, or delete the line",
        "words.csv line 4: word is missing; fill it in or delete the line",
    ]
    assert words_by_device(datasets.load("tables", path=tmp_path, on_error="skip")) == [[0], [], []]
    assert datasets.load("tables", path=tmp_path, words=False).words is None


def test_names_and_rooms_of_devices_give_words_and_are_not_kept():
    homes = from_tables(NAMED, RULES)
    assert words_by_device(homes) == [[0], [1], [1], [0], []]  # Bob's only device shares nothing
    shuffled = NAMED.iloc[[4, 3, 2, 1, 0]]
    assert words_by_device(from_tables(shuffled, RULES)) == words_by_device(homes)
    assert words_by_device(from_tables(NAMED.drop(columns="room"), RULES)) == [[0], [], [], [0], []]
    called = NAMED.rename(columns={"name": "label"})
    assert from_tables(called, RULES, columns={"name": "label"}).fingerprint == homes.fingerprint
    assert from_tables(NAMED, RULES, names=False).fingerprint == from_tables(NAMED[DEVICES.columns], RULES).fingerprint


def test_a_table_of_words_goes_before_names(tmp_path):
    words = pd.DataFrame({"user": ["bob"], "device": ["d1"], "word": [4]})
    assert words_by_device(from_tables(NAMED, RULES, words=words)) == [[], [], [], [], [4]]
    for name, frame in (("devices", NAMED), ("rules", RULES)):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    assert datasets.load("tables", path=tmp_path).fingerprint == from_tables(NAMED, RULES).fingerprint
    assert datasets.load("tables", path=tmp_path, words=False).words is None
    words.to_csv(tmp_path / "words.tsv", index=False, sep="\t")
    assert words_by_device(datasets.load("tables", path=tmp_path)) == [[], [], [], [], [4]]
    words.to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(DataError, match=r"expected one file words\.csv .* found words\.csv and words\.tsv"):
        datasets.load("tables", path=tmp_path)


def test_names_that_are_not_used_are_not_read(tmp_path):
    DEVICES.assign(name="bath").to_csv(tmp_path / "devices.csv", index=False)
    RULES.to_csv(tmp_path / "rules.csv", index=False)
    (tmp_path / "devices.csv").write_bytes((tmp_path / "devices.csv").read_bytes().replace(b"bath", b"b\xe4d", 1))
    with pytest.raises(DataError, match="UTF-8"):
        datasets.load("tables", path=tmp_path)
    assert datasets.load("tables", path=tmp_path, words=False).fingerprint == from_tables(DEVICES, RULES).fingerprint


def test_words_of_earlier_files_do_not_stay_beside_other_devices(tmp_path):
    (tmp_path / "words.tsv").write_text("user\tdevice\tword\nann\td1\t0\n")
    write_tables(from_tables(DEVICES, RULES), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["devices.csv", "rules.csv"]
