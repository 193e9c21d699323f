"""`python -m fedrule pipeline`: what it prints, what it writes, and one message where something is wrong."""

from __future__ import annotations

import os
import pty
import sqlite3
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import datasets

pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")

import fedrule.pipeline
from fedrule.__main__ import main as fedrule_main
from tests.support.pipeline_tables import THREE_HOMES, spelled, three_homes

COMMAND = [sys.executable, "-m", "fedrule", "pipeline"]


def main(arguments: list[str]) -> int:
    return fedrule_main(["pipeline", *arguments])


@pytest.fixture
def described(tmp_path) -> Path:
    """A TOML file beside the three homes."""
    three_homes(tmp_path / "homes.db")
    (tmp_path / "homes.toml").write_text('[devices]\nurl = "homes.db"\n[rules]\n')
    return tmp_path / "homes.toml"


def test_check_tells_what_is_in_both_tables(described, capsys):
    assert main(["check", str(described)]) == 0
    place = f"SQLite {described.parent / 'homes.db'}"
    assert capsys.readouterr().out.splitlines() == [
        f"devices in {place}: 5 rows; user = user, device = device, type = type",
        f"rules in {place}: 3 rows; user = user, trigger_device = trigger_device, trigger_state = trigger_state, "
        "action = action, action_device = action_device",
        "3 users, 5 devices, 3 rules",
        "users with devices but no rules: 1",
        "4 types: Camera, ContactSensor, Light, Plug",
        "3 relations: Motion -> Power On, On -> Record, Open -> Power On",
    ]


def test_check_names_the_first_bad_rows_and_fails(described, capsys):
    connection = sqlite3.connect(described.parent / "homes.db")
    with connection:
        connection.execute("insert into rules values (1, 77, 'Open', 'Power On', 11)")
    connection.close()
    assert main(["check", str(described)]) == 1
    said = capsys.readouterr()
    assert "4 rows" in said.out
    assert said.err.startswith(
        "rules row with user '1', trigger_device '77', action_device '11': trigger_device is not"
    )
    assert len(said.err.splitlines()) == 1


def test_check_counts_what_was_skipped(described, capsys):
    connection = sqlite3.connect(described.parent / "homes.db")
    with connection:
        connection.execute("insert into devices values (null, 77, 'Plug')")
    connection.close()
    described.write_text('on_error = "skip"\n' + described.read_text())
    assert main(["check", str(described)]) == 0
    assert "device rows skipped: 1" in capsys.readouterr().out.splitlines()


def test_export_writes_homes_that_can_be_loaded(described, tmp_path, capsys):
    assert main(["export", str(described), str(tmp_path / "out.parquet")]) == 0
    assert spelled(datasets.load("saved", path=tmp_path / "out.parquet")) == THREE_HOMES
    assert "3 homes" in capsys.readouterr().out
    assert main(["export", str(described), str(tmp_path / "out.csv")]) == 1
    assert capsys.readouterr().err.endswith("out.csv: the output must be a .parquet file\n")


@pytest.mark.parametrize("command", ["check", "export"])
def test_a_missing_file_is_one_message(command, tmp_path, capsys):
    arguments = [str(tmp_path / "out.parquet")] if command == "export" else []
    assert main([command, str(tmp_path / "none.toml"), *arguments]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'none.toml'}: no such file\n"


def test_rows_are_counted_on_a_terminal_only(described):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    done = subprocess.run([*COMMAND, "check", described], check=True, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "8/8" in shown  # 5 devices and 3 rules
    assert " rows/s]" in shown
    quiet = subprocess.run([*COMMAND, "check", described], check=True, capture_output=True)
    assert quiet.stderr == b""
    assert quiet.stdout == done.stdout


HIDDEN = "import sys; sys.modules['sqlalchemy'] = None\n"  # as if it were not installed


def test_without_sqlalchemy_the_package_can_be_imported(tmp_path):
    subprocess.run([sys.executable, "-c", f"{HIDDEN}import fedrule.pipeline"], check=True, cwd=tmp_path)


@pytest.mark.parametrize("arguments", [["check", "p.toml"], ["export", "p.toml", "out.parquet"]])
def test_without_sqlalchemy_the_extra_is_named_by_one_message(arguments, tmp_path):
    code = f"{HIDDEN}from fedrule.__main__ import main\nsys.exit(main({['pipeline', *arguments]}))"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == 'databases need the extra pipeline: pip install -c constraints.txt -e ".[pipeline]"\n'
    assert done.returncode == 1


def test_what_the_package_does_not_have_is_no_attribute():
    assert not hasattr(fedrule.pipeline, "homes_of")
    assert all(hasattr(fedrule.pipeline, name) for name in fedrule.pipeline.__all__)
