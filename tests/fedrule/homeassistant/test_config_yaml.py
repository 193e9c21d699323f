"""Home Assistant's YAML is read within bounds, and what cannot be read is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fedrule.homeassistant.installation import printable
from fedrule.homeassistant.readers import config_yaml
from fedrule.homeassistant.readers.config_yaml import ConfigReader, Hidden, Input


def read(folder: Path, content: str | bytes, name: str = "main.yaml"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    reader = ConfigReader(folder)
    return reader.read(path), [str(problem) for problem in reader.problems]


def test_scalars_are_read_as_home_assistant_does_and_times_stay_text(tmp_path):
    content, problems = read(tmp_path, "a: on\nb: 'on'\nc: 5\nd: 1.5\ne:\nf: 12:30:00\ng: No\noff: x\n")
    assert content == {
        "a": True, "b": "on", "c": 5, "d": 1.5, "e": None, "f": "12:30:00", "g": False, "off": "x"
    }  # fmt: skip
    assert problems == []


def test_anchors_and_merge_keys_are_resolved(tmp_path):
    content, _ = read(tmp_path, "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  l: 3\nc: *x\n")
    assert content["b"] == {"k": 1, "l": 3}
    assert content["c"] == {"k": 1, "l": 2}


def test_secrets_are_never_looked_up(tmp_path):
    (tmp_path / "secrets.yaml").write_text("door_code: hunter2\n")
    content, _ = read(tmp_path, "a: !secret door_code\nb: !env_var HOME\nc: !input lamp\n")
    assert isinstance(content["a"], Hidden)
    assert isinstance(content["b"], Hidden)
    assert isinstance(content["c"], Input)
    assert "hunter2" not in repr(content)
    assert str(Path.home()) not in repr(content)


def test_folders_are_included_in_the_four_ways_and_secrets_files_are_left_out(tmp_path):
    for name, text in {"one": "[1]", "two": "[2]", "secrets": "[3]", ".hidden": "[4]"}.items():
        (tmp_path / "lists").mkdir(exist_ok=True)
        (tmp_path / "lists" / f"{name}.yaml").write_text(text)
    (tmp_path / "maps" / "deep").mkdir(parents=True)
    (tmp_path / "maps" / "deep" / "a.yaml").write_text("x: 1")
    (tmp_path / "maps" / "b.yaml").write_text("y: 2")
    content, problems = read(
        tmp_path,
        "list: !include_dir_list lists\nmerged: !include_dir_merge_list lists\n"
        "named: !include_dir_named maps\nall: !include_dir_merge_named maps\n",
    )
    assert content == {
        "list": [[1], [2]],
        "merged": [1, 2],
        "named": {"a": {"x": 1}, "b": {"y": 2}},
        "all": {"x": 1, "y": 2},
    }
    assert problems == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [1\nb: 2\n", "not valid YAML"),
        ("a: *nothing\n", "an alias is not defined"),
        ("a: &x [*x]\n", "an alias contains itself"),
        (b"\x80\x81", "not UTF-8"),
        (b"a\x00b", "binary"),
        ("[" * 5000, "nested deeper"),
        ("a: \x07", "not valid YAML"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, content, said):
    found, problems = read(tmp_path, content)
    assert found is None
    assert len(problems) == 1
    assert problems[0].startswith("main.yaml")
    assert said in problems[0]


def test_a_problem_never_quotes_the_file(tmp_path):
    _, problems = read(tmp_path, 'password: "hunter2\nother: [hunter3')
    assert "hunter" not in problems[0]


def test_aliases_that_stand_for_billions_of_values_are_refused(tmp_path):
    # 10 levels of 10 aliases each are 10 ** 10 values in 11 lines.
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    found, problems = read(tmp_path, "\n".join(lines))
    assert found is None
    assert "more than 2,000,000 values" in problems[0]


def test_files_that_include_one_another_twice_are_refused_in_time(tmp_path):
    # 2 ** 18 contents in 19 files.
    for n in range(19):
        (tmp_path / f"f{n}.yaml").write_text(f"a: !include f{n + 1}.yaml\nb: !include f{n + 1}.yaml\n")
    (tmp_path / "f19.yaml").write_text(json.dumps(list(range(100))))
    _, problems = read(tmp_path, "!include f0.yaml")
    assert any("values" in problem for problem in problems)


def test_a_file_that_includes_itself_is_named_and_the_rest_is_read(tmp_path):
    (tmp_path / "a.yaml").write_text("b: !include b.yaml\nkept: 1\n")
    (tmp_path / "b.yaml").write_text("a: !include a.yaml\nkept: 2\n")
    found, problems = read(tmp_path, "top: !include a.yaml\nkept: 3\n")
    assert found == {"top": {"b": {"a": None, "kept": 2}, "kept": 1}, "kept": 3}
    assert problems == ["b.yaml line 1: included a.yaml: it includes itself, directly or through other files; skipped"]


def test_includes_that_leave_the_folder_are_refused(tmp_path):
    (tmp_path / "outside.yaml").write_text("secret: 1")
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    found, problems = read(folder, "a: !include ../outside.yaml\nb: !include link.yaml\nc: !include /etc/passwd\n")
    assert found == {"a": None, "b": None, "c": None}
    assert len(problems) == 3
    assert all("outside of the configuration's folder; refused" in problem for problem in problems)


def test_a_huge_file_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(config_yaml, "FILE_BYTES", 10)
    found, problems = read(tmp_path, "a: 123456789\n")
    assert found is None
    assert problems == ["main.yaml: 13 bytes, more than 10; skipped"]


def test_a_missing_file_or_folder_is_named_where_it_is_included(tmp_path):
    found, problems = read(tmp_path, "a: !include nothing.yaml\nb: !include_dir_list nowhere\n")
    assert found == {"a": None, "b": None}
    assert problems == [
        "main.yaml line 1: included nothing.yaml: there is no such file",
        "main.yaml line 2: included nowhere: there is no such folder",
    ]


def test_a_mapping_knows_its_file_and_line(tmp_path):
    content, _ = read(tmp_path, "- a: 1\n-\n  b: 2\n")
    assert [each.where for each in content] == ["main.yaml line 1", "main.yaml line 3"]


TEXTS = st.text(max_size=20).map(printable)  # any other is replaced where it is read
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(bool), inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES)
def test_whatever_a_yaml_writer_writes_is_read_back(value, tmp_path_factory):
    folder = tmp_path_factory.mktemp("yaml")
    content, problems = read(folder, yaml.safe_dump(value, allow_unicode=True))
    assert content == value
    assert problems == []


@given(content=st.text(alphabet="ab:-[]{}&*!#|>'\"\n ,?<\t", max_size=60))
def test_no_text_makes_the_reader_fail(content, tmp_path_factory):
    folder = tmp_path_factory.mktemp("yaml")
    found, problems = read(folder, content)
    assert found is None or problems == []
