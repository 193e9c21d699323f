"""Published results: the same numbers in a small file, and nothing of real homes beyond numbers about methods."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.results import published
from benchmarks.results.leaderboard import boards, leaderboard
from benchmarks.results.published import FILE, publish, published_folder, restore, significant, unpack
from benchmarks.results.records import EXAMPLES, SUMMARIES
from benchmarks.results.store import load_runs
from datasets.common.errors import DataError
from reports.inputs import Inputs
from tests.support.made_runs import HOMES, keep


def never(name):
    del name
    return False


def always(name):
    del name
    return True


def round_trip(folder, tmp_path, is_real=never):
    file = tmp_path / "results.parquet"
    publish(folder, file, is_real=is_real)
    unpack(file, tmp_path / "again")
    return tmp_path / "again"


def test_runs_come_back_with_their_keys_summaries_and_homes(tmp_path):
    history = [{"round": 1.0, "loss": 0.5}, {"round": 2.0, "sent_bytes": 1_234_567.0}]
    keep(tmp_path / "a", "toy", {"mrr": [0.123456] * HOMES}, seeds=(0, 1, 2), history=history)
    keep(tmp_path / "a", "other", {"mrr": [0.00345678] * HOMES, "map": [0.5] * HOMES}, seeds=(0,))
    again = round_trip(tmp_path / "a", tmp_path)
    before, after = load_runs(tmp_path / "a").finished, load_runs(again).finished
    for old, new in zip(before, after, strict=True):
        assert new.summary == pytest.approx(old.summary, rel=5e-4)  # four digits
        assert replace(new, folder=None, digests={}, summary={}) == replace(old, folder=None, digests={}, summary={})
        table = new.homes("user", "mrr", "n_hidden").set_index("user")
        wanted = old.homes("user", "mrr", "n_hidden").set_index("user")
        assert np.allclose(table.loc[wanted.index].to_numpy(), wanted.to_numpy(), rtol=0, atol=5.1e-5)


def test_homes_keep_the_metric_of_the_challenge_where_one_automation_is_hidden(tmp_path):
    values = {"mrr": [0.25] * HOMES, "mrr@50": [0.2] * HOMES}
    keep(tmp_path / "a", "toy", values, seeds=(0,), split={"split": "new_homes"})
    keep(tmp_path / "a", "toy", values, seeds=(0,))
    columns = {
        run.key.split["split"]: run.home_columns() for run in load_runs(round_trip(tmp_path / "a", tmp_path)).finished
    }
    assert "mrr@50" in columns["new_homes"]
    assert "mrr@50" not in columns["holdout"]


def test_a_summary_keeps_what_tables_show_and_counts_as_they_are(tmp_path):
    shown = {"hr@7": 0.3, "mrr, raw": 0.1, "mrr, all": 0.2, "seen: mrr, all": 0.4, "seen: hidden": 1_234_567.0}
    left = {"hr@8": 0.3, "hr@7, all": 0.3, "seen: hr@3": 0.3, "seen: mrr, raw": 0.1, "mrr, all raw": 0.1}
    keep(tmp_path / "a", "toy", {"mrr": [0.25] * HOMES}, seeds=(0,), summary=shown | left)
    (found,) = load_runs(round_trip(tmp_path / "a", tmp_path)).finished
    assert shown.items() <= found.summary.items()
    assert not left.keys() & found.summary.keys()


def test_runs_with_many_homes_keep_the_first_metric_of_each(tmp_path, monkeypatch):
    values = {"mrr": [0.25] * HOMES, "hr@10": [0.5] * HOMES, "mrr@50": [0.2] * HOMES}
    keep(tmp_path / "a", "toy", values, seeds=(0,), split={"split": "leave_one_out"})
    for most, columns in ((HOMES + 1, {"mrr", "hr@10", "mrr@50"}), (HOMES, {"mrr", "mrr@50"})):
        monkeypatch.setattr(published, "MANY_HOMES", most)
        (found,) = load_runs(round_trip(tmp_path / "a", tmp_path / str(most))).finished
        assert set(found.home_columns()) == columns | {"user", "n_hidden"}


def test_the_leaderboard_is_the_same_to_what_it_shows(tmp_path):
    for method, value in (("toy-a", 0.3), ("toy-b", 0.2)):
        keep(tmp_path / "a", method, value, seeds=(0, 1, 2))
    again = round_trip(tmp_path / "a", tmp_path)
    (old,), (new,) = (boards(load_runs(folder).finished) for folder in (tmp_path / "a", again))
    left, right = leaderboard(old, "mrr"), leaderboard(new, "mrr")
    assert list(left["method"]) == list(right["method"])
    assert np.allclose(left[["mrr", "low", "high"]], right[["mrr", "low", "high"]], atol=1e-4)


def test_publishing_twice_gives_the_same_bytes(tmp_path):
    keep(tmp_path / "a", "toy", 0.25)
    contents = []
    for name in ("one", "two"):
        publish(tmp_path / "a", tmp_path / name, is_real=never)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


def test_a_loss_that_is_no_number_is_published_as_such(tmp_path):
    keep(tmp_path / "a", "toy", 0.25, seeds=(0,), history=[{"round": 1.0, "loss": math.nan}, {"round": 2.0}])
    (found,) = load_runs(round_trip(tmp_path / "a", tmp_path)).finished
    assert math.isnan(found.history[0]["loss"])
    assert found.history[1] == {"round": 2.0}


def test_homes_of_real_data_lose_their_names_and_stay_the_same_homes_in_every_run(tmp_path):
    values = [home / HOMES for home in range(HOMES)]  # tells homes apart
    for method in ("toy-a", "toy-b"):
        keep(tmp_path / "a", method, {"mrr": values}, seeds=(0, 1))
    again = round_trip(tmp_path / "a", tmp_path, is_real=always)
    tables = [run.homes("user", "mrr").set_index("user")["mrr"] for run in load_runs(again).finished]
    assert len(tables) == 4
    assert sorted(tables[0].index, key=int) == [str(home) for home in range(HOMES)]
    assert not np.all(np.diff(tables[0].loc[[str(home) for home in range(HOMES)]]) > 0)  # not in the order of the data
    for table in tables[1:]:
        assert table.equals(tables[0])


def test_a_summary_of_real_data_keeps_counts_of_many_homes_only(tmp_path):
    keep(tmp_path / "a", "toy", 0.25)
    kinds = [{"name": "lamp", "homes": 9}, {"name": "rare", "homes": 4}]
    record = {"data": "real", "types": kinds, "relations": kinds, "example": {"user": "someone"}}
    for place in (SUMMARIES, EXAMPLES):
        (tmp_path / "a" / place).mkdir()
        (tmp_path / "a" / place / "x.json").write_text(json.dumps(record))
    again = round_trip(tmp_path / "a", tmp_path, is_real=lambda name: name == "real")
    kept = json.loads((again / SUMMARIES / "x.json").read_text())
    assert kept == record | {"types": kinds[:1], "relations": kinds[:1], "example": None}
    assert not (again / EXAMPLES).exists()
    plain = tmp_path / "plain"
    publish(tmp_path / "a", plain, is_real=never)
    unpack(plain, tmp_path / "all")
    assert json.loads((tmp_path / "all" / EXAMPLES / "x.json").read_text()) == record


def test_numbers_are_rounded_to_significant_digits():
    values = np.array([0.123456, 12345.6, 0.0, -0.00098765, math.nan, math.inf])
    rounded = significant(values, 3)
    assert np.allclose(rounded[:4], [0.123, 12300.0, 0.0, -0.000988], rtol=1e-12)
    assert math.isnan(rounded[4])
    assert rounded[5] == math.inf


def test_a_folder_without_runs_and_a_file_without_results_are_refused(tmp_path):
    with pytest.raises(DataError, match="has no finished run or record to publish"):
        publish(tmp_path, tmp_path / "file", is_real=never)
    (tmp_path / "file").write_bytes(b"PAR1 half")
    with pytest.raises(DataError, match="file: not a file of published results"):
        unpack(tmp_path / "file", tmp_path / "out")
    with pytest.raises(DataError, match="nothing is published"):
        published_folder(tmp_path / "none")


def test_commands_show_published_results_by_their_name(tmp_path, monkeypatch, capsys):
    keep(tmp_path / "a", "toy", 0.25, seeds=(0, 1, 2))
    file = tmp_path / "results.parquet"
    assert main(["publish", "--results", str(tmp_path / "a"), "--out", str(file)]) == 0
    said = capsys.readouterr().out
    assert f"{file}: 3 runs, 0 studies and the like, " in said
    assert f" MB, from {tmp_path / 'a'}" in said
    monkeypatch.setattr(published, "published_folder", lambda: published_folder(file))
    assert main(["leaderboard", "--results", "published"]) == 0
    assert "toy" in capsys.readouterr().out
    assert published_folder(file) == published_folder(file)


def test_the_command_publishes_studies_audits_speeds_and_data_that_nobody_knows_here(tmp_path, capsys):
    keep(tmp_path / "a", "toy", 0.25, data="somebody-elses")
    trials = [{"value": 0.5, "error": ""}, {"value": None, "error": "Traceback: /home/someone"}]
    kept = {"min": 1, "median": 1, "rounds": 1}
    records = {
        "tuning/toy-1.json": {"data": [{"data": "wyze"}], "trials": trials},
        "audit/wyze-1.json": {"rows": []},
        "speed/machine/0001_smoke.json": {
            "benchmarks": [{"name": "x", "stats": {"min": 1, "median": 1, "rounds": 1, "data": [1]}}]
        },
    }
    for name, record in records.items():
        path = tmp_path / "a" / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(record))
    (tmp_path / "a" / "0123456789abcdef.json").write_text("{")
    assert main(["publish", "--results", str(tmp_path / "a"), "--out", str(tmp_path / "file")]) == 0
    said = capsys.readouterr().out
    assert "2 runs, 3 studies and the like" in said
    assert "left out: 0123456789abcdef.json: " in said
    assert restore(tmp_path / "file", tmp_path / "restored").records == 3
    unpack(tmp_path / "file", tmp_path / "again")
    assert json.loads((tmp_path / "again" / "tuning/toy-1.json").read_text())["trials"] == trials[:1]
    assert (tmp_path / "again" / "audit/wyze-1.json").exists()
    (speed,) = json.loads((tmp_path / "again" / "speed/machine/0001_smoke.json").read_text())["benchmarks"]
    assert speed == {"name": "x", "stats": kept}
    (run, _) = load_runs(tmp_path / "again").finished
    assert set(run.homes("user")["user"]) == {str(home) for home in range(HOMES)}  # taken for real homes


def test_restored_runs_are_finished_and_those_that_were_there_stay(tmp_path):
    keep(tmp_path / "a", "toy", 0.25, seeds=(0, 1, 2))
    publish(tmp_path / "a", tmp_path / "file", is_real=never)
    (mine,) = keep(tmp_path / "b", "toy", 0.5, seeds=(1,))
    assert restore(tmp_path / "file", tmp_path / "b") == (2, 1, 0, 0)
    assert {run.key.seed: run.summary["mrr"] for run in load_runs(tmp_path / "b").finished} == {
        0: 0.25,
        1: 0.5,
        2: 0.25,
    }
    assert restore(tmp_path / "file", tmp_path / "b") == (0, 3, 0, 0)
    assert load_runs(tmp_path / "b").finished[0].code == mine.code


def test_restored_homes_of_real_data_have_their_own_names_where_the_data_is_here(tmp_path):
    values = [home / HOMES for home in range(HOMES)]  # tells homes apart
    keep(tmp_path / "a", "toy", {"mrr": values}, seeds=(0,))
    users = np.array([f"home-{home}" for home in (*range(HOMES), 1000)])  # one has no hidden rule

    def here(_):
        return users

    publish(tmp_path / "a", tmp_path / "file", is_real=always, users_of=here)
    assert restore(tmp_path / "file", tmp_path / "b", users_of=here) == (1, 0, 0, 0)
    (before,), (after,) = (load_runs(tmp_path / name).finished for name in "ab")
    wanted, found = (run.homes("user", "mrr").set_index("user")["mrr"] for run in (before, after))
    assert np.allclose(found.loc[wanted.index], wanted, rtol=1e-2)
    publish(tmp_path / "b", tmp_path / "again", is_real=always, users_of=here)  # as what was made here would be
    tables = []
    for file in ("file", "again"):
        unpack(tmp_path / file, tmp_path / f"{file}-folder")
        (run,) = load_runs(tmp_path / f"{file}-folder").finished
        tables.append(run.homes("user", "mrr"))
    assert tables[0].equals(tables[1])


def test_homes_that_were_numbered_without_the_data_are_not_mixed_with_its_own(tmp_path):
    keep(tmp_path / "a", "toy", 0.25)
    publish(tmp_path / "a", tmp_path / "file", is_real=always)
    assert restore(tmp_path / "file", tmp_path / "b", users_of=lambda _: np.arange(HOMES)) == (0, 0, 2, 0)
    assert restore(tmp_path / "file", tmp_path / "b") == (2, 0, 0, 0)


def test_the_restored_results_of_a_suite_are_not_made_again(tmp_path, capsys):
    suite = tmp_path / "one.toml"
    suite.write_text(
        'methods = ["popularity"]\nseeds = 1\nprotocols = ["ranking"]\n'
        '[[data]]\nname = "wyze-synthetic"\noptions = { homes = 40 }\n'
    )
    assert main(["run", str(suite), "--results", str(tmp_path / "a"), "--quiet"]) == 0
    file = str(tmp_path / "results.parquet")
    assert main(["publish", "--results", str(tmp_path / "a"), "--out", file]) == 0
    assert main(["restore", "--file", file, "--results", str(tmp_path / "b")]) == 0
    assert "1 results restored, 0 were there" in capsys.readouterr().out
    assert main(["run", str(suite), "--results", str(tmp_path / "b"), "--quiet"]) == 0
    assert "0 results made, 1 were there" in capsys.readouterr().out
    (one,), (other,) = (load_runs(tmp_path / name).finished for name in "ab")
    assert sorted(one.homes()["user"]) == sorted(other.homes()["user"])


def test_restore_says_how_many_results_are_of_other_code(tmp_path, capsys):
    for method in ("popularity", "random"):  # with a code that is not that of these methods
        keep(tmp_path / "a", method, 0.25)
    publish(tmp_path / "a", tmp_path / "file.parquet", is_real=lambda _: False)
    assert main(["restore", "--file", str(tmp_path / "file.parquet"), "--results", str(tmp_path / "b")]) == 0
    assert "results of other code than this: `run` makes them again" in capsys.readouterr().out


def test_the_published_file_is_not_written_over_by_itself(capsys):
    assert main(["publish", "--results", "published", "--out", str(FILE)]) == 1
    assert "is the published file itself; name another one" in capsys.readouterr().err


def test_a_folder_that_was_unpacked_in_part_is_unpacked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(published.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    keep(tmp_path / "a", "toy", 0.25)
    publish(tmp_path / "a", tmp_path / "file", is_real=never)
    folder = published_folder(tmp_path / "file")
    (folder / published.COMPLETE).unlink()
    next(folder.glob("*.json")).unlink()
    assert len(load_runs(published_folder(tmp_path / "file")).finished) == 2


def test_the_published_file_of_this_repository_is_small():
    if not FILE.exists():
        pytest.skip("nothing is published yet")
    assert FILE.stat().st_size <= 5e6
    inputs = Inputs.read("published")
    assert inputs.studies
    assert inputs.unreadable == ()
