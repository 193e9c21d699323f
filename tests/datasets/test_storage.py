"""The file that homes are saved to: whole, or refused."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from datasets import DataError, Homes, Words
from datasets.storage import load_file
from tests.support.strategies import homes
from tests.support.two_homes import assert_same


@given(some=homes())
def test_what_is_saved_is_loaded_again_in_every_field(some: Homes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("saved") / "homes.parquet"
    some.save(path)
    assert_same(load_file(path), some)
    assert [p.name for p in path.parent.iterdir()] == ["homes.parquet"]  # no temporary file stays


def test_any_parquet_reader_sees_one_row_per_home(two: Homes, tmp_path: Path) -> None:
    two.save(tmp_path / "new" / "two.parquet")
    table = pd.read_parquet(tmp_path / "new" / "two.parquet")
    assert table["user"].tolist() == ["ann", "bob"]
    assert [d["type"] for d in table["devices"][0]] == ["Lamp", "Lamp", "Sensor"]
    assert table["rules"][1][0]["trigger_state"] == "On"


def test_homes_without_words_are_saved_as_earlier_versions_did_and_with_words_as_lists_of_devices(
    two: Homes, tmp_path: Path
) -> None:
    two.save(tmp_path / "two.parquet")
    plain = pq.read_table(tmp_path / "two.parquet")
    assert json.loads(plain.schema.metadata[b"fedrule.homes"])["format"] == 1  # which earlier versions read
    assert set(plain["devices"].to_pylist()[0][0]) == {"id", "type"}
    replace(two, words=Words([0, 2, 2], [4, 0, 4])).save(tmp_path / "two.parquet")
    named = pq.read_table(tmp_path / "two.parquet")
    assert json.loads(named.schema.metadata[b"fedrule.homes"])["format"] == 2
    assert [[device["words"] for device in home] for home in named["devices"].to_pylist()] == [[[4], [], [0, 4]], [[]]]


def test_saving_over_a_file_replaces_it(two: Homes, tmp_path: Path) -> None:
    path = tmp_path / "two.parquet"
    two.save(path)
    two.subset(np.array([1])).save(path)
    assert load_file(path).users.tolist() == ["bob"]


def test_a_file_cut_off_anywhere_is_refused(two: Homes, tmp_path: Path) -> None:
    two.save(tmp_path / "two.parquet")
    whole = (tmp_path / "two.parquet").read_bytes()
    for length in range(0, len(whole), 97):
        (tmp_path / "cut.parquet").write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"cut\.parquet: not a readable Parquet file"):
            load_file(tmp_path / "cut.parquet")


def test_a_file_with_a_flipped_byte_is_refused_or_holds_the_same_homes(two: Homes, tmp_path: Path) -> None:
    two.save(tmp_path / "two.parquet")
    whole = (tmp_path / "two.parquet").read_bytes()
    refused = 0
    for place in range(0, len(whole), 13):
        bad = bytearray(whole)
        bad[place] ^= 0xFF
        (tmp_path / "bad.parquet").write_bytes(bad)
        try:
            loaded = load_file(tmp_path / "bad.parquet")
        except DataError:
            refused += 1
        else:
            assert loaded.fingerprint == two.fingerprint
    assert refused > 0


def _without_devices(table: pa.Table) -> pa.Table:
    return table.drop_columns(["devices"])


def _without_metadata(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(None)


def _first_home_only(table: pa.Table) -> pa.Table:
    return table.slice(0, 1)


def _a_user_missing(table: pa.Table) -> pa.Table:
    return table.set_column(0, "user", pa.array(["ann", None]))


def _later_format(table: pa.Table) -> pa.Table:
    metadata = {k: v.replace(b'"format": 1', b'"format": 99') for k, v in table.schema.metadata.items()}
    return table.replace_schema_metadata(metadata)


def _other_types(table: pa.Table) -> pa.Table:
    metadata = {k: v.replace(b'"Lamp"', b'"Bulb"') for k, v in table.schema.metadata.items()}
    return table.replace_schema_metadata(metadata)


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (_without_devices, "do not fit together .*it was altered"),
        (_without_metadata, "not one that Homes.save wrote"),
        (_first_home_only, "do not match its fingerprint"),
        (_a_user_missing, "it was altered"),
        (_later_format, "format 99, this version reads 1 and 2"),
        (_other_types, "a device names a type that is not there"),
    ],
)
def test_an_altered_or_foreign_parquet_file_is_refused(two: Homes, tmp_path: Path, alter, message: str) -> None:
    path = tmp_path / "two.parquet"
    two.save(path)
    pq.write_table(alter(pq.read_table(path)), path)
    with pytest.raises(DataError, match=rf"two\.parquet: .*{message}"):
        load_file(path)


def test_a_missing_file_says_how_one_is_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; `python -m datasets generate NAME --out FILE` writes one"):
        load_file(tmp_path / "none.parquet")


def test_a_write_that_fails_midway_leaves_the_old_file_as_it_was(
    two: Homes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "two.parquet"
    two.save(path)
    before = path.read_bytes()

    def half(_: pa.Table, where: Path, **__: object) -> None:
        Path(where).write_bytes(before[: len(before) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(DataError, match=r"two\.parquet: cannot be written \(no space left"):
        two.subset(np.array([1])).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["two.parquet"]


def test_others_may_read_what_is_saved_as_far_as_new_files_allow(two: Homes, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        two.save(tmp_path / "two.parquet")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "two.parquet").stat().st_mode) == 0o640
