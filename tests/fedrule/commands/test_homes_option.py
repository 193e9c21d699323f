"""The homes that a command is told by one word."""

from __future__ import annotations

import pytest

from datasets import DataError
from fedrule.commands import load_homes


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "devices.csv").write_text("household,device,type\na,1,Door\na,2,Lamp\nb,3,Lamp\n")
    (tmp_path / "rules.csv").write_text(
        "household,trigger_device,trigger_state,action,action_device\na,1,Open,Power On,2\na,9,Open,Power On,2\n"
    )
    return tmp_path


def test_a_name_may_have_options():
    assert load_homes("wyze-synthetic:homes=7").n_homes == 7


def test_a_folder_of_tables_may_have_options_too(tables):
    homes = load_homes(f"{tables}:columns.user=household,on_error=skip")
    assert (homes.n_homes, homes.n_rules) == (2, 1)


def test_a_name_may_be_told_where_its_files_are(tables):
    homes = load_homes(f"tables:path={tables},columns.user=household,on_error=skip")
    assert homes.fingerprint == load_homes(f"{tables}:columns.user=household,on_error=skip").fingerprint


def test_a_saved_file_is_read(tmp_path):
    load_homes("wyze-synthetic:homes=5").save(tmp_path / "homes.parquet")
    assert load_homes(str(tmp_path / "homes.parquet")).n_homes == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wyze-synthetik", "did you mean 'wyze-synthetic'?"),
        ("wyze-synthetic:home=7", "did you mean 'homes'?"),
        ("nothing/here.parquet", r"nothing/here\.parquet: no such file or folder; give a data set"),
        ("nothing/here:min_rules=2", r"nothing/here: no such file or folder"),
    ],
)
def test_what_is_nowhere_is_refused_with_what_there_is(text, message):
    with pytest.raises(DataError, match=message):
        load_homes(text)
