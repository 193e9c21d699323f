"""The descriptions of methods beside the results are those of the code."""

from __future__ import annotations

import pytest

from baselines import registry
from benchmarks.commands.methods import method_descriptions
from benchmarks.results.descriptions import FILE, read_description, write_descriptions


def test_the_file_has_the_docstrings_and_parameters_of_the_code(tmp_path):
    if absent := [name for name in registry.listed() if registry.missing_extra(name)]:
        pytest.skip(f"these cannot be imported without their extras: {', '.join(absent)}")
    file = tmp_path / "methods.json"
    write_descriptions(method_descriptions(), file)
    assert file.read_bytes() == FILE.read_bytes(), "stale: run `python -m benchmarks describe`"


def test_a_method_is_described_with_the_meaning_and_range_of_its_parameters():
    ease = read_description("ease")
    assert ease.summary == registry.summary("ease")
    assert "Steck" in ease.about
    assert ease.parameters["regularization"].type == "float"
    assert ease.parameters["regularization"].tuned.startswith("log, ")
    assert ease.parameters["regularization"].meaning


def test_a_method_of_another_package_has_no_description():
    assert read_description("a-method-of-yours") is None
