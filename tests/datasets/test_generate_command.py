"""`python -m datasets generate`: what it writes can be checked and read, in both layouts of CSV files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given

import datasets
from datasets import DataError, Provenance
from datasets.__main__ import main
from datasets.readers.tables import write_tables
from datasets.readers.wyze import read_wyze, write_wyze
from tests.support.read_back import assert_read_back
from tests.support.strategies import homes as random_homes
from tests.support.two_homes import two_homes

FIFTY = ["generate", "wyze-synthetic", "--set", "homes=50", "--out"]


def test_groups_of_what_was_written_before_do_not_stay(tmp_path):
    grouped = replace(two_homes(), users=[1, 2])
    write_wyze(grouped, tmp_path)
    assert read_wyze(tmp_path).rules.group is not None
    write_wyze(replace(grouped, rules=replace(grouped.rules, group=None)), tmp_path)
    assert not (tmp_path / "rule_group.csv").exists()
    assert read_wyze(tmp_path).rules.group is None


def test_a_folder_of_tables_is_an_example_that_check_reads_back(capsys, tmp_path):
    folder = tmp_path / "made"
    assert main([*FIFTY, str(folder), "--layout", "tables"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["devices.csv", "rules.csv", "words.csv"]
    assert (folder / "devices.csv").read_text().startswith("user,device,type\n")
    assert main(["check", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "read as tables" in out
    assert "No bad lines: 50 homes" in out


def test_ids_that_are_text_are_written_as_tables_unless_asked_otherwise(capsys, tmp_path):
    two_homes().save(tmp_path / "two.parquet")
    saved = ["generate", "saved", "--data", str(tmp_path / "two.parquet"), "--out"]
    assert main([*saved, str(tmp_path / "made")]) == 0
    assert datasets.load("tables", path=tmp_path / "made").n_rules == 4
    assert main([*saved, str(tmp_path / "other"), "--layout", "wyze"]) == 1
    assert "the Wyze layout needs whole numbers as ids" in capsys.readouterr().err


def test_a_folder_does_not_get_two_layouts(capsys, tmp_path):
    assert main([*FIFTY, str(tmp_path / "made")]) == 0
    assert main([*FIFTY, str(tmp_path / "made")]) == 0
    assert main([*FIFTY, str(tmp_path / "made"), "--layout", "tables"]) == 1
    assert "it has device_word.csv, which belongs to another layout" in capsys.readouterr().err


def test_a_fingerprint_is_printed_only_of_what_keeps_it(capsys, tmp_path):
    assert main([*FIFTY, str(tmp_path / "made")]) == 0
    assert ", fingerprint " not in capsys.readouterr().out
    assert main([*FIFTY, str(tmp_path / "made.parquet")]) == 0
    printed = capsys.readouterr().out.split()[-1]
    assert datasets.load("saved", path=tmp_path / "made.parquet").fingerprint == printed
    assert main([*FIFTY, str(tmp_path / "made.parquet"), "--layout", "tables"]) == 1


def test_a_place_that_cannot_be_written_is_called_by_the_name_it_was_given(capsys, tmp_path):
    (tmp_path / "folder.parquet").mkdir()
    assert main([*FIFTY, str(tmp_path / "folder.parquet")]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'folder.parquet'}: it is a folder; name a file\n"
    assert main(["describe", "saved", "--data", str(tmp_path / "folder.parquet")]) == 1
    assert "it is a folder, not a file" in capsys.readouterr().err


def test_a_write_that_fails_does_not_show_the_temporary_name(tmp_path, monkeypatch):
    def fail(_, where, **__):
        raise OSError(f"no space left for {where}")

    monkeypatch.setattr("datasets.storage.pq.write_table", fail)
    with pytest.raises(DataError) as error:
        two_homes().save(tmp_path / "two.parquet")
    path = tmp_path / "two.parquet"
    assert str(error.value) == f"{path}: cannot be written (no space left for {path})"


@given(drawn=random_homes(bare=False, min_homes=1))
def test_tables_that_are_written_are_read_back_the_same(tmp_path_factory, drawn):
    numbers = drawn.users.dtype.kind == "i"
    named = replace(
        drawn,
        users=drawn.users if numbers else [f'u"{i}", x' for i in range(drawn.n_homes)],
        device_ids=[f"dé{i}" for i in range(drawn.n_devices)] if numbers else range(drawn.n_devices),
        types=tuple(f"Type, {i}" for i in range(len(drawn.types))),
        relations=tuple((f'state "{i}"', "act") for i in range(len(drawn.relations))),
        provenance=Provenance(),
    )
    folder = tmp_path_factory.mktemp("tables")
    write_tables(named, folder)
    read = datasets.load("tables", path=folder)
    assert_read_back(read, named)


@pytest.mark.parametrize("odd", [" ann", "nan", ""])
def test_a_text_that_would_come_back_as_another_is_not_written(tmp_path, odd):
    with pytest.raises(DataError, match=r"two: the user .* would not survive in CSV"):
        write_tables(replace(two_homes(), users=[odd, "bob"]), tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_statistics_of_both_layouts_agree(capsys, tmp_path):
    described = []
    for layout in ("wyze", "tables"):
        assert main([*FIFTY, str(tmp_path / layout), "--layout", layout]) == 0
        capsys.readouterr()
        assert main(["describe", layout, "--data", str(tmp_path / layout), "--json"]) == 0
        described.append(json.loads(capsys.readouterr().out))
    assert described[0] == described[1]
