"""Prepare makes what reports read, once; what fails is named and the rest goes on."""

from __future__ import annotations

import logging

import pytest

from benchmarks.results.dataset_summary import load_portraits
from benchmarks.results.examples import load_examples
from benchmarks.results.report_inputs import prepare
from benchmarks.results.store import Store, load_results
from datasets.common.errors import DataError
from tests.support.toys import toys

assert toys  # a fixture

pytestmark = pytest.mark.usefixtures("toys")

SUITE = """
methods = ["popularity"]
seeds = 1
protocols = ["ranking"]
[[data]]
name = "wyze-synthetic"
options = { homes = 100 }
example = ["popularity", { name = "ease", regularization = 5.0 }]
[[data]]
name = "wyze-synthetic"
options = { homes = 100 }
track = "instances"
"""


def suite(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def test_runs_portraits_and_examples_are_made_and_then_found(tmp_path, capsys):
    path, store = suite(tmp_path, SUITE), Store(tmp_path / "results")
    first = prepare(path, store=store)
    assert (first.runs.made, first.portraits, first.examples, first.failed) == (2, 1, 1, [])
    assert {result.key.track for result in load_results(store.folder)} == {"types", "instances"}
    portraits, _ = load_portraits(store.folder)
    assert [each.data for each in portraits] == ["wyze-synthetic"]
    ((example,), _) = load_examples(store.folder)
    assert [(each.method, each.parameters.get("regularization")) for each in example.methods] == [
        ("popularity", None),
        ("ease", 5.0),
    ]
    files = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}
    again = prepare(path, store=store)
    assert (again.runs.made, len(again.runs.finished), again.portraits, again.examples) == (0, 2, 0, 0)
    assert {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")} == files
    assert capsys.readouterr() == ("", "")  # silent without a terminal


def test_an_example_that_fails_is_named_and_the_rest_is_made(tmp_path, caplog):
    text = SUITE.replace('"popularity", {', '"toy-broken", {')
    with caplog.at_level(logging.WARNING):
        prepared = prepare(suite(tmp_path, text), store=Store(tmp_path / "results"))
    ((what, why),) = prepared.failed
    assert what == "example of toy-broken, ease on wyze-synthetic"
    assert why == "the weather is bad"
    assert "failed: example of toy-broken, ease" in caplog.text
    assert (prepared.runs.made, prepared.portraits, prepared.examples) == (2, 1, 0)


def test_a_damaged_portrait_is_made_again(tmp_path):
    path, store = suite(tmp_path, SUITE.partition("example")[0]), Store(tmp_path / "results")
    prepare(path, store=store)
    (file,) = (store.folder / "data").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert prepare(path, store=store).portraits == 1
    assert file.read_bytes() == whole


def test_a_wrong_example_is_an_error_before_anything_runs(tmp_path):
    with pytest.raises(DataError, match="did you mean 'ease'"):
        prepare(suite(tmp_path, SUITE.replace('"ease"', '"eaes"')), store=Store(tmp_path / "results"))
    assert not (tmp_path / "results").exists()
