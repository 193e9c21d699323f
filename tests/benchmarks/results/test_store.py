"""Results on disk: found again by their key, never half there, never lost."""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmarks.results
from benchmarks.results.records import as_json
from benchmarks.results.store import (
    NOT_CONVERTED,
    Key,
    Overrides,
    Result,
    Store,
    load_failures,
    load_results,
    load_runs,
    results_folder,
)
from datasets.common.errors import DataError
from datasets.common.training_warnings import TrainingWarning

KEY = Key(
    method="mf",
    parameters={"factors": 64, "alpha": 1.0, "layers": [16, 16]},
    data="wyze-synthetic",
    data_options={"homes": 500, "preset": None},
    fingerprint="0123456789abcdef",
    track="types",
    split={"split": "holdout", "seed": 0, "fraction": 0.2, "validation": False},
    protocol="ranking",
    seed=0,
)
HOMES = pd.DataFrame({"user": ["a", "b"], "n_hidden": [1, 2], "mrr": [0.5, np.nan]})
RULES = pd.DataFrame({"user": ["a", "b", "b"], "rank": [2.0, 1.0, np.inf]})
RESULT = Result(
    KEY,
    warnings=(TrainingWarning("diverged", 2, 1, "training diverged in round 2 of 9; the model is its last good one"),),
    overrides=Overrides({"factors": 64}, {"homes": 500}, {}),
    suite="smoke",
    summary={"mrr": 0.25, "auc": math.nan, "mr": math.inf},
    history=[{"round": 1.0, "loss": 0.5}, {"round": 2.0, "loss": math.nan}],
    seconds={"fit": 1.5},
    memory={"peak": 100.0},
    counts={"homes": 500},
    versions={"python": "3.11"},
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "kept")


def test_a_saved_result_is_found_again_with_everything_in_it(store):
    store.save(RESULT, HOMES, RULES)
    found = store.find(KEY)
    assert (found.key, found.overrides, found.suite) == (KEY, RESULT.overrides, "smoke")
    assert found.warnings == RESULT.warnings
    assert found.summary["mrr"] == 0.25
    assert math.isnan(found.summary["auc"])
    assert found.summary["mr"] == math.inf
    assert found.history[0] == {"round": 1.0, "loss": 0.5}
    assert math.isnan(found.history[1]["loss"])
    assert (found.seconds, found.memory, found.counts) == (RESULT.seconds, RESULT.memory, RESULT.counts)
    pd.testing.assert_frame_equal(found.homes(), HOMES)
    pd.testing.assert_frame_equal(found.rules(), RULES)
    assert [result.key for result in load_results(store.folder)] == [KEY]


def test_the_json_is_standard_and_has_its_key_in_words(store):
    store.save(RESULT, HOMES, RULES)

    def refuse(constant):
        raise AssertionError(constant)

    content = json.loads((store.folder / f"{KEY.hash}.json").read_text(), parse_constant=refuse)
    assert content["key"]["parameters"] == {"factors": 64, "alpha": 1.0, "layers": [16, 16]}
    assert content["summary"] == {"mrr": 0.25, "auc": "nan", "mr": "inf"}


@pytest.mark.parametrize(
    "change",
    [
        {"method": "ease"},
        {"parameters": {**KEY.parameters, "factors": 32}},
        {"parameters": {**KEY.parameters, "new": None}},
        {"data": "wyze"},
        {"data_options": {"homes": 501, "preset": None}},
        {"fingerprint": "f" * 16},
        {"track": "instances"},
        {"split": {**KEY.split, "fraction": 0.3}},
        {"protocol": "paper"},
        {"seed": 1},
    ],
)
def test_any_part_of_the_key_gives_another_file(store, change):
    store.save(RESULT, HOMES, RULES)
    assert store.find(replace(KEY, **change)) is None


def test_the_hash_does_not_depend_on_the_order_of_settings_or_on_the_process():
    turned = replace(KEY, parameters=dict(reversed(KEY.parameters.items())))
    assert turned.hash == KEY.hash
    program = (
        f"from benchmarks.results.store import Key; print(Key(**{ {f: getattr(KEY, f) for f in KEY.__slots__}!r}).hash)"
    )
    elsewhere = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == KEY.hash


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_any_setting_survives_json_unchanged(values):
    plain = as_json(values, "x")
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert as_json(plain, "x") == plain


def test_a_setting_that_json_cannot_hold_is_named():
    with pytest.raises(DataError, match=r"mf\.users: ndarray cannot be stored in a result"):
        as_json({"users": np.zeros(2)}, "mf")


@pytest.mark.parametrize(
    "content", [b"", b'{"format": 4, "key": {"meth', b"[]", b'{"format": 99}', b"\xff\xfe", b"null"]
)
def test_a_half_written_or_foreign_file_is_named_and_left_alone(store, caplog, content):
    store.save(RESULT, HOMES, RULES)
    other = store.folder / "0000000000000000.json"
    other.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert [result.key for result in load_results(store.folder)] == [KEY]
    assert "0000000000000000.json is not used" in caplog.text
    assert other.read_bytes() == content


def test_a_file_under_the_wrong_name_is_not_taken_for_another_run(store, caplog):
    store.save(RESULT, HOMES, RULES)
    (store.folder / f"{KEY.hash}.json").rename(store.folder / "0000000000000000.json")
    assert load_results(store.folder) == []
    assert f"its key belongs to {KEY.hash}.json" in caplog.text


def test_a_result_whose_table_was_cut_off_is_not_finished(store, caplog):
    store.save(RESULT, HOMES, RULES)
    table = store.folder / f"{KEY.hash}.homes.parquet"
    table.write_bytes(table.read_bytes()[:-1])
    assert store.find(KEY) is None
    assert f"{table.name} is missing, truncated or damaged" in caplog.text


def test_a_damaged_table_of_the_right_size_is_not_finished_and_is_mended_by_the_next_run(store, caplog):
    store.save(RESULT, HOMES, RULES)
    table = store.folder / f"{KEY.hash}.rules.parquet"
    table.write_bytes(bytes(table.stat().st_size))
    assert store.find(KEY) is None
    assert load_results(store.folder) == []
    assert f"{table.name} is missing, truncated or damaged" in caplog.text
    store.save(RESULT, HOMES, RULES)
    pd.testing.assert_frame_equal(store.find(KEY).rules(), RULES)
    assert (store.folder / f"{KEY.hash}.json.unreadable-1").exists()


def test_a_table_damaged_after_it_was_found_is_named(store):
    found = store.save(RESULT, HOMES, RULES)
    table = store.folder / f"{KEY.hash}.homes.parquet"
    table.write_bytes(bytes(table.stat().st_size))
    with pytest.raises(DataError, match=rf"{table.name}: not a readable Parquet file .* run it again"):
        found.homes()


def test_a_file_that_does_not_say_what_went_wrong_is_not_used(store, caplog):
    store.save(RESULT, HOMES, RULES)
    path = store.folder / f"{KEY.hash}.json"
    content = json.loads(path.read_text())
    del content["warnings"]
    path.write_text(json.dumps(content))
    assert store.find(KEY) is None
    assert "warnings" in caplog.text


def test_a_result_of_before_code_was_kept_can_be_read_but_counts_as_other_code(store, caplog):
    store.save(RESULT, HOMES, RULES)
    path = store.folder / f"{KEY.hash}.json"
    content = json.loads(path.read_text())
    del content["code"], content["digests"]
    path.write_text(json.dumps(content))
    assert len(load_results(store.folder)) == 1
    assert store.finished(KEY, "new") is None
    assert f"{KEY}: made by other code, run again" in caplog.text


def test_a_run_of_other_code_takes_the_place_of_the_old_one(store):
    store.save(replace(RESULT, code="old"), HOMES, RULES)
    assert store.find(KEY, "old") is not None
    assert store.find(KEY, "new") is None
    store.fail(replace(RESULT, code="new", error="RuntimeError: no"))
    assert store.outcome(KEY, "new").status == "failed"
    assert [failure.code for failure in load_failures(store.folder)] == ["new"]
    store.save(replace(RESULT, code="new"), HOMES, RULES)
    assert [result.code for result in load_results(store.folder)] == ["new"]
    assert store.outcome(KEY, "edited since").code == "new"


def test_files_may_be_read_by_whom_the_umask_allows(store):
    before = os.umask(0o027)
    try:
        store.save(RESULT, HOMES, RULES)
    finally:
        os.umask(before)
    # 666 without 027 is 640
    assert {path.stat().st_mode & 0o777 for path in store.folder.iterdir()} == {0o640}


def test_an_unreadable_file_is_set_aside_and_not_overwritten(store):
    store.folder.mkdir()
    path = store.folder / f"{KEY.hash}.json"
    path.write_text("half a fi")
    store.save(RESULT, HOMES, RULES)
    assert store.find(KEY) is not None
    assert path.with_name(f"{path.name}.unreadable-1").read_text() == "half a fi"


def test_a_failure_is_kept_until_the_run_succeeds(store):
    store.fail(replace(RESULT, error="RuntimeError: no"))
    assert store.find(KEY) is None
    assert load_results(store.folder) == []
    assert [result.error for result in load_failures(store.folder)] == ["RuntimeError: no"]
    assert store.outcome(KEY).status == "failed"
    store.save(RESULT, HOMES, RULES)
    assert load_failures(store.folder) == []
    assert store.outcome(KEY).status == "done"


def test_a_failure_never_hides_a_finished_run(store):
    store.save(RESULT, HOMES, RULES)
    store.fail(replace(RESULT, error="the second process failed"))
    assert store.find(KEY).status == "done"
    assert load_failures(store.folder) == []


def test_an_error_while_writing_leaves_what_was_there(store):
    store.save(RESULT, HOMES, RULES)
    before = {path.name: path.read_bytes() for path in store.folder.iterdir()}
    with pytest.raises(Exception, match="complex"):
        store.save(RESULT, pd.DataFrame({"user": [1 + 2j]}), RULES)
    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == before


def test_writers_and_readers_at_once_see_whole_results_only(store, caplog):
    def write():
        for _ in range(20):
            store.save(RESULT, HOMES, RULES)

    writers = [threading.Thread(target=write) for _ in range(3)]
    store.save(RESULT, HOMES, RULES)
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert store.find(KEY) is not None
        assert len(store.find(KEY).homes()) == 2
    assert caplog.text == ""
    assert sorted(path.suffixes[-1] for path in store.folder.iterdir()) == [".json", ".parquet", ".parquet"]


def test_a_run_is_claimed_once_and_free_afterwards(store):
    by_another = replace(KEY, protocol="paper")  # the same fit
    with store.claim(KEY) as first, store.claim(by_another) as second, store.claim(replace(KEY, seed=1)) as other:
        assert (first, second, other) == (True, False, True)
    with store.claim(KEY) as again:
        assert again
    assert list(store.folder.iterdir()) == []


def test_a_claim_ends_with_the_process_that_held_it(store):
    program = (
        "import time; from pathlib import Path\n"
        "from benchmarks.results.store import Store; from tests.benchmarks.results.test_store import KEY\n"
        f"with Store(Path({str(store.folder)!r})).claim(KEY) as ours:\n    print(ours, flush=True); time.sleep(3600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        with store.claim(KEY) as ours:
            assert not ours
        holder.kill()
        holder.wait()
    with store.claim(KEY) as ours:
        assert ours


@pytest.mark.parametrize(("format", "age", "why"), [(3, "an older", f"; {NOT_CONVERTED}"), (5, "a newer", "")])
def test_files_of_another_version_are_refused_in_a_sentence(store, format, age, why):
    store.save(RESULT, HOMES, RULES)
    path = store.folder / f"{KEY.hash}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": format}))
    reason = f"made by {age} version (format {format}, this version reads 4{why}): run it again"
    assert load_runs(store.folder).unreadable == ((path.name, reason),)


def test_a_folder_that_is_not_there_has_no_results(tmp_path):
    assert load_results(tmp_path / "nothing") == []


def test_results_are_kept_where_the_variable_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDRULE_RESULTS", str(tmp_path))
    assert results_folder() == tmp_path
    assert str(results_folder("here")) == "here"
    monkeypatch.delenv("FEDRULE_RESULTS")
    assert str(results_folder()) == "results"


def test_a_file_where_a_folder_should_be_is_named(tmp_path):
    (tmp_path / "afile").touch()
    with pytest.raises(DataError, match="afile is a file, not a folder"):
        results_folder(tmp_path / "afile")


def test_reading_results_loads_no_method_and_no_torch():
    modules = sorted(path.stem for path in Path(benchmarks.results.__file__).parent.glob("[a-z]*.py"))
    program = (
        "import sys, importlib\n"
        f"for module in {modules}:\n"
        "    importlib.import_module(f'benchmarks.results.{module}')\n"
        "    print(module, *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(modules) > 1
    for line in done.stdout.splitlines():  # the first that fails names the module which loads too much
        module, *loaded = line.split()
        packages = {name.split(".")[0] for name in loaded}
        assert not packages & {"torch", "numba", "implicit", "sklearn", "baselines", "fedrule"}, module
        others = ("benchmarks.runs", "benchmarks.evaluation")
        assert not {name for name in loaded if name.startswith(others)}, module
