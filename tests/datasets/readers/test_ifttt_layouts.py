"""Which IFTTT layout a path holds is detected from its content."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from datasets.common.errors import DataError
from datasets.readers.ifttt import ifttt_full, layout_of
from tests.support.ifttt_files import PARTS, RULES, mi_line, ur_line, write, write_recrules


@pytest.fixture
def recrules(tmp_path: Path) -> Path:
    return write_recrules(tmp_path)


def test_the_layout_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    assert layout_of(write(tmp_path / "recipes.json", [ur_line()])) == "Ur et al. 2016"
    assert layout_of(write(tmp_path / "rules", [mi_line()])) == "Mi et al. 2017"
    assert layout_of(write(tmp_path / "recipes.tsv", RULES)) == "RecRules"
    assert layout_of(write(tmp_path / "trainset", PARTS["trainset"])) is None
    assert layout_of(write(tmp_path / "late", ["rubbish", "", ur_line()])) == "Ur et al. 2016"


def test_a_folder_and_the_file_in_it_are_the_same_data(
    recrules: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (recrules / "README.md").write_text("# What this is\n")
    assert ifttt_full(recrules).fingerprint == ifttt_full(recrules / "rules").fingerprint
    folder = tmp_path_factory.mktemp("crawl")
    file = write(folder / "x", [ur_line()])
    assert ifttt_full(folder).fingerprint == ifttt_full(file).fingerprint


def test_a_crawl_packed_with_gzip_is_read(tmp_path: Path) -> None:
    plain = write(tmp_path / "recipes.tsv", [ur_line()])
    packed = tmp_path / "recipes.tsv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert layout_of(packed) == "Ur et al. 2016"
    assert ifttt_full(packed).fingerprint == ifttt_full(plain).fingerprint


def test_a_folder_with_two_data_sets_or_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# nothing\n")
    with pytest.raises(DataError, match=r"holds no known IFTTT data; expected .* found a\.md begins with '# nothing'"):
        ifttt_full(tmp_path)
    write(tmp_path / "one", [ur_line()])
    write(tmp_path / "two", [mi_line()])
    with pytest.raises(
        DataError, match=r"more than one data set: one \(Ur et al. 2016\), two \(Mi et al. 2017\); give"
    ):
        ifttt_full(tmp_path)
