"""`python -m fedrule recommend` and `show`: one home, all homes to a file, homes of a database, and bad input."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pandas as pd
import pytest

import datasets
from fedrule.__main__ import main
from fedrule.inference import HomeRequest, Recommender
from tests.support.homes_database import write_database
from tests.support.random_models import random_model
from tests.support.small_model import home, saved_model


@pytest.fixture
def model(tmp_path):
    return saved_model(tmp_path / "model.safetensors")


@pytest.fixture
def asked(tmp_path):
    path = tmp_path / "home.json"
    path.write_text(json.dumps(home(6)))
    return path


@pytest.fixture
def many(tmp_path):
    """A model of all types of some homes but the last, and these homes in a file."""
    homes = datasets.load("wyze-synthetic", homes=40)
    homes.save(tmp_path / "homes.parquet")
    random_model(homes.types[:-1], homes.relations, valid=1.0).save(tmp_path / "many.safetensors")
    return homes, tmp_path / "many.safetensors", tmp_path / "homes.parquet"


def test_one_home_is_told_in_sentences(model, asked, capsys):
    assert main(["recommend", str(model), str(asked), "-k", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = Recommender.load(model).recommend(HomeRequest.read(asked), 2).rules
    assert [line.strip() for line in lines[::2]] == [f"{rule.rank}. {rule.text}" for rule in expected]
    assert [line.strip() for line in lines[1::2]] == [
        f"probability {rule.probability:.2f}; {rule.why.text}" for rule in expected
    ]


def test_json_is_what_the_service_has_in_its_answer(model, asked, capsys):
    assert main(["recommend", str(model), str(asked), "-k", "3", "--json"]) == 0
    answer = Recommender.load(model).recommend(HomeRequest.read(asked), 3)
    assert json.loads(capsys.readouterr().out) == answer.as_json()


LIGHT = """
import sys
from fedrule.__main__ import main
code = main(sys.argv[1:])
sys.stderr.write(" ".join(sorted({"pandas", "pyarrow", "scipy", "torch"} & sys.modules.keys())))
sys.exit(code)
"""


def test_the_command_for_one_home_loads_neither_pandas_nor_pyarrow_nor_scipy_nor_torch(model, asked):
    command = [sys.executable, "-c", LIGHT, "recommend", str(model), str(asked), "-k", "2", "--max-similar", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("  1. When *")


ALONE = """
import sys
from fedrule.__main__ import main
code = main(sys.argv[1:])
sys.stderr.write(" ".join(sorted({"benchmarks", "distributed", "submitit"} & sys.modules.keys())))
sys.exit(code)
"""


def test_without_a_cluster_nothing_of_clusters_is_loaded(many, tmp_path):
    _, model, file = many
    options = ["--all", str(file), "--out", str(tmp_path / "lists.csv"), "--ignore-unknown"]
    command = [sys.executable, "-c", ALONE, "recommend", str(model), *options]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


def test_a_home_comes_in_by_the_standard_input(model, asked, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(asked.read_bytes())))
    assert main(["recommend", str(model), "-", "-k", "1"]) == 0
    assert capsys.readouterr().out.startswith("  1. When *")


def test_what_is_unknown_is_refused_or_left_out_and_named(model, asked, capsys):
    content = home(6)
    content["devices"].append({"id": "k", "type": "Kettle"})
    asked.write_text(json.dumps(content))
    assert main(["recommend", str(model), str(asked)]) == 1
    assert f"{asked} devices[6].type: the model does not know the type 'Kettle'" in capsys.readouterr().err
    assert main(["recommend", str(model), str(asked), "--ignore-unknown"]) == 0
    assert "ignored: device k: unknown type 'Kettle'\n" in capsys.readouterr().out


def test_a_home_without_a_candidate_is_told_so(model, asked, capsys):
    asked.write_text(json.dumps({"devices": [{"id": 1, "type": "Light"}]}))
    assert main(["recommend", str(model), str(asked)]) == 0
    assert capsys.readouterr().out == "No recommendations for this home.\n"


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_all_homes_go_to_a_file(many, ending, tmp_path, capsys):
    homes, model, file = many
    out = tmp_path / f"lists{ending}"
    asked = ["recommend", str(model), "--all", str(file), "--out", str(out), "-k", "3"]
    assert main(asked) == 1
    told = capsys.readouterr().err
    assert f"the model does not know the type {homes.types[-1]}; ignore what is unknown" in told
    assert not out.exists()
    assert main([*asked, "--ignore-unknown", "--jobs", "2"]) == 0
    told = capsys.readouterr().out
    read = {".csv": pd.read_csv, ".jsonl": lambda path: pd.read_json(path, lines=True), ".parquet": pd.read_parquet}
    lists = read[ending](out)
    ranked = Recommender.load(model).recommend_many(homes, 3, unknown="ignore")
    assert told.startswith(f"{len(ranked)} recommendations for 40 homes written to {out}\n")
    assert "ignored, unknown to the model: " in told
    assert lists["text"].tolist() == ranked.frame()["text"].tolist()


def test_homes_of_a_database_are_asked_part_by_part(many, tmp_path, capsys, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="databases need the extra pipeline")
    homes, model, _ = many
    monkeypatch.setattr("fedrule.commands.recommend.USERS_AT_ONCE", 7)  # 6 parts
    out = tmp_path / "lists.parquet"
    source = ["--all", str(write_database(homes, tmp_path)), "--out", str(out), "--ignore-unknown", "-k", "3"]
    assert main(["recommend", str(model), *source]) == 0
    assert "for 40 homes" in capsys.readouterr().out
    expected = Recommender.load(model).recommend_many(homes, 3, unknown="ignore").frame()
    found = pd.read_parquet(out)
    assert found[["user", "rank", "text"]].astype(str).to_numpy().tolist() == (
        expected[["user", "rank", "text"]].astype(str).to_numpy().tolist()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL"], "give either HOME.json, or --all DATA with --out FILE"),
        (["MODEL", "HOME", "--all", "ifttt-synthetic", "--out", "x.csv"], "give either HOME.json, or --all"),
        (["MODEL", "--all", "ifttt-synthetic"], "--all DATA and --out FILE belong together"),
        (["MODEL", "HOME", "--out", "x.csv"], "--all DATA and --out FILE belong together"),
        (["MODEL", "--all", "ifttt-synthetic", "--out", "x.xls"], "x.xls: name a file that ends with .parquet"),
        (["MODEL", "--all", "ifttt-synthetik", "--out", "x.csv"], "did you mean 'ifttt-synthetic'?"),
        (["MODEL", "--all", "ifttt-synthetic", "--out", "x.csv", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["MODEL", "HOME", "--cluster", "local"], "--cluster is for many homes: give --all DATA with --out FILE"),
        (["MODEL", "HOME", "--cluster-option", "mem_gb=4"], "--cluster is for many homes: give --all DATA"),
        (
            ["MODEL", "--all", "ifttt-synthetic", "--out", "x.csv", "--cluster-option", "mem_gb=4"],
            "is for --cluster slurm",
        ),
        (["MODEL", "HOME", "-k", "0"], "k must be an integer of at least 1, got 0"),
        (["MODEL", "nothing.json"], "nothing.json: cannot be read (No such file or directory)"),
        (["nothing.safetensors", "HOME"], "nothing.safetensors: no such model; train one with"),
        (["HOME", "HOME"], "not a fedrule model"),
    ],
)
def test_bad_input_is_one_message(model, asked, arguments, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    named = {"MODEL": str(model), "HOME": str(asked)}
    assert main(["recommend", *(named.get(word, word) for word in arguments)]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert told.count("\n") == 1


def test_show_tells_what_a_model_is_in_a_few_lines(model, capsys):
    assert main(["show", str(model)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("graphrule, ")
    assert lines[1] == "7 types, 6 relations, 9 valid rules"
    assert lines[2].startswith("trained on 100 homes of toy (0000000000000000), 0 rounds, seed 0")
    assert lines[3] == "ranking: mrr 0.25"


def test_show_prints_the_whole_card_as_json(model, capsys):
    assert main(["show", str(model), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card["method"] == "graphrule"
    assert card["digest"] == Recommender.load(model).digest
    assert card["arrays"]["counts.homes"] == "int64 [1]"


def test_who_has_seen_enough_of_the_output_ends_it_quietly(model):
    command = f"{sys.executable} -m fedrule show {model} --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.parametrize("command", ["train", "recommend", "serve", "show"])
def test_every_command_has_a_help(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "MODEL" in capsys.readouterr().out


WITHOUT_TORCH = """
import sys

class Absent:  # as if it were not installed
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, Absent())
from fedrule.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_missing_package_is_told_with_the_extra_that_brings_it(tmp_path):
    command = [sys.executable, "-c", WITHOUT_TORCH, "train", "--data", "ifttt-synthetic", "--out", str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith('install the extra graph: pip install -c constraints.txt -e ".[graph]"\n')
    assert "Traceback" not in done.stderr
