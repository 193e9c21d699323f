"""Checkpoints: what was killed goes on as if nothing had happened, and what does not fit is refused in words."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import datasets

pytest.importorskip("torch", reason="needs the extra graph")

from baselines.registry import build
from datasets.common.errors import DataError
from fedrule.federated import array_file
from fedrule.federated.array_file import ABOUT
from fedrule.federated.checkpoint import FORMAT, Checkpoint, about
from fedrule.federated.loop import ServerSchedule, train
from fedrule.federated.rounds import RoundReport
from fedrule.federated.vectors import zeros
from tests.support.killed_fits import KILLS, SMALL, VARIANTS
from tests.support.small_states import small_state

SMALLEST = {"hidden": 2, "predictor_hidden": 2, "bias": "learned"}


def same(one, other):
    """Whether two states, or two sets of arrays, are the same bit for bit."""
    one, other = (each if isinstance(each, dict) else each.arrays() for each in (one, other))
    return one.keys() == other.keys() and all(
        (one[name].dtype, one[name].shape, one[name].tobytes())
        == (other[name].dtype, other[name].shape, other[name].tobytes())
        for name in one
    )


def arrays_of(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != ABOUT}


def rewritten(path, name, content):
    """The same file with one member replaced, or left out where there is no content, and all check sums right."""
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    del members[name]
    if content is not None:
        members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for each, value in members.items():
            archive.writestr(each, value)


def npy(array):
    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "a.npy", array)
        return (Path(folder) / "a.npy").read_bytes()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of `tests.support.killed_fits`, and what it reports."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-m", "tests.support.killed_fits", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    root = Path(__file__).parents[3]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_a_fit_that_is_killed_again_and_again_equals_one_that_is_not_bit_for_bit(killed):
    folder, report = killed
    firsts = report["fits"]
    for variant in VARIANTS:
        whole, again = (arrays_of(folder / f"{variant}-{what}.npz") for what in ("whole", "killed"))
        assert same(whole, again), variant
        assert whole["state.round"] == SMALL["rounds"]
        # The server optimizer, client states and shared vectors: there was something to lose.
        assert whole["state.optimizer.steps"] == SMALL["rounds"], variant
        assert np.abs(whole["state.clients.own.rows"]).max() > 0
        assert len(whole["state.shared"]) > 1
        # The first try began with round 1, and each one went on beyond where the one before had begun.
        assert (len(firsts[variant]), firsts[variant][0]) == (KILLS + 1, 1)
        assert firsts[variant] == sorted(set(firsts[variant]))
    assert np.abs(arrays_of(folder / "kept-adam-killed.npz")["state.clients.second.rows"]).max() > 0
    assert 0 < arrays_of(folder / "watched-killed.npz")["extra.validation.lowest"] < np.inf


def test_a_write_that_is_killed_at_any_point_leaves_the_old_file_or_the_new_one_whole(killed):
    folder, report = killed
    points = report["writes"]
    # The arrays of a state one by one, the file brought to disk, the move, the folder brought to disk.
    assert points == len(small_state().arrays()) + 3
    found = []
    for point in range(points):
        path = folder / f"{point}.npz"
        state = Checkpoint(path).load(small_state())
        assert same(state, small_state(state.round))
        found.append(state.round)
    assert found == [1] * (points - 1) + [2]
    assert list(folder.glob(".*")) == []  # what they left while they wrote


@given(
    clients=st.integers(1, 5),
    kept=st.integers(0, 7),
    groups=st.integers(0, 3),
    odd=st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 1e-45]),
)
def test_a_state_comes_back_bit_for_bit_in_memory_that_can_be_written_to(clients, kept, groups, odd):
    state = small_state(clients=clients, kept=kept, groups=groups)
    state.model[0] = odd
    with TemporaryDirectory() as folder:
        kept_in = Checkpoint(Path(folder) / "a" / "run.npz")
        kept_in.save(state, last=True)
        found = kept_in.load(small_state(1, clients=clients))
    assert same(found, state)
    assert all(array.flags.writeable for array in found.arrays().values())


def test_rounds_that_are_not_due_are_not_kept_and_the_last_one_always_is(tmp_path):
    kept = Checkpoint(tmp_path / "run.npz", every=5)
    rounds = []
    for done in range(1, 13):
        kept.save(small_state(done), last=done == 12)
        rounds.append(about(kept.path)["round"] if kept.path.exists() else 0)
    assert rounds == [0, 0, 0, 0, 5, 5, 5, 5, 5, 10, 10, 12]


def test_where_nothing_was_kept_there_is_nothing_to_load(tmp_path):
    assert Checkpoint(tmp_path / "no" / "run.npz").load(small_state()) is None


def test_a_checkpoint_of_another_run_is_refused_and_every_difference_named(tmp_path):
    there = {"method": "fedrule", "parameters": {"local_steps": 3, "decay": False}, "seed": 1, "more": "x"}
    here = {"method": "fedrule", "parameters": {"local_steps": 5, "decay": False}, "seed": 2, "less": None}
    kept = Checkpoint(tmp_path / "run.npz")
    kept.extended(there, {}).save(small_state(), last=True)
    before = kept.path.read_bytes()
    with pytest.raises(DataError) as error:
        kept.extended(here, {}).load(small_state())
    assert str(error.value) == (
        f'{kept.path}: checkpoint of another run: only this run has less = null; only the file has more = "x"; '
        "parameters.local_steps is 3 in the file and 5 in this run; seed is 1 in the file and 2 in this run. "
        "Choose another file, or delete it to start again"
    )
    assert kept.path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"local_steps": 2}, "parameters.local_steps is 3 in the file and 2 in this run"),
        ({"rounds": 3}, "parameters.rounds is 2 in the file and 3 in this run"),
        ({"seed": 1}, "seed is "),
        ({"homes": 21}, "homes is "),
        ({"method": "fedgate"}, 'method is "fedrule" in the file and "fedgate" in this run'),
        ({"validation": 0.2}, 'extras is ["good"] in the file and ["good", "validation"] in this run'),
    ],
)
def test_a_fit_refuses_the_checkpoint_of_another_method_setting_population_or_seed(tmp_path, change, difference):
    def fit(method="fedrule", seed=0, homes=20, **parameters):
        population = datasets.load("wyze-synthetic", homes=homes)
        asked = build(method, **SMALLEST | {"rounds": 2} | parameters)
        asked.fit(population, rng=np.random.default_rng(seed), checkpoint=Checkpoint(tmp_path / "run.npz"))

    fit()
    with pytest.raises(DataError) as error:
        fit(**change)
    assert difference in str(error.value)
    assert str(tmp_path / "run.npz") in str(error.value)


def test_another_format_is_refused(tmp_path):
    kept = Checkpoint(tmp_path / "run.npz")
    kept.save(small_state(), last=True)
    rewritten(kept.path, ABOUT, json.dumps({"format": 99, "what": "ever"}))
    with pytest.raises(DataError, match=f"run.npz: checkpoint of format 99, this version reads {FORMAT}; delete it"):
        kept.load(small_state())


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path):
    kept = Checkpoint(tmp_path / "run.npz")
    kept.save(small_state(), last=True)
    whole = kept.path.read_bytes()
    lengths = {0, 1, 10, len(whole) - 1, *np.linspace(0, len(whole) - 1, 60).astype(int).tolist()}
    for length in sorted(lengths):
        kept.path.write_bytes(whole[:length])
        complaint = r"run.npz: truncated, damaged or not a checkpoint .*; delete it to start again"
        with pytest.raises(DataError, match=complaint):
            kept.load(small_state())


def test_a_byte_that_changed_anywhere_is_noticed_or_does_no_harm(tmp_path):
    kept = Checkpoint(tmp_path / "run.npz")
    kept.save(small_state(), last=True)
    whole, refused = kept.path.read_bytes(), 0
    rng = np.random.default_rng(0)
    for place in range(0, len(whole), 11):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        kept.path.write_bytes(damaged)
        try:
            assert same(kept.load(small_state()), small_state())  # e.g. the date of a member
        except DataError as error:
            assert str(kept.path) in str(error)  # noqa: PT017
            refused += 1
    assert refused > len(whole) / 11 / 2


def test_what_is_damaged_is_named(tmp_path):
    kept = Checkpoint(tmp_path / "run.npz")
    kept.save(small_state(), last=True)
    whole = kept.path.read_bytes()
    at = whole.index(small_state().model.tobytes())
    kept.path.write_bytes(whole[:at] + b"\0\0\0\0" + whole[at + 4 :])
    with pytest.raises(DataError, match=r"run.npz: state.model is damaged; delete it to start again"):
        kept.load(small_state())


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("state.clients.last", None, "has no array state.clients.last"),
        ("state.model", zeros(12), r"array state.model is float32 \(12,\), this run has float32 \(11,\)"),
        ("state.model", np.zeros(11), r"array state.model is float64 \(11,\), this run has float32 \(11,\)"),
        ("state.shared", zeros((2, 12)), r"array state.shared is float32 \(2, 12\), this run has float32 \(2, 11\)"),
        ("state.model", np.array([{}] * 11), "Object arrays cannot be loaded"),  # which would run code
        ("extra.history.rounds", None, "has no array extra.history.rounds"),
    ],
)
def test_an_array_that_is_missing_or_of_another_kind_is_named(tmp_path, name, content, complaint):
    kept = Checkpoint(tmp_path / "run.npz", extras={"history": History(4)})
    kept.save(small_state(), last=True)
    rewritten(kept.path, f"{name}.npy", None if content is None else npy(content))
    with pytest.raises(DataError, match=rf"run.npz: .*{complaint}.*; delete it to start again"):
        kept.load(small_state())


@pytest.mark.parametrize("content", [None, "[1]", "{}"])
def test_another_zip_is_no_checkpoint(tmp_path, content):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme" if content is None else ABOUT, content or "")
    with pytest.raises(DataError, match=r"other.zip: not a checkpoint, .*; choose another file"):
        Checkpoint(path).load(small_state())


def test_a_folder_and_a_number_of_rounds_that_is_none_are_refused(tmp_path):
    with pytest.raises(DataError, match="is a folder; give a file"):
        Checkpoint(tmp_path).load(small_state())
    for every in (0, -1, 2.5, True):
        with pytest.raises(DataError, match="a checkpoint needs a number of rounds of at least 1"):
            Checkpoint(tmp_path / "run.npz", every)


def test_what_a_killed_run_left_while_it_wrote_does_no_harm_and_goes(tmp_path):
    kept = Checkpoint(tmp_path / "run[1].npz")  # brackets mean something in patterns of names
    kept.save(small_state(), last=True)
    (tmp_path / ".run[1].npz.1.tmp").write_bytes(b"half a file")
    (tmp_path / ".run1.npz.1.tmp").write_bytes(b"of another run")
    assert same(kept.load(small_state()), small_state())
    assert {path.name for path in tmp_path.iterdir()} == {"run[1].npz", ".run1.npz.1.tmp"}


@pytest.mark.parametrize("where", ["array", "disk", "folder"])
def test_a_full_disk_leaves_the_old_checkpoint_and_says_so(tmp_path, monkeypatch, caplog, where):
    kept = Checkpoint(tmp_path / "run.npz")
    calls = []

    def full(*_, **__):
        calls.append(where)
        raise OSError(errno.ENOSPC, "No space left on device")

    kept.save(small_state(10), last=True)
    if where == "array":
        write = np.lib.format.write_array
        monkeypatch.setattr(
            array_file.np.lib.format,
            "write_array",
            lambda file, array, **more: full() if array.ndim > 1 else write(file, array, **more),
        )
    elif where == "disk":
        monkeypatch.setattr(array_file.os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "mkdir", full)
    kept.save(small_state(20), last=True)
    monkeypatch.undo()
    assert calls
    said = f"{kept.path}: no checkpoint after round 20 (No space left on device); the previous one is kept"
    assert caplog.messages == [said]
    assert same(kept.load(small_state()), small_state(10))
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_first_checkpoint_that_cannot_be_written_is_said_as_well(tmp_path, caplog):
    (tmp_path / "file").touch()
    Checkpoint(tmp_path / "file" / "run.npz").save(small_state(10), last=True)
    assert "no checkpoint after round 10" in caplog.text
    assert "there is none" in caplog.text


def test_nothing_of_size_is_held_twice(tmp_path):
    # 3,000,000 clients with 5 numbers of 4 bytes are 60 MB, their last rounds and starts 24 MB each. NumPy writes an
    # array in pieces of 16 MB.
    state = small_state(clients=3_000_000, kept=6)
    size = sum(array.nbytes for array in state.arrays().values())
    kept = Checkpoint(tmp_path / "run.npz")
    tracemalloc.start()
    try:
        kept.save(state, last=True)
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        found = kept.load(state)
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.round == state.round
    assert size > 100e6
    assert writing < 0.4 * size
    assert reading < 1.1 * size


@dataclass
class History:
    """Counts rounds."""

    rounds: int = 0

    def arrays(self):
        return {"rounds": np.asarray(self.rounds)}

    def restore(self, arrays):
        self.rounds = int(arrays["rounds"])


def test_extras_come_back_with_the_state(tmp_path):
    one, other = History(4), History()
    Checkpoint(tmp_path / "run.npz", extras={"history": one}).save(small_state(), last=True)
    Checkpoint(tmp_path / "run.npz").extended({}, {"history": other}).load(small_state())
    assert other.rounds == 4


@dataclass
class Scripted:
    """An engine whose rounds have these losses; the model counts them."""

    losses: tuple[float, ...]

    def step(self, trainer, state, **_):
        del trainer
        loss = self.losses[state.round]
        return replace(state, round=state.round + 1, model=state.model + 1), RoundReport(loss, clients=1)


class Killed(Exception):
    """In place of SIGKILL, where it does not matter how."""


@pytest.mark.parametrize("stop", [2, 3, 4])
def test_a_run_that_goes_on_and_then_runs_away_keeps_the_model_that_it_would_have_kept(tmp_path, caplog, stop):
    # The losses are those of the models before rounds 1 to 4. The last one is beyond 1e4 times the first, so the model
    # after round 3 has diverged, and the one after round 2, whose loss is 1, is kept: 0 + 2.
    run, kept = ServerSchedule("fedrule", 9, seed=0), Checkpoint(tmp_path / "run.npz", every=1)
    engine, begun = Scripted((1.0, 1.0, 1.0, 2e4)), replace(small_state(), round=0, model=zeros(11))

    def killing(done, model, report):
        del model, report
        if done == stop:
            raise Killed

    assert train(engine, None, run, begun, lambda *_: False).tolist() == [2.0] * 11
    with pytest.raises(Killed):
        train(engine, None, run, begun, killing, kept)
    assert about(kept.path)["round"] == stop - 1
    assert train(engine, None, run, begun, lambda *_: False, kept).tolist() == [2.0] * 11
    # Said by both runs that end, and by the one that is killed when round 4 has diverged already.
    assert caplog.text.count("the model after round 2 is kept") == (3 if stop == 4 else 2)


def test_a_fit_that_stopped_early_stops_at_the_same_round_with_the_same_model_when_it_goes_on(tmp_path):
    homes = datasets.load("wyze-synthetic", homes=15)
    method = build("fedrule", **SMALLEST, rounds=30, validation=0.2, patience=2, server_rate=0.5)

    def fit(file, dies=0):
        rounds = []

        def on_round(done, of, fitted, values):
            del of, fitted
            rounds.append((done, values["validation_loss"]))
            if done == dies:
                raise Killed

        try:
            checkpoint = Checkpoint(tmp_path / file, every=1)
            return rounds, method.fit(homes, rng=np.random.default_rng(0), on_round=on_round, checkpoint=checkpoint)
        except Killed:
            return rounds, None

    whole, model = fit("whole.npz")
    assert 3 <= len(whole) < 30
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    before, _ = fit("killed.npz", dies=len(whole) - 1)  # after the best round
    after, again = fit("killed.npz")
    assert before[:-1] + after == whole
    assert after[0][0] == len(whole) - 1
    for name, value in model.parameters.items():
        assert value.numpy().tobytes() == again.parameters[name].numpy().tobytes()
