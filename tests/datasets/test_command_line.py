"""`python -m datasets`, as people type it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

import datasets
from datasets.__main__ import main
from datasets.common.errors import DataError
from datasets.common.options import read_assignments
from tests.support.tables import write_pair


def test_list_names_every_data_set_with_its_options(capsys):
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in datasets.names():
        assert f"\n{name}: " in f"\n{out}"
    assert "min_pair_count: int = 1" in out


def test_a_wrong_name_is_answered_with_the_right_one_and_no_traceback(capsys):
    assert main(["describe", "wyze-sinthetic"]) == 1
    assert "did you mean 'wyze-synthetic'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("assignment", "complaint"),
    [
        ("hoems=10", "unknown option of wyze-synthetic 'hoems'; did you mean 'homes'?"),
        ("homes", "write KEY=VALUE"),
        ("homes.x=1", "wyze-synthetic homes.x: homes has no entries; write homes=VALUE"),
        ("homes=many", "wyze-synthetic homes='many': expected int (a whole number) or none"),
    ],
)
def test_a_wrong_option_is_answered_with_what_would_be_right(capsys, assignment, complaint):
    assert main(["describe", "wyze-synthetic", "--set", assignment]) == 1
    assert complaint in capsys.readouterr().err


def test_describe_prints_statistics_and_as_json_the_same(capsys):
    assert main(["describe", "wyze-synthetic", "--set", "homes=50"]) == 0
    text = capsys.readouterr().out
    assert main(["describe", "wyze-synthetic", "--set", "homes=50", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["homes"] == 50
    assert f"fingerprint {values['fingerprint']}" in text


def test_generate_writes_a_file_that_describes_the_same(capsys, tmp_path):
    path = tmp_path / "homes.parquet"
    assert main(["generate", "wyze-synthetic", "--set", "homes=50", "--out", str(path)]) == 0
    assert main(["describe", "saved", "--data", str(path), "--json"]) == 0
    expected = datasets.load("wyze-synthetic", homes=50).fingerprint
    assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["fingerprint"] == expected


def test_generate_writes_a_folder_in_the_wyze_layout(capsys, tmp_path):
    assert main(["generate", "wyze-synthetic", "--set", "homes=50", "--out", str(tmp_path / "made")]) == 0
    assert main(["check", str(tmp_path / "made")]) == 0
    out = capsys.readouterr().out
    assert "read as wyze" in out
    assert "No bad lines: 50 homes" in out
    assert main(["generate", "wyze-synthetic", "--set", "homes=50", "--out", str(tmp_path / "made.csv")]) == 1
    assert "ends in .parquet" in capsys.readouterr().err


def test_check_names_the_bad_lines_and_says_what_would_be_left(capsys, tmp_path):
    rules = ["1,A,1,s,0,x,0,A,1,1_0_0_1", "1,A,1,s,0,x,0,A,1,1_0_0_2"]
    write_pair(tmp_path, devices=["1,1,A"], rules=rules)
    assert main(["check", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "train_rule.csv line 3: rule is not" in out
    assert "Without the bad lines (on_error=skip): 1 homes, 1 devices, 1 rules" in out


def test_check_reads_tables_whose_columns_are_called_differently(capsys, tmp_path):
    (tmp_path / "devices.csv").write_text("household,device,type\n1,1,A\n")
    (tmp_path / "rules.csv").write_text("household,trigger_device,trigger_state,action,action_device\n1,1,s,x,1\n")
    assert main(["check", str(tmp_path)]) == 1
    assert "missing 'user'" in capsys.readouterr().out
    assert main(["check", str(tmp_path), "--set", "columns.user=household"]) == 0


def test_check_says_what_it_expects_of_a_path_it_cannot_read(capsys, tmp_path):
    assert main(["check", str(tmp_path / "nowhere")]) == 1
    assert main(["check", str(tmp_path)]) == 1
    assert "the folder is empty; expected" in capsys.readouterr().err


def test_a_data_set_of_ones_own_joins_by_import(capsys, tmp_path, monkeypatch):
    (tmp_path / "my_homes.py").write_text(
        "import datasets\n\n"
        '@datasets.dataset("mine")\n'
        "def mine(*, size: int = 3):\n"
        '    """Three homes of my own."""\n'
        '    return datasets.load("wyze-synthetic", homes=size)\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["--import", "my_homes", "describe", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["homes"] == 3
    assert main(["--import", "my_hoems", "list"]) == 1
    assert "my_hoems" in capsys.readouterr().err


def test_texts_become_what_the_signature_asks_for():
    def load(*, size: int | None = None, share: float = 0.1, strict: bool = False, name: str = "") -> None: ...

    texts = ["size=none", "share=1", "strict=yes", "name=7"]
    assert read_assignments(load, texts, where="x") == {"size": None, "share": 1.0, "strict": True, "name": "7"}
    with pytest.raises(DataError, match="x strict='maybe': expected bool"):
        read_assignments(load, ["strict=maybe"], where="x")


def test_entries_fill_a_mapping_one_by_one():
    def load(*, columns: Mapping[str, str] | None = None) -> None: ...

    texts = ["columns=none", "columns.user=household", "columns.type=model"]
    assert read_assignments(load, texts, where="x") == {"columns": {"user": "household", "type": "model"}}


def test_check_says_what_was_skipped_even_when_skipping_was_asked_for(capsys, tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1", "1,A,1,s,0,x,0,A,1,1_0_0_2"])
    assert main(["check", str(tmp_path), "--set", "on_error=skip"]) == 1
    out = capsys.readouterr().out
    assert "train_rule.csv: 1 line skipped because rule is not" in out
    assert "Without the bad lines: 1 homes, 1 devices, 1 rules" in out
    assert "No bad lines" not in out


@pytest.mark.parametrize("name", ["devices.csv", "train_rule.csv", "rules.parquet"])
def test_check_of_one_table_asks_for_the_folder_of_both(capsys, tmp_path, name):
    (tmp_path / name).write_text("user,device,type\n1,1,A\n")
    assert main(["check", str(tmp_path / name)]) == 1
    assert f"{name}: it is one table of several; give the folder that holds them, {tmp_path}" in capsys.readouterr().err


def test_check_reads_a_folder_with_only_the_test_part_when_it_is_asked_for(capsys, tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    for kind in ("rule", "device"):
        (tmp_path / f"train_{kind}.csv").rename(tmp_path / f"test_{kind}.csv")
    assert main(["check", str(tmp_path)]) == 1
    assert "load it with part=test" in capsys.readouterr().out
    assert main(["check", str(tmp_path), "--set", "part=test"]) == 0
    assert "No bad lines: 1 homes" in capsys.readouterr().out


def test_fidelity_takes_the_files_and_options_of_the_real_data_apart(capsys, tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    command = ["fidelity", "wyze-synthetic", "--set", "homes=50"]
    real = ["--real", "wyze", "--real-data", str(tmp_path), "--real-set", "min_devices=1"]
    assert main([*command, *real]) == 0
    assert "real" in capsys.readouterr().out.splitlines()[0]
    assert main([*command, "--real-data", str(tmp_path)]) == 1
    assert "name it, e.g. --real wyze" in capsys.readouterr().err


def test_merged_homes_are_not_laid_beside_what_was_published_about_all_of_them(capsys, tmp_path):
    write_pair(tmp_path, devices=["1,1,A"], rules=["1,A,1,s,0,x,0,A,1,1_0_0_1"])
    assert main(["describe", "wyze", "--data", str(tmp_path)]) == 0
    assert "Compared with the public Wyze" in capsys.readouterr().out
    assert main(["describe", "wyze", "--data", str(tmp_path), "--merged"]) == 0
    assert "Beside" not in capsys.readouterr().out
