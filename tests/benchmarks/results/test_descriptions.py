"""What methods say of themselves is kept beside the results, and is what their code says."""

from __future__ import annotations

import pytest

from baselines import registry
from benchmarks.commands import method_descriptions
from benchmarks.results.descriptions import FILE, described, write_descriptions


def test_the_file_is_what_the_methods_say(tmp_path):
    if absent := [name for name in registry.listed() if registry.missing_extra(name)]:
        pytest.skip(f"without their extras nobody knows what these say: {', '.join(absent)}")
    file = tmp_path / "methods.json"
    write_descriptions(method_descriptions(), file)
    assert file.read_bytes() == FILE.read_bytes(), "stale: run `python -m benchmarks describe`"


def test_a_method_is_described_with_the_meaning_and_range_of_its_parameters():
    ease = described("ease")
    assert ease.summary == registry.summary("ease")
    assert "Steck" in ease.about
    assert ease.parameters["regularization"].type == "float"
    assert ease.parameters["regularization"].tuned.startswith("log, ")
    assert ease.parameters["regularization"].meaning


def test_nothing_is_known_of_a_method_of_others():
    assert described("a-method-of-yours") is None
