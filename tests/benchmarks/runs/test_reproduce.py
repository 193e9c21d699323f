"""Results of other code count as made by the current code where one of their seeds is reproduced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.__main__ import main
from benchmarks.results.published import publish, restore
from benchmarks.results.records import write_record
from benchmarks.results.store import FORMAT, Store, load_results
from benchmarks.runs.experiment import users_of
from benchmarks.runs.reproduce import Difference, differences, outdated, reproduce
from benchmarks.runs.scheduler import run_all

SUITE = """
methods = ["popularity", "random"]
seeds = 2
[[data]]
name = "wyze-synthetic"
options = { homes = 60 }
"""


@pytest.fixture
def folder(tmp_path, capsys):
    """Eight results, of two methods, two seeds and two protocols."""
    (tmp_path / "suite.toml").write_text(SUITE)
    assert main(["run", str(tmp_path / "suite.toml"), "--results", str(tmp_path / "results"), "--quiet"]) == 0
    capsys.readouterr()
    return tmp_path / "results"


def edit(folder, change, **which):
    """Replace fields of the results with these fields of the key."""
    for result in load_results(folder):
        if all(getattr(result.key, name) == value for name, value in which.items()):
            write_record(folder / f"{result.key.hash}.json", replace(change(result), folder=None), FORMAT)


def older(result):
    return replace(result, code="0123456789ab", commit="older")


def test_results_of_the_current_code_are_not_run_again(folder, capsys):
    assert outdated(folder) == []
    assert main(["reproduce", "--results", str(folder)]) == 0
    assert "has no results of other code" in capsys.readouterr().out


def test_all_seeds_count_where_the_lowest_is_reproduced(folder):
    now = {result.key.hash: result.code for result in load_results(folder)}
    edit(folder, older)
    groups = outdated(folder)
    assert [len(group.runs) for group in groups] == [2] * 4  # 8 results: 2 methods x 2 protocols, 2 seeds each
    assert {group.first.key.seed for group in groups} == {0}
    assert all(found.same for found in reproduce(groups, Store(folder), quiet=True))
    for result in load_results(folder):
        assert result.code == now[result.key.hash]
        assert (result.commit, bool(result.reproduced)) == ("older", True)
        assert len(result.homes())  # the tables are still those of the result
    assert outdated(folder) == []


def test_a_seed_does_not_vouch_for_one_that_was_made_by_different_code(folder):
    edit(folder, older)
    edit(folder, lambda result: replace(result, code="ba9876543210"), method="random", seed=1)
    groups = outdated(folder)
    # popularity: 2 protocols with both seeds; random: 2 protocols x 2 seeds, each on its own.
    assert sorted(len(group.runs) for group in groups) == [1, 1, 1, 1, 2, 2]


def test_a_published_result_is_reproduced_although_it_is_rounded(folder, tmp_path):
    edit(folder, older)
    publish(folder, tmp_path / "file.parquet", is_real=lambda _: False, users_of=users_of)
    restore(tmp_path / "file.parquet", tmp_path / "again", users_of=users_of)
    found = reproduce(outdated(tmp_path / "again"), Store(tmp_path / "again"), quiet=True)
    assert len(found) == 4
    assert all(each.same for each in found)


def test_a_number_that_differs_is_named_and_its_group_stays_of_other_code(folder, capsys):
    edit(folder, older)
    changed = {"method": "random", "protocol": "ranking", "seed": 0}
    edit(folder, lambda result: replace(result, summary=result.summary | {"mrr": 0.75}), **changed)
    assert main(["reproduce", "--results", str(folder), "--quiet"]) == 1
    out = capsys.readouterr().out
    assert "changed: random on wyze-synthetic (types, holdout), ranking, seed 0 (and 1 other seed): mrr was 0.75" in out
    assert "6 results now count as made by the current code, 2 have other numbers, 0 could not be run again" in out
    assert [(group.first.key.method, group.first.key.protocol) for group in outdated(folder)] == [("random", "ranking")]


def test_what_was_compared_before_an_interruption_counts(folder, monkeypatch):
    edit(folder, older)

    def interrupted_after_one(experiments, *, on_result, **how):
        def stop(result):
            on_result(result)
            raise KeyboardInterrupt

        run_all(experiments, on_result=stop, **how)

    monkeypatch.setattr("benchmarks.runs.reproduce.run_all", interrupted_after_one)
    with pytest.raises(KeyboardInterrupt):
        reproduce(outdated(folder), Store(folder), quiet=True)
    assert len(outdated(folder)) == 3


def test_what_the_lowest_seed_does_not_show_is_not_found(folder):
    """The inference to other seeds, as the docs say."""
    edit(folder, older)
    edit(folder, lambda result: replace(result, summary=result.summary | {"mrr": 0.75}), method="random", seed=1)
    assert all(found.same for found in reproduce(outdated(folder), Store(folder), quiet=True))


def test_a_run_whose_method_or_data_has_changed_is_told_apart(folder, tmp_path, capsys):
    """Its key is of other options or other homes: each of these would be another result."""

    def with_old_option(result):
        return replace(older(result), key=replace(result.key, parameters=result.key.parameters | {"gone": 1}))

    def of_other_homes(result):
        return replace(older(result), key=replace(result.key, fingerprint="f" * 16))

    again = Store(tmp_path / "again")
    for result in load_results(folder):
        if result.key.seed == 0 and result.key.protocol == "ranking":
            change = with_old_option if result.key.method == "popularity" else of_other_homes
            again.save(change(result), result.homes(), result.rules())
    assert main(["reproduce", "--results", str(again.folder), "--quiet"]) == 1
    out = capsys.readouterr().out
    assert "'gone'" in out
    assert "the data here is not that of the stored run" in out
    assert "0 results now count as made by the current code, 0 have other numbers, 2 could not be run again" in out


def test_only_named_methods_are_run_again(folder, capsys):
    edit(folder, older)
    assert main(["reproduce", "--results", str(folder), "--methods", "random", "--quiet"]) == 0
    assert "4 results now count" in capsys.readouterr().out
    assert {group.first.key.method for group in outdated(folder)} == {"popularity"}
    assert main(["reproduce", "--results", str(folder), "--methods", "rnadom"]) == 1
    assert "did you mean 'random'" in capsys.readouterr().err


def test_numbers_are_compared_to_all_digits_that_are_stored():
    """0.123456 is published as 0.12346; 0.1234561 is not 0.123456, and a metric that is gone is NaN."""
    assert list(differences({"a": 0.123456}, {"a": 0.123456})) == []
    assert list(differences({"a": 0.12346}, {"a": 0.123456})) == []
    assert list(differences({"a": float("nan")}, {"a": float("nan")})) == []
    assert list(differences({"a": 0.123456}, {"a": 0.1234561})) == [Difference("a", 0.123456, 0.1234561)]
    ((metric, stored, _),) = differences({"a": 1.0}, {"b": 1.0})
    assert (metric, stored) == ("a", 1.0)
