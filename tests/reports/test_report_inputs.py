"""What reports read is made once; a failure is logged and the rest is made."""

from __future__ import annotations

import logging

import pytest

from benchmarks.results.records import load_examples, load_summaries
from benchmarks.results.store import Store, load_results
from datasets.common.errors import DataError
from reports.build import make_report_inputs
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


def test_runs_summaries_and_examples_are_made_and_then_found(tmp_path, capsys):
    path, store = suite(tmp_path, SUITE), Store(tmp_path / "results")
    first = make_report_inputs(path, store=store)
    assert (first.made, first.failed) == (2, [])
    assert {result.key.track for result in load_results(store.folder)} == {"types", "instances"}
    summaries, _ = load_summaries(store.folder)
    assert [each.data for each in summaries] == ["wyze-synthetic"]
    ((example,), _) = load_examples(store.folder)
    assert [(each.method, each.parameters.get("regularization")) for each in example.methods] == [
        ("popularity", None),
        ("ease", 5.0),
    ]
    files = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")}
    again = make_report_inputs(path, store=store)
    assert (again.made, len(again.finished)) == (0, 2)
    assert {path: path.stat().st_mtime_ns for path in store.folder.rglob("*.json")} == files
    assert capsys.readouterr() == ("", "")  # silent without a terminal


def test_an_example_that_fails_is_named_and_the_rest_is_made(tmp_path, caplog):
    text = SUITE.replace('"popularity", {', '"toy-broken", {')
    store = Store(tmp_path / "results")
    with caplog.at_level(logging.WARNING):
        assert make_report_inputs(suite(tmp_path, text), store=store).made == 2
    assert "failed: example of toy-broken, ease on wyze-synthetic: the weather is bad" in caplog.text
    assert (len(load_summaries(store.folder)[0]), load_examples(store.folder)) == (1, ([], []))


def test_a_damaged_summary_is_made_again(tmp_path):
    path, store = suite(tmp_path, SUITE.partition("example")[0]), Store(tmp_path / "results")
    make_report_inputs(path, store=store)
    (file,) = (store.folder / "data").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    make_report_inputs(path, store=store)
    assert file.read_bytes() == whole


def test_a_wrong_example_is_an_error_before_anything_runs(tmp_path):
    with pytest.raises(DataError, match="did you mean 'ease'"):
        make_report_inputs(suite(tmp_path, SUITE.replace('"ease"', '"eaes"')), store=Store(tmp_path / "results"))
    assert not (tmp_path / "results").exists()
