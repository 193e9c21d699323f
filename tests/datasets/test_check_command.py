"""`python -m datasets check` and `list`: what they say to somebody who brings tables and speaks no Python."""

from __future__ import annotations

import gzip

import pytest

from datasets import DataError, from_tables
from datasets.__main__ import main
from tests.datasets.readers.test_tables import DEVICES, RULES

RULE_HEADER = "user,trigger_device,trigger_state,action,action_device"


def test_what_skipping_cannot_mend_is_said_once(capsys, tmp_path):
    (tmp_path / "devices.csv").write_text("household,device,type\n1,1,A\n")
    (tmp_path / "rules.csv").write_text(f"{RULE_HEADER}\n1,1,s,x,1\n")
    assert main(["check", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count("missing 'user'") == 1


def test_columns_may_be_called_differently_in_one_table_only(capsys, tmp_path):
    (tmp_path / "devices.csv").write_text("household,device,type\n1,1,A\n")
    (tmp_path / "rules.csv").write_text(f"{RULE_HEADER.replace('user', 'owner')}\n1,1,s,x,1\n")
    apart = ["--set", "columns.devices.user=household", "--set", "columns.rules.user=owner"]
    assert main(["check", str(tmp_path), *apart]) == 0
    # What is said about one table goes before what is said about both.
    both = ["--set", "columns.user=household", "--set", "columns.rules.user=owner"]
    assert main(["check", str(tmp_path), *both]) == 0
    assert main(["check", str(tmp_path), "--set", "columns.rule.user=owner"]) == 1
    assert "unknown column role 'rule.user'; did you mean 'rules.user'" in capsys.readouterr().out


def test_a_role_of_both_tables_is_listed_once():
    with pytest.raises(DataError) as error:
        from_tables(DEVICES, RULES, columns={"zzz": "household"})
    listed = str(error.value).split("Known: ")[1].split(", ")
    assert sorted(set(listed)) == listed
    with pytest.raises(DataError, match="rules: missing 'kind'"):
        from_tables(DEVICES, RULES, columns={"rules.action_type": "kind"})


@pytest.mark.parametrize("decimal", ["devices", "rules"])
def test_ids_that_one_table_writes_as_decimals_are_called_that(tmp_path, decimal):
    ids = {name: "1.0" if name == decimal else "1" for name in ("devices", "rules")}
    (tmp_path / "devices.csv").write_text(f"user,device,type\n7,{ids['devices']},A\n")
    (tmp_path / "rules.csv").write_text(f"{RULE_HEADER}\n7,{ids['rules']},s,x,{ids['rules']}\n")
    with pytest.raises(DataError, match=rf"ids are written as decimals in {decimal}\.csv: write them as whole numbers"):
        from_tables(tmp_path / "devices.csv", tmp_path / "rules.csv")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_tables_packed_with_gzip_are_read(capsys, tmp_path, suffix):
    delimiter = "\t" if suffix == ".tsv" else ","
    for name, text in (("devices", "user,device,type\n1,1,A\n"), ("rules", f"{RULE_HEADER}\n1,1,s,x,1\n")):
        (tmp_path / f"{name}{suffix}.gz").write_bytes(gzip.compress(text.replace(",", delimiter).encode()))
    assert main(["check", str(tmp_path)]) == 0
    assert "read as tables" in capsys.readouterr().out


def test_words_are_counted_and_their_bad_lines_listed(capsys, tmp_path):
    (tmp_path / "devices.csv").write_text("user,device,type\n1,1,A\n1,2,A\n")
    (tmp_path / "rules.csv").write_text(f"{RULE_HEADER}\n1,1,s,x,1\n")
    (tmp_path / "words.csv").write_text("user,device,word\n1,1,hall\n1,2,hall\n")
    assert main(["check", str(tmp_path)]) == 0
    assert "No bad lines: 1 homes, 2 devices, 1 rules, 2 words of devices" in capsys.readouterr().out
    (tmp_path / "words.csv").write_text("user,device,word\n1,1,hall\n1,3,hall\n")
    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "words.csv line 3: the device is not among its user's devices in devices.csv (device '3')" in out
    assert "(on_error=skip): 1 homes, 2 devices, 1 rules, 1 words of devices" in out


def test_a_table_in_an_unknown_format_is_named_with_the_remedy(capsys, tmp_path):
    (tmp_path / "devices.xlsx").write_bytes(b"PK")
    (tmp_path / "rules.csv").write_text(f"{RULE_HEADER}\n1,1,s,x,1\n")
    assert main(["check", str(tmp_path)]) == 1
    assert "found devices.xlsx; convert it" in capsys.readouterr().out


def test_a_folder_in_place_of_a_file_and_an_unknown_delimiter_are_named(tmp_path):
    with pytest.raises(DataError, match="it is a folder; give the file in it"):
        from_tables(tmp_path, RULES)
    (tmp_path / "devices.csv").write_text("user:device:type\n1:1:A\n")
    with pytest.raises(DataError, match="the delimiter may be none of comma, semicolon, tab and bar"):
        from_tables(tmp_path / "devices.csv", RULES)


def test_list_speaks_the_words_of_the_command_line(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "part: text = train  train, test or test_private" in out
    assert "columns.ENTRY: text  what a column is called, e.g. columns.user=household_id" in out
    assert "min_devices: int = 0  leave out homes with fewer" in out
    assert "homes: int or none = none" in out
    for word in ("Mapping", "NoneType", "None", "False", "str "):
        assert word not in out
