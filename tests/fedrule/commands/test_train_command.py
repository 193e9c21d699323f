"""`python -m fedrule train`: a model file at the end, one message for what is wrong."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time

import pytest

import datasets
from baselines.contract import ToyHome, planted_homes, toy_homes
from datasets.readers.tables import write_tables

pytest.importorskip("torch", reason="the graph formulation needs the extra graph")
pytest.importorskip("torch_geometric", reason="the graph formulation needs the extra graph")

from fedrule.__main__ import main
from fedrule.models.file import SavedModel

SMALL = ["--set", "rounds=3", "--set", "hidden=4"]
DATA = "wyze-synthetic:homes=120,seed=2"


def train(*arguments: str) -> int:
    return main(["train", *arguments])


def test_it_trains_saves_and_says_what_to_do_next(tmp_path, capsys):
    out = tmp_path / "model.safetensors"
    assert train("--data", DATA, "--out", str(out), "--seed", "3", "--set", "encoder=gcn", *SMALL) == 0
    said = capsys.readouterr().out
    card = SavedModel.load(out).card
    assert (card.method, card.options["encoder"], card.trainings[0].seed) == ("graphrule", "gcn", 3)
    assert "graphrule: trained on 120 homes of wyze-synthetic" in said
    assert f"hit rate at 10                 {card.metrics['ranking']['hr@10']:8.4f}" in said
    assert f"AUC                            {card.metrics['paper']['auc']:8.4f}" in said
    assert f"python -m fedrule recommend {out} HOME.json" in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_training_continues_from_a_model_with_the_method_of_the_model(tmp_path, capsys):
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    assert train("--data", DATA, "--method", "fedgnn", "--out", str(first), *SMALL) == 0
    new = "wyze-synthetic:homes=60,seed=9"
    assert train("--data", new, "--continue-from", str(first), "--out", str(second)) == 0
    assert "trained on 60 homes of wyze-synthetic and, before, 120 others" in capsys.readouterr().out
    card = SavedModel.load(second).card
    assert (card.method, [training.homes for training in card.trainings]) == ("fedgnn", [120, 60])


def test_homes_come_from_a_saved_file_or_from_a_folder_of_tables(tmp_path):
    homes = datasets.load("wyze-synthetic", homes=60, seed=5)
    homes.save(tmp_path / "homes.parquet")
    write_tables(homes, tmp_path / "tables")
    out = tmp_path / "model.safetensors"
    for path in (tmp_path / "homes.parquet", tmp_path / "tables"):
        assert train("--data", str(path), "--out", str(out), *SMALL) == 0
        assert SavedModel.load(out).card.trainings[0].rules == homes.n_rules


def test_homes_come_from_databases(tmp_path):
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'homes.db'}")
    homes = planted_homes()
    devices = [(home.user, device.id, device.type) for home in homes for device in home.devices]
    rules = [(home.user, rule.trigger.id, *rule.relation, rule.action.id) for home in homes for rule in home.rules]
    with engine.begin() as database:
        database.exec_driver_sql("create table devices (user int, device int, type text)")
        columns = "user int, trigger_device int, trigger_state text, action text, action_device int"
        database.exec_driver_sql(f"create table rules ({columns})")
        database.exec_driver_sql("insert into devices values (?, ?, ?)", devices)
        database.exec_driver_sql("insert into rules values (?, ?, ?, ?, ?)", rules)
    engine.dispose()
    place = f'url = "sqlite:///{tmp_path / "homes.db"}"'
    (tmp_path / "homes.toml").write_text(f'[devices]\n{place}\ntable = "devices"\n[rules]\n{place}\ntable = "rules"\n')
    out = tmp_path / "model.safetensors"
    assert train("--data", str(tmp_path / "homes.toml"), "--out", str(out), *SMALL) == 0
    assert SavedModel.load(out).card.trainings[0].homes == homes.n_homes


def test_a_killed_training_resumes_when_the_command_is_given_again(tmp_path):
    homes = tmp_path / "homes.parquet"
    datasets.load("wyze-synthetic", homes=120).save(homes)
    command = ["train", "--data", str(homes), "--method", "fedgnn", "--patience", "0", "--quiet"]
    command += ["--set", "rounds=400", "--set", "hidden=4", "--set", "predictor_hidden=8"]
    whole, out, folder = tmp_path / "whole.safetensors", tmp_path / "model.safetensors", tmp_path / "checkpoints"
    assert main([*command, "--out", str(whole)]) == 0
    command += ["--out", str(out), "--checkpoints", str(folder), "--every", "5"]
    with subprocess.Popen([sys.executable, "-m", "fedrule", *command]) as process:
        while not (kept := list(folder.glob("model.safetensors.npz"))) and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    assert (process.returncode, len(kept), out.exists()) == (-signal.SIGKILL, 1, False)
    assert main(command) == 0
    first, second = SavedModel.load(whole), SavedModel.load(out)
    assert {name: array.tobytes() for name, array in first.arrays.items()} == {
        name: array.tobytes() for name, array in second.arrays.items()
    }
    assert list(folder.iterdir()) == []  # not needed any more


def test_a_central_method_says_that_it_keeps_no_checkpoints(tmp_path, capsys):
    out = tmp_path / "model.safetensors"
    assert train("--data", DATA, "--out", str(out), "--checkpoints", str(tmp_path / "run.npz"), *SMALL) == 1
    assert "graphrule cannot resume from checkpoints; only federated methods can" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "wyze-sinthetic"], "did you mean 'wyze-synthetic'?"),
        (["--data", "wyze-synthetic:homez=3"], "did you mean 'homes'?"),
        (["--data", "nowhere.parquet"], "nowhere.parquet: no such file or folder"),
        (["--data", "nowhere/homes"], "nowhere/homes: no such file or folder"),
        (["--data", DATA, "--method", "grafrule"], "did you mean 'graphrule'?"),
        (["--data", DATA, "--method", "graphfeatures"], "is not a graph method"),
        (["--data", DATA, "--set", "round=3"], "did you mean 'rounds'?"),
        (["--data", DATA, "--set", "rounds"], "write KEY=VALUE"),
        (["--data", DATA, "--set", "rounds=few"], "rounds='few'"),
        (["--data", DATA, "--set", "encoder=gin"], "gcn"),
        (["--data", DATA, "--test", "2"], "test must be in (0, 1), e.g. 0.2, got 2.0"),
        (["--data", DATA, "--continue-from", "nowhere.safetensors"], "nowhere.safetensors: no such model"),
        (["--data", DATA, "--threads", "0"], "threads 0"),
        (["--data", DATA, "--import", "no_such_module"], "--import no_such_module: No module named"),
    ],
)
def test_wrong_input_is_one_message_and_the_old_model_stays(arguments, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "model.safetensors"
    out.write_bytes(b"the old model")
    assert train(*arguments, "--out", str(out)) == 1
    message = capsys.readouterr().err
    assert says in message
    assert "Traceback" not in message
    assert out.read_bytes() == b"the old model"


OWN_METHOD = """
from dataclasses import dataclass
from typing import ClassVar

from baselines.registry import register
from fedrule.methods.graphrule import GraphRule


@register("own-rule")
@dataclass(frozen=True)
class OwnRule(GraphRule):
    NAME: ClassVar[str] = "own-rule"
    rounds: int = 2
"""


@pytest.mark.usefixtures("own_registry")
def test_a_method_of_ones_own_is_trained_by_importing_its_module(tmp_path, monkeypatch):
    (tmp_path / "own_rules.py").write_text(OWN_METHOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m` does with the current folder
    own = ["--import", "own_rules", "--method", "own-rule", "--set", "hidden=4"]
    assert train("--data", DATA, *own, "--out", "model.safetensors") == 0
    card = SavedModel.load(tmp_path / "model.safetensors").card
    assert (card.method, card.options["rounds"], card.options["hidden"]) == ("own-rule", 2, 4)


class Terminal(io.StringIO):
    """A standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_a_person_sees_rounds_and_losses_go_by(tmp_path, monkeypatch):
    watched = Terminal()
    monkeypatch.setattr(sys, "stderr", watched)
    assert train("--data", DATA, "--out", str(tmp_path / "model.safetensors"), *SMALL) == 0
    assert "3/3" in watched.getvalue()
    assert "validation 0." in watched.getvalue()
    quiet = Terminal()
    monkeypatch.setattr(sys, "stderr", quiet)
    assert train("--data", DATA, "--out", str(tmp_path / "model.safetensors"), "--quiet", *SMALL) == 0
    assert quiet.getvalue() == ""


def test_a_folder_is_no_place_for_a_model(tmp_path, capsys):
    assert train("--data", DATA, "--out", str(tmp_path)) == 1
    assert f"{tmp_path}: is a folder; name a file" in capsys.readouterr().err


def test_ctrl_c_is_one_line_and_leaves_the_old_model(tmp_path):
    homes, out = tmp_path / "homes.parquet", tmp_path / "model.safetensors"
    # Homes of one rule keep it: a warning about that is the last thing that is said before training begins.
    rule = ("ContactSensor", 0, "Light")
    toy_homes([ToyHome(user, ("ContactSensor", "Light"), (rule,)) for user in range(5)]).save(homes)
    out.write_bytes(b"the old model")
    command = [sys.executable, "-m", "fedrule", "train", "--data", str(homes), "--set", "rounds=1000000000"]
    with subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.PIPE, text=True) as process:
        try:
            while "for validation" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            message = process.stderr.read()
            process.wait(timeout=600)
        finally:
            process.kill()
    assert (process.returncode, message) == (130, "Stopped. No output was written.\n")
    assert out.read_bytes() == b"the old model"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["homes.parquet", "model.safetensors"]
