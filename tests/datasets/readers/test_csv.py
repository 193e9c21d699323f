"""Text files as people and programs leave them: headers, stray quotes, long fields, gzip, binary files."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from datasets.common.errors import DataError
from datasets.homes import Homes
from datasets.readers.csv import write_delimited
from datasets.readers.tables import from_tables

DEVICES = "user,device,type\n1,10,Cam\n1,11,Plug\n"
RULES = "user,trigger_device,trigger_state,action,action_device\n1,10,Motion,On,11\n"


def read(folder: Path, devices: str | bytes, *, rules: str = RULES, on_error: str = "raise") -> Homes:
    """The homes of two files with these contents."""
    (folder / "devices.csv").write_bytes(devices.encode() if isinstance(devices, str) else devices)
    (folder / "rules.csv").write_text(rules)
    return from_tables(folder / "devices.csv", folder / "rules.csv", on_error=on_error)


def complaint(folder: Path, devices: str | bytes) -> str:
    """What reading them is refused with."""
    with pytest.raises(DataError) as error:
        read(folder, devices)
    return str(error.value)


@pytest.mark.parametrize("before", ["\n", "\n\n", "  \n", "\r\n", "\ufeff\n", "\n   \n\n"])
def test_a_header_below_empty_lines_is_still_a_header(tmp_path, before):
    assert read(tmp_path, before + DEVICES).users.tolist() == [1]
    # The bad line is the fourth of the table.
    line = before.count("\n") + 4
    assert f"devices.csv line {line}: the line does not have 3 fields" in complaint(tmp_path, before + DEVICES + "1\n")
    assert f"devices.csv line {line}: type is missing" in complaint(tmp_path, before + DEVICES + "1,12,\n")


def test_rows_between_two_stray_quotes_are_not_swallowed_in_silence(tmp_path):
    stray = DEVICES + '1,12,"Plug\n1,13,"Plug\n1,14,Plug\n'
    assert complaint(tmp_path, stray).startswith(
        "devices.csv line 4: a value runs over several lines; a quote is missing, or one too many: correct it"
    )
    homes = read(tmp_path, stray, on_error="skip")
    assert homes.device_ids.tolist() == [10, 11, 14]
    assert homes.types == ("Cam", "Plug")


def test_a_line_break_in_a_column_that_nobody_asked_for_is_fine(tmp_path):
    noted = 'user,device,type,note\n1,10,Cam,"two\nlines"\n1,11,Plug,\n'
    assert read(tmp_path, noted).n_devices == 2


def test_what_reading_would_refuse_is_not_written(tmp_path):
    with pytest.raises(DataError, match="a value of type holds a line break"):
        write_delimited(tmp_path / "devices.csv", {"user": pa.array([1]), "type": pa.array(["two\nlines"])})
    assert list(tmp_path.iterdir()) == []


def test_lines_that_end_in_cr_alone_are_refused_by_name(tmp_path):
    assert "its lines end in CR alone" in complaint(tmp_path, DEVICES.replace("\n", "\r"))


def test_a_bad_line_is_counted_past_a_field_of_any_length(tmp_path):
    long = "x" * 200_000  # Python's own reader stops at 131,072
    assert "devices.csv line 5: type is missing" in complaint(tmp_path, DEVICES + f"1,12,{long}\n1,13,\n")
    assert "line 4: a quote is opened and never closed" in complaint(tmp_path, DEVICES + f'1,12,"{long}\n')


def zipped() -> bytes:
    """A zip archive, which an Excel workbook is as well."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("devices.csv", DEVICES)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (gzip.compress(DEVICES.encode())[:-9], "a damaged gzip file"),
        (zipped(), "a zip archive or an Excel workbook"),
        (DEVICES.encode("utf-16-le"), "UTF-16 or not a text file; save it as CSV in UTF-8"),
        (DEVICES.encode("utf-16"), "the file is UTF-16; save it in UTF-8"),
        (b"PAR1" + DEVICES.encode(), "the file is Parquet; call it .parquet"),
    ],
    ids=["damaged gzip", "zip", "UTF-16 without a mark", "UTF-16", "Parquet"],
)
def test_a_file_that_is_no_text_says_what_it_is(tmp_path, content, expected):
    assert expected in complaint(tmp_path, content)


def test_a_table_packed_with_gzip_is_read_whatever_its_name(tmp_path):
    packed = gzip.compress(DEVICES.encode())
    (tmp_path / "rules.csv").write_text(RULES)
    for name in ("devices.csv.gz", "devices.csv"):
        (tmp_path / name).write_bytes(packed)
        homes = from_tables(tmp_path / name, tmp_path / "rules.csv")
        assert homes.fingerprint == read(tmp_path, DEVICES, rules=RULES).fingerprint
    (tmp_path / "devices.csv.gz").write_bytes(gzip.compress(DEVICES.encode() + b"1,12,\n"))
    with pytest.raises(DataError, match=r"devices\.csv\.gz line 4: type is missing"):
        from_tables(tmp_path / "devices.csv.gz", tmp_path / "rules.csv")


def test_the_rows_of_a_file_are_those_kept_repeated_and_skipped(tmp_path):
    # Lines 4 (two faults), 5, 6, 8 and 9 are bad, 7 repeats 2: 8 rows = 2 kept + 1 repeated + 5 skipped.
    devices = DEVICES + '1,,\n1,12\n1,13,"a\nb"\n1,10,Cam\n1,10,Plug\n,,\n'
    # 5 rows = 1 kept + 1 duplicate + 3 skipped, of which the second has two faults.
    rules = RULES + "1,10,Motion,On,11\n1,10,,,11\n1,99,Motion,On,98\n1\n"
    homes = read(tmp_path, devices, rules=rules, on_error="skip")
    assert (homes.n_devices, homes.n_rules) == (2, 1)
    assert homes.provenance.counts == {
        "device rows": 8,
        "device rows repeated": 1,
        "device rows skipped": 5,
        "rule rows": 5,
        "rule rows skipped": 3,
        "duplicate rules": 1,
    }


def test_errors_come_in_the_order_of_the_files_with_the_devices_first(tmp_path):
    (tmp_path / "rules.csv").write_text(RULES + "1,10\n")
    with pytest.raises(DataError) as error:
        read(tmp_path, DEVICES + "1,12,\n", rules=RULES + "1,10\n")
    assert [line.split(":")[0] for line in str(error.value).splitlines()] == ["devices.csv line 4", "rules.csv line 3"]


def test_it_is_said_when_skipping_leaves_no_rule(tmp_path, caplog):
    homes = read(tmp_path, DEVICES, rules=RULES.replace("1,10,", "1,99,"), on_error="skip")
    assert homes.n_rules == 0
    assert "tables: without the bad lines no rule is left" in caplog.text
