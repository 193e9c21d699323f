"""The Wyze layout: reading, writing, and the real homes that come in it."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import datasets
from datasets.common.errors import DataError
from datasets.homes import Homes, Provenance, Rules
from datasets.readers.tables import detect_format
from datasets.readers.wyze import read_wyze, write_wyze
from tests.support.read_back import assert_read_back
from tests.support.real_data import needs_real, real
from tests.support.strategies import homes as random_homes
from tests.support.strategies import words_by_device
from tests.support.tables import write_pair


def test_devices_and_rules_are_joined_by_user(tmp_path):
    write_pair(
        tmp_path,
        devices=["7,1,ContactSensor", "7,2,Light", "9,1,Light"],
        rules=["7,ContactSensor,1,Open,3,Power On,4,Light,2,1_3_4_2"],
    )
    homes = read_wyze(tmp_path)
    assert homes.users.tolist() == [7, 9]
    assert [str(rule) for rule in homes.home(0).rules] == ["<ContactSensor 1, Open -> Power On, Light 2>"]
    assert homes.home(1).rules == ()
    assert homes.provenance.codes == {"trigger_state": {"Open": 3}, "action": {"Power On": 4}}


def test_a_device_that_only_rules_name_is_added_to_each_home_that_uses_it(tmp_path):
    write_pair(
        tmp_path,
        devices=["7,1,Camera", "9,5,Camera"],
        rules=["7,Camera,1,Motion,0,Upload,0,Cloud,99,1_0_0_99", "9,Camera,5,Motion,0,Upload,0,Cloud,99,5_0_0_99"],
    )
    homes = read_wyze(tmp_path)
    assert [d.type for d in homes.home(0).devices] == ["Camera", "Cloud"]
    assert [d.id for d in homes.home(1).devices] == [5, 99]
    assert homes.provenance.counts["devices that only rules name"] == 2


def test_a_user_without_any_device_of_its_own_is_still_a_home(tmp_path):
    write_pair(tmp_path, devices=["7,1,Camera"], rules=["8,Plug,4,On,0,Upload,0,Cloud,99,4_0_0_99"])
    assert [d.type for d in read_wyze(tmp_path).home(1).devices] == ["Plug", "Cloud"]


def test_rare_pairs_and_small_homes_can_be_left_out(tmp_path):
    write_pair(
        tmp_path,
        devices=["1,1,A", "1,2,B", "2,3,A", "2,4,B", "3,5,A"],
        rules=["1,A,1,s,0,x,0,B,2,1_0_0_2", "1,A,1,s,0,y,1,B,2,1_0_1_2", "2,A,3,s,0,x,0,B,4,3_0_0_4"],
    )
    common = datasets.load("wyze", path=tmp_path, min_pair_count=2)
    assert common.relations == (("s", "x"),)
    assert common.n_rules == 2
    assert common.n_homes == 3
    assert datasets.load("wyze", path=tmp_path, min_pair_count=2, min_rules=1).users.tolist() == [1, 2]
    assert datasets.load("wyze", path=tmp_path, min_devices=2, min_rules=2).users.tolist() == [1]


@pytest.mark.parametrize("part", ["test", "test_private"])
def test_the_test_parts_are_read_from_their_own_files(tmp_path, part):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    other = tmp_path / "other"
    write_pair(other, devices=["2,1,A"], rules=["2,A,1,s,0,x,0,A,1,1_0_0_1"])
    suffix = "_private" if part == "test_private" else ""
    for kind in ("rule", "device"):
        (other / f"train_{kind}.csv").rename(tmp_path / f"test_{kind}{suffix}.csv")
    assert datasets.load("wyze", path=tmp_path, part=part).users.tolist() == [2]


def test_files_packed_with_gzip_are_read(tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    (tmp_path / "rule_group.csv").write_text("user_id,rule,group\n1,1_0_0_1,5\n")
    plain = read_wyze(tmp_path)
    for path in list(tmp_path.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert detect_format(tmp_path) == "home-assistant"
    packed = read_wyze(tmp_path)
    assert packed.fingerprint == plain.fingerprint
    assert packed.rules.group.tolist() == [5]
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    with pytest.raises(DataError, match=r"both train_device\.csv and train_device\.csv\.gz; delete one"):
        read_wyze(tmp_path)


def test_an_unknown_part_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(DataError, match="did you mean 'train'"):
        datasets.load("wyze", path=tmp_path, part="trian")
    with pytest.raises(DataError, match=r"train_device\.csv is missing"):
        datasets.load("wyze", path=tmp_path)


def test_without_its_folder_the_data_set_says_what_to_put_where(monkeypatch, tmp_path):
    monkeypatch.delenv("FEDRULE_DATA", raising=False)
    with pytest.raises(DataError, match=r"FEDRULE_DATA.*train_rule\.csv, train_device\.csv.*ask its owners"):
        datasets.load("wyze")
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    with pytest.raises(DataError, match="wyze does not exist"):
        datasets.load("wyze")


def test_a_folder_with_another_part_says_how_that_is_asked_for(tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    for kind in ("rule", "device"):
        (tmp_path / f"train_{kind}.csv").rename(tmp_path / f"test_{kind}.csv")
    with pytest.raises(DataError, match=r"train_device\.csv is missing; .*the folder has the part test: .*part=test"):
        datasets.load("wyze", path=tmp_path)


@given(drawn=random_homes(text_ids=False, bare=False, min_homes=1))
def test_what_is_written_in_the_layout_is_read_back_the_same(tmp_path_factory, drawn):
    named = replace(
        drawn,
        types=("Cloud", *(f"Type, {i}" for i in range(1, len(drawn.types)))),
        relations=tuple((f'state "{i}"', "act") for i in range(len(drawn.relations))),
        provenance=Provenance(),
    )
    folder = tmp_path_factory.mktemp("wyze")
    write_wyze(named, folder)
    read = read_wyze(folder)
    assert_read_back(read, named)


def test_a_rule_file_with_a_comma_in_a_name_is_quoted(tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=['1,A,1,"below 5, then",0,x,0,A,1,1_0_0_1'])
    homes = read_wyze(tmp_path)
    write_wyze(homes, tmp_path / "again")
    assert read_wyze(tmp_path / "again").fingerprint == homes.fingerprint


def test_groups_are_looked_up_by_user_and_rule(tmp_path):
    rules = ["1,A,1,s,0,x,0,A,1,1_0_0_1", "1,A,1,s,0,y,1,A,1,1_0_1_1", "2,A,1,s,0,x,0,A,1,1_0_0_1"]
    write_pair(tmp_path, devices=["1,1,A", "2,1,A"], rules=rules)
    group = tmp_path / "rule_group.csv"
    group.write_text("user_id,rule,group\n2,1_0_0_1,5\n1,1_0_0_1,8\n1,1_0_1_1,8\n")
    homes = read_wyze(tmp_path)
    assert homes.rules.group.tolist() == [8, 8, 5]
    group.write_text("user_id,rule,group\n1,1_0_0_1,8\n1,1_0_0_1,9\n1,7_7_7_7,1\n2,1_0_0_1,5\n")
    with pytest.raises(DataError) as error:
        read_wyze(tmp_path)
    message = str(error.value)
    assert "rule_group.csv line 3: the rule is in two groups" in message
    assert "rule_group.csv line 4: the rule is not in train_rule.csv" in message
    assert "train_rule.csv line 3: the rule is not in rule_group.csv" in message


def test_a_bad_line_of_the_groups_says_nothing_about_the_rule(tmp_path):
    rules = ["1,A,1,s,0,x,0,A,1,1_0_0_1", "1,A,1,s,0,y,1,A,1,1_0_1_1"]
    write_pair(tmp_path, devices=["1,1,A"], rules=rules)
    group = tmp_path / "rule_group.csv"
    # Line 2 is bad, so that line 3 is the only one about its rule and contradicts nothing.
    group.write_text("user_id,rule,group\n1,1_0_0_1,none\n1,1_0_0_1,8\n1,1_0_1_1,9\n")
    homes = read_wyze(tmp_path, on_error="skip")
    assert homes.rules.group.tolist() == [8, 9]
    assert homes.provenance.skipped == ("rule_group.csv: 1 line skipped because group is not a whole number: 2",)
    group.write_text("user_id,rule,group\n1,1_0_0_1,none\n,1_0_1_1,9\n")
    homes = read_wyze(tmp_path, on_error="skip")  # no good line at all: no rule has a group, so none is used
    assert homes.n_rules == 0
    assert [sentence.split(":")[0] for sentence in homes.provenance.skipped] == [
        "rule_group.csv",
        "rule_group.csv",
        "train_rule.csv",
    ]


def test_the_groups_of_one_part_are_not_asked_about_another(tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    (tmp_path / "rule_group.csv").write_text("user_id,rule,group\n1,1_0_0_1,3\n")
    train = read_wyze(tmp_path)
    test = replace(train, users=[2], rules=replace(train.rules, group=np.array([4])))
    write_wyze(test, tmp_path, part="test")
    assert read_wyze(tmp_path).rules.group.tolist() == [3]
    assert read_wyze(tmp_path, part="test").rules.group.tolist() == [4]
    (tmp_path / "test_rule_group.csv").unlink()
    assert read_wyze(tmp_path, part="test").rules.group is None


def test_words_are_looked_up_by_user_and_device_also_of_devices_that_only_rules_name(tmp_path):
    rules = ["1,A,1,s,0,x,0,Cloud,9,1_0_0_9", "2,A,1,s,0,x,0,A,1,1_0_0_1"]
    write_pair(tmp_path, devices=["1,2,A", "1,1,A", "2,1,A"], rules=rules)
    assert read_wyze(tmp_path).words is None
    (tmp_path / "device_word.csv").write_text("user_id,device_id,word\n2,1,7\n1,9,3\n1,2,3\n1,2,0\n1,2,3\n")
    homes = read_wyze(tmp_path)
    assert homes.device_ids.tolist() == [1, 2, 9, 1]
    assert words_by_device(homes) == [[], [0, 3], [3], [7]]
    assert homes.provenance.counts["word rows"] == 5
    assert read_wyze(tmp_path, words=False).words is None
    assert datasets.load("wyze", path=tmp_path).fingerprint == homes.fingerprint
    assert datasets.load("wyze", path=tmp_path, words=False).words is None


def test_a_bad_line_of_words_is_named_and_can_be_skipped(tmp_path):
    write_pair(tmp_path, devices=["1,1,A", "2,2,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    lines = ["user_id,device_id,word", "1,2,0", "3,1,0", "1,1,kitchen", "1,1,-1", "1,,0", "1,1,4", "1,1,9999999999"]
    (tmp_path / "device_word.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError) as error:
        read_wyze(tmp_path)
    foreign = "the device is not among its user's devices in train_device.csv"
    assert str(error.value).splitlines() == [
        f"device_word.csv line 2: {foreign} (device_id '2'); add the device there, or delete the line",
        f"device_word.csv line 3: {foreign} (device_id '1'); add the device there, or delete the line",
        "device_word.csv line 4: word is not a whole number; write words as whole numbers, without decimals",
        "device_word.csv line 5: the number of a word must be in 0..2147483647 (word '-1'); "
        "number the words of each home from 0 on",
        "device_word.csv line 6: device_id is missing; fill it in or delete the line",
        "device_word.csv line 8: the number of a word must be in 0..2147483647 (word '9999999999'); "
        "number the words of each home from 0 on",
    ]
    homes = read_wyze(tmp_path, on_error="skip")
    assert homes.users.tolist() == [1, 2]  # user 3 has nothing but a word
    assert words_by_device(homes) == [[4], []]


def test_the_words_of_earlier_files_do_not_stay_beside_homes_without_any(tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    (tmp_path / "device_word.csv").write_text("user_id,device_id,word\n1,1,0\n")
    named = read_wyze(tmp_path)
    write_wyze(named.without_words(), tmp_path)
    assert read_wyze(tmp_path).words is None


@pytest.mark.parametrize("used", [[0], [0, 1], [1, 0]])
def test_cloud_is_listed_where_no_rule_would_bring_it_back(tmp_path, used):
    # Two homes of a camera and the shared Cloud; in `used` the camera uploads to it, else it acts on itself.
    action = [1 if 0 in used else 0, 3 if 1 in used else 2]
    ids = [1, 99, 2, 99]
    homes = Homes("two", ("Camera", "Cloud"), (("Motion", "Upload"),), [1, 2], [0, 0, 1, 1], [0, 1, 0, 1], ids,
                  Rules([0, 1], [0, 2], action, [0, 0]))  # fmt: skip
    write_wyze(homes, tmp_path)
    assert ("Cloud" in (tmp_path / "train_device.csv").read_text()) == (len(used) < 2)
    assert list(read_wyze(tmp_path)) == list(homes)


def test_what_the_layout_cannot_hold_is_refused_by_name(tmp_path):
    one = Homes("some", ("A",), (("s", "x"),), [4, 5, 6], [1], [0], [1], Rules([1], [0], [0], [0]))
    with pytest.raises(DataError, match=r"some: the Wyze layout cannot hold homes without devices \(users 4, 6\)"):
        write_wyze(one, tmp_path / "made")
    with pytest.raises(DataError, match="some: it has no rule to write"):
        write_wyze(one.subset([1]).with_rules([]), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_editions_are_in_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDRULE_DATA", str(tmp_path))
    write_pair(tmp_path / "home-assistant", devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    with pytest.raises(
        DataError, match=r"home-assistant-2 does not exist; .*edition 1 is there: load it with edition=1"
    ):
        datasets.load("home-assistant")
    assert datasets.load("home-assistant", edition=1).users.tolist() == [1]
    write_pair(tmp_path / "home-assistant-2", devices=["2,1,A"], rules=["2,A,1,s,0,x,0,A,1,1_0_0_1"])
    (tmp_path / "home-assistant-2" / "device_word.csv").write_text("user_id,device_id,word\n2,1,0\n")
    second = datasets.load("home-assistant")
    assert (second.users.tolist(), words_by_device(second)) == ([2], [[0]])
    assert datasets.load("home-assistant", edition=2).fingerprint == second.fingerprint
    assert datasets.load("home-assistant", words=False).fingerprint == second.without_words().fingerprint
    with pytest.raises(DataError, match="edition must be 1 or 2, got 3"):
        datasets.load("home-assistant", edition=3)
    with pytest.raises(DataError, match=r"elsewhere does not exist; expected: [^;]*$"):
        datasets.load("home-assistant", path=tmp_path / "elsewhere")


@needs_real("home-assistant-2")
def test_the_second_edition_has_the_published_counts():
    homes = datasets.load("home-assistant")
    counts = homes.describe().statistics
    expected = {"homes": 261, "devices": 25_601, "rules": 32_931, "relations": 2_136, "entity types": 110}
    assert {name: counts[name] for name in expected} == expected
    assert homes.provenance.skipped == ()
    assert homes.rules.group is not None
    assert homes.words is not None
    assert len(homes.words) == 41_429
    assert round(counts["share of devices with a word"], 2) == 0.64


@needs_real("home-assistant")
def test_the_first_edition_has_the_published_counts():
    homes = datasets.load("home-assistant", edition=1)
    counts = homes.describe().statistics
    expected = {"homes": 210, "devices": 19_953, "rules": 25_795, "relations": 2_005, "entity types": 108}
    assert {name: counts[name] for name in expected} == expected
    assert counts["distinct rules"] == 4_971
    assert homes.provenance.skipped == ()
    assert homes.rules.group is not None
    assert homes.words is None


@needs_real("home-assistant-2")
def test_the_real_homes_survive_writing_and_reading(tmp_path):
    homes = datasets.load("home-assistant", path=real("home-assistant-2"))
    write_wyze(homes, tmp_path)
    assert read_wyze(tmp_path).fingerprint == homes.fingerprint
