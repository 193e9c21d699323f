"""Everything that is wrong with tables in the wild: handled as documented, or refused with file, line and remedy."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from datasets.common.errors import DataError
from datasets.readers.bad_rows import SHOWN, BadRows, Fault
from datasets.readers.join import SHARED_IDS
from datasets.readers.wyze import read_wyze
from tests.support.tables import DEVICE_HEADER, RULE_HEADER, write_pair

DEVICES = ["1,1,ContactSensor", "1,2,Light", "2,3,Camera"]
RULE = "1,ContactSensor,1,Open,0,Power On,1,Light,2,1_0_1_2"
CLOUD = "2,Cloud,9,Up,3,Record,2,Camera,3,9_3_2_3"
OTHER = "2,Camera,3,Motion,1,Record,2,Camera,3,3_1_2_3"


def complaint(folder) -> str:
    """What reading this folder is refused with."""
    with pytest.raises(DataError) as error:
        read_wyze(folder)
    return str(error.value)


def test_clean_tables_are_read_without_a_word(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE, OTHER])
    homes = read_wyze(tmp_path)
    assert (homes.n_homes, homes.n_devices, homes.n_rules) == (2, 3, 2)
    assert homes.provenance.skipped == ()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: b"\xef\xbb\xbf" + text, id="byte order mark"),
        pytest.param(lambda text: text.replace(b"\n", b"\r\n"), id="CRLF"),
        pytest.param(lambda text: text.replace(b"\n", b"\n\n"), id="blank lines"),
        pytest.param(lambda text: text.replace(b"\n", b"\n   \n"), id="lines of spaces"),
        pytest.param(lambda text: text.rstrip(b"\n"), id="no line break at the end"),
        pytest.param(lambda text: text.replace(b"Light", b'"Light"'), id="quoted fields"),
        pytest.param(lambda text: text.replace(b"Light", b" Light "), id="spaces around a value"),
        pytest.param(lambda text: text.replace(b"user_id", b" user_id "), id="spaces around a column's name"),
        pytest.param(lambda text: text.replace(b",", b";"), id="semicolons"),
        pytest.param(lambda text: text.replace(b",", b"\t"), id="tabs"),
        pytest.param(lambda text: text.replace(b"user_id,", b"note,user_id,").replace(b"\n1,", b"\nx,1,")
                     .replace(b"\n2,", b"\nx,2,"), id="a further column"),
    ],
)  # fmt: skip
def test_the_same_tables_in_another_dress_give_the_same_homes(tmp_path, change):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE, OTHER])
    plain = read_wyze(tmp_path).fingerprint
    for name in ("train_device.csv", "train_rule.csv"):
        path = tmp_path / name
        path.write_bytes(change(path.read_bytes()))
    assert read_wyze(tmp_path).fingerprint == plain


def test_columns_in_another_order_give_the_same_homes(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE, OTHER])
    plain = read_wyze(tmp_path).fingerprint
    lines = [",".join(reversed(line.split(","))) for line in (tmp_path / "train_rule.csv").read_text().splitlines()]
    (tmp_path / "train_rule.csv").write_text("\n".join(lines) + "\n")
    assert read_wyze(tmp_path).fingerprint == plain


@pytest.mark.parametrize(
    ("devices", "rules", "expected"),
    [
        pytest.param([*DEVICES, "1,x,Light"], [RULE],
                     "train_device.csv line 5: device_id is not a whole number (device_id 'x')", id="id not a number"),
        pytest.param([*DEVICES, "1,4.0,Light"], [RULE],
                     "train_device.csv line 5: device_id is not a whole number (device_id '4.0')", id="a decimal"),
        pytest.param([*DEVICES, "1,007,Light"], [RULE],
                     "train_device.csv line 5: device_id is not a whole number (device_id '007')", id="leading zeros"),
        pytest.param([*DEVICES, "1,-0,Light"], [RULE],
                     "train_device.csv line 5: device_id is not a whole number (device_id '-0')", id="minus zero"),
        pytest.param([*DEVICES, "9223372036854775808,4,Light"], [RULE],
                     "train_device.csv line 5: user_id does not fit into 64 bits", id="beyond 2^63"),
        pytest.param([*DEVICES, "nan,4,Light"], [RULE],
                     "train_device.csv line 5: user_id is missing", id="NaN as an id"),
        pytest.param([*DEVICES, "1,4,"], [RULE],
                     "train_device.csv line 5: device_model is missing", id="no type"),
        pytest.param([*DEVICES, "1,4"], [RULE],
                     "train_device.csv line 5: the line does not have 3 fields (it has 2)", id="a field too few"),
        pytest.param([*DEVICES, "1,4,Light,"], [RULE],
                     "train_device.csv line 5: the line does not have 3 fields (it has 4)", id="a field too many"),
        pytest.param([*DEVICES, "1,2,Plug"], [RULE],
                     "train_device.csv line 5: the device is listed before with another type", id="two types"),
        pytest.param(DEVICES, [RULE, OTHER.replace("2,Camera,3,M", "2,Lock,3,M")],
                     "train_rule.csv line 3: trigger_device_id has another type in train_device.csv", id="wrong type"),
        pytest.param(DEVICES, [RULE, "1,Camera,3,Motion,1,Record,2,Camera,3,3_1_2_3"],
                     "train_rule.csv line 3: trigger_device_id belongs to another user", id="another's device"),
        pytest.param(DEVICES, [RULE, OTHER.replace("3_1_2_3", "3_1_2_4")],
                     "train_rule.csv line 3: rule is not trigger_device_id", id="ids and rule differ"),
        pytest.param(DEVICES, [RULE, OTHER.replace("Motion", "")],
                     "train_rule.csv line 3: trigger_state is missing", id="no state"),
        pytest.param(DEVICES, [RULE, OTHER.replace(",1,Record", ",one,Record").replace("3_1_2_3", "3_one_2_3")],
                     "train_rule.csv line 3: trigger_state_id is not a whole number", id="a state's number"),
        pytest.param(DEVICES, [RULE, CLOUD, CLOUD.replace("Cloud", "Plug")],
                     "train_rule.csv line 4: an earlier rule gives a device of this one another type", id="two"),
        pytest.param(DEVICES, [RULE, CLOUD.replace("Cloud", "")],
                     "train_rule.csv line 3: trigger_device_id is not among its user's devices", id="added, no type"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_with_its_number_and_can_be_skipped(tmp_path, devices, rules, expected):
    write_pair(tmp_path, devices=devices, rules=rules)
    assert expected in complaint(tmp_path)
    homes = read_wyze(tmp_path, on_error="skip")
    good_rules = len(rules) - ("train_rule.csv" in expected)
    assert homes.n_rules == good_rules
    file, line = expected.split(":")[0].split(" line ")
    (skipped,) = homes.provenance.skipped
    assert skipped.startswith(f"{file}: 1 line skipped because ")
    assert skipped.endswith(f": {line}")


def test_every_bad_line_is_listed_in_order_and_the_rest_is_counted(tmp_path, caplog):
    write_pair(tmp_path, devices=[*DEVICES, *(f"1,bad{i},Light" for i in range(15))], rules=[RULE])
    lines = complaint(tmp_path).splitlines()
    assert [line.split(":")[0] for line in lines[:10]] == [f"train_device.csv line {n}" for n in range(5, 15)]
    assert lines[10].startswith("... and 5 more")
    with caplog.at_level(logging.WARNING):
        (skipped,) = read_wyze(tmp_path, on_error="skip").provenance.skipped
    assert skipped.endswith(": " + ", ".join(str(n) for n in range(5, 20)))
    # The log says how many there are in all, and the first of them.
    assert "train_device.csv: 15 lines skipped because device_id is not a whole number" in caplog.text
    assert "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, ..." in caplog.text


def test_of_many_bad_lines_only_those_that_are_shown_are_put_into_words(monkeypatch):
    bad_rows = BadRows()
    bad_rows.add("b.csv", range(1_000, 0, -1), "it is bad", "fix it", ["value"] * 1_000)
    bad_rows.add("b.csv", [3], "it is worse", "fix it")
    bad_rows.add("a.csv", range(1, 1_000), "it is bad", "fix it")
    worded = []
    plain = Fault._sentence
    monkeypatch.setattr(Fault, "_sentence", lambda self, place: worded.append(place) or plain(self, place))
    with pytest.raises(DataError) as error:
        bad_rows.report()
    lines = str(error.value).splitlines()
    # By file as they were met, then by line: 1, 2, 3 (twice), 4, ..., 9 of b.csv.
    assert [int(line.split()[2].rstrip(":")) for line in lines[:10]] == [1, 2, 3, 3, 4, 5, 6, 7, 8, 9]
    assert lines[0] == "b.csv line 1: it is bad (value); fix it"
    assert lines[10].startswith("... and 1,990 more")  # 1,000 + 1 + 999 - 10
    assert len(worded) <= 3 * SHOWN


def test_a_refused_rule_gives_neither_of_its_devices_to_the_home(tmp_path):
    # The third rule is refused because of device 9; its other device, 8, must not be added either.
    rules = [RULE, CLOUD, "2,Plug,9,On,4,Record,2,Lock,8,9_4_2_8"]
    write_pair(tmp_path, devices=DEVICES, rules=rules)
    homes = read_wyze(tmp_path, on_error="skip")
    assert [device.id for device in homes.home(1).devices] == [3, 9]
    assert homes.provenance.counts["devices that only rules name"] == 1


def test_lines_are_counted_past_lines_of_spaces(tmp_path):
    write_pair(tmp_path, devices=[DEVICES[0], "   ", *DEVICES[1:], " ", "1,bad,Light"], rules=[RULE])
    assert "train_device.csv line 7: device_id is not a whole number" in complaint(tmp_path)
    assert len(complaint(tmp_path).splitlines()) == 1


def test_lines_are_counted_as_an_editor_does_past_blank_lines_and_line_breaks_in_quotes(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE])
    (tmp_path / "train_device.csv").write_text(
        f'{DEVICE_HEADER}\n1,1,ContactSensor\n\n1,2,"Light"\n1,9,"two\nlines"\n2,bad,Camera\n'
    )
    assert "train_device.csv line 7: device_id is not a whole number" in complaint(tmp_path)


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE])
    path = tmp_path / "train_device.csv"
    path.write_bytes(path.read_bytes() + b"1,9,Caf\xe9\n")
    assert "train_device.csv line 5: the line is not UTF-8; save the file in UTF-8" in complaint(tmp_path)
    assert read_wyze(tmp_path, on_error="skip").n_devices == 3


def test_a_last_line_that_is_cut_off_is_refused(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE, OTHER])
    path = tmp_path / "train_rule.csv"
    whole = path.read_bytes().rstrip(b"\n")
    path.write_bytes(whole[:-1])  # in the middle of the last field
    assert "train_rule.csv line 3: rule is not" in complaint(tmp_path)
    path.write_bytes(whole[:-8])  # before the last field
    assert "line 3: the line does not have 10 fields (it has 9)" in complaint(tmp_path)
    assert "the file may be cut off" in complaint(tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "train_device.csv: the file is empty; a header with user_id, device_id, device_model is expected"),
        (b"\n \n", "train_device.csv: the file is empty"),
        (DEVICE_HEADER.encode() + b"\n", "train_device.csv: it has a header but no rows"),
        (b"user_id,device_id\n1,1\n", "train_device.csv: missing 'device_model'"),
        (b"user_id,device_id,device_modle\n1,1,A\n", "did you mean 'device_modle'"),
        (b"user_id,device_id,device_model,user_id\n1,1,A,1\n", "the header names 'user_id' twice"),
        (DEVICE_HEADER.encode("utf-16"), "the file is UTF-16; save it in UTF-8"),
        (b"user_id,device_id,\xe9\n1,1,A\n", "line 1: the header is not UTF-8"),
        (DEVICE_HEADER.encode() + b'\n1,1,A\n1,2,"B\n1,3,C\n', "line 3: a quote is opened and never closed"),
    ],
)
def test_a_file_that_cannot_be_used_at_all_is_refused_as_a_whole(tmp_path, content, expected):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE])
    (tmp_path / "train_device.csv").write_bytes(content)
    assert expected in complaint(tmp_path)
    with pytest.raises(DataError):
        read_wyze(tmp_path, on_error="skip")


def test_a_device_or_rule_that_is_merely_repeated_is_read_once_and_counted(tmp_path):
    write_pair(tmp_path, devices=[*DEVICES, DEVICES[0]], rules=[RULE, RULE, OTHER])
    homes = read_wyze(tmp_path)
    assert (homes.n_devices, homes.n_rules) == (3, 2)
    assert homes.provenance.counts["device rows repeated"] == 1
    assert homes.provenance.counts["duplicate rules"] == 1


def test_ids_numbered_anew_in_each_home_say_nothing_about_other_homes(tmp_path):
    # Both homes have a device 1, so that device 2 of user 2 is not known to be user 1's.
    write_pair(tmp_path, devices=["1,1,A", "1,2,B", "2,1,A"], rules=["2,A,1,s,0,x,0,B,2,1_0_0_2"])
    homes = read_wyze(tmp_path)
    assert [d.id for d in homes.home(1).devices] == [1, 2]
    assert homes.provenance.notes == (SHARED_IDS,)  # a check that was not made is said


def test_where_ids_are_unique_nothing_is_said_about_a_check_that_was_made(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE])
    assert read_wyze(tmp_path).provenance.notes == ()


def test_a_choice_for_bad_lines_that_does_not_exist_is_refused(tmp_path):
    write_pair(tmp_path, devices=DEVICES, rules=[RULE])
    with pytest.raises(DataError, match=r"unknown value of on_error .*Known: raise, skip"):
        read_wyze(tmp_path, on_error="ignore")


def test_the_largest_and_smallest_ids_are_kept(tmp_path):
    largest, smallest = 2**63 - 1, -(2**63)
    write_pair(tmp_path, devices=[f"{largest},{smallest},A"], rules=[f"{largest},A,{smallest},s,0,x,0,A,{smallest},"
                                                                     f"{smallest}_0_0_{smallest}"])  # fmt: skip
    homes = read_wyze(tmp_path)
    assert homes.users.tolist() == [largest]
    assert homes.device_ids.tolist() == [smallest]


@pytest.mark.slow
def test_ten_million_rows_are_read_and_a_bad_one_near_the_end_is_named(tmp_path):
    rows, bad = 10_000_000, 9_999_990
    user = np.arange(rows) // 10
    with (tmp_path / "train_device.csv").open("w") as file:
        file.write(DEVICE_HEADER + "\n")
        for start in range(0, rows, 1_000_000):
            block = range(start, start + 1_000_000)
            file.write("".join(f"{user[i]},{i if i != bad else 'bad'},Light\n" for i in block))
    (tmp_path / "train_rule.csv").write_text(f"{RULE_HEADER}\n0,Light,0,On,0,Power On,1,Light,1,0_0_1_1\n")
    # Row 0 is on line 2.
    assert f"train_device.csv line {bad + 2}: device_id is not a whole number (device_id 'bad')" in complaint(tmp_path)
    homes = read_wyze(tmp_path, on_error="skip")
    assert (homes.n_homes, homes.n_devices) == (rows // 10, rows - 1)
