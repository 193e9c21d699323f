"""`python -m reports.build` on results of real runs: same bytes, stale files, broken and missing results."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from baselines.registry import get
from benchmarks.results.store import FORMAT, Store, load_results
from benchmarks.runs.experiment import method_parameters
from reports.build import main
from reports.inputs import Inputs
from reports.outputs import all_outputs, chosen_outputs
from reports.site import site
from reports.tables.published import PAPER_FILES
from tests.support.single_run import run

HOMES = {"homes": 60}
METHODS = ("random", "popularity", "ease")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Three methods on two seeds of 60 homes, by both protocols, and curves by round of one."""
    folder = tmp_path_factory.mktemp("results")
    for method in METHODS:
        for seed in (0, 1):
            run(method, "wyze-synthetic", data_options=HOMES, seed=seed, store=folder, isolate=False)
    few = {"parameters": {"rounds": 2}, "protocols": ["paper"], "curves": 1}
    run("graphrule", "wyze-synthetic", data_options=HOMES, store=folder, isolate=False, **few)
    return folder


@pytest.fixture
def copied(results, tmp_path):
    """The results in a folder of one's own, to be spoiled."""
    return shutil.copytree(results, tmp_path / "results")


def build(folder, out, *more):
    return main(["--no-run", "--results", str(folder), "--out", str(out), *more])


@pytest.fixture(scope="module")
def report(results, tmp_path_factory):
    """The folder of the whole report on `results`."""
    out = tmp_path_factory.mktemp("report")
    assert build(results, out) == 0
    return out


@pytest.fixture
def few_outputs(monkeypatch):
    """The report has a figure and a table, for tests of the page around them."""
    few = chosen_outputs(["hit-rate", "leaderboard"])
    monkeypatch.setattr("reports.outputs.chosen_outputs", lambda *_, **__: few)


def everything(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def test_the_same_results_give_the_same_bytes_and_check_agrees(results, report):
    before = everything(report)
    assert {"index.html", "manifest.json", "figures/hit-rate.svg"} <= before.keys()
    assert build(results, report, "--check") == 0  # builds everything again and compares
    assert everything(report) == before


def test_check_names_what_is_stale_or_missing_and_writes_nothing(results, tmp_path, caplog):
    out = tmp_path / "report"
    assert build(results, out, "--only", "hit-rate") == 0
    (out / "figures" / "hit-rate.svg").write_text("edited")
    (out / "figures" / "hit-rate.pdf").unlink()
    before = everything(out)
    with caplog.at_level("INFO"):
        assert build(results, out, "--only", "hit-rate", "--check") == 1
    assert f"{out / 'figures' / 'hit-rate.svg'} is stale" in caplog.text
    assert f"{out / 'figures' / 'hit-rate.pdf'} is missing" in caplog.text
    assert "hit-rate.png" not in caplog.text
    assert everything(out) == before


def test_every_output_is_in_the_manifest_with_its_runs_or_with_what_is_missing(results, report):
    listed = json.loads((report / "manifest.json").read_text())
    assert listed.keys() == {output.name for output in all_outputs()}
    there = {path.relative_to(results).as_posix() for path in results.rglob("*.json")} | set(PAPER_FILES)
    for name, entry in listed.items():
        if "missing" in entry:
            assert entry["missing"], name
            assert entry["command"].startswith(("python -m", "pytest")), name
        else:
            assert entry["sources"], name
            assert set(entry["sources"]) <= there, name
            assert all((report / path).is_file() for path in entry["files"]), name
    # Of popularity and ease, two seeds each; the other methods of that figure were not run.
    assert len(listed["hit-rate"]["sources"]) == 4


def test_only_one_output_is_made_and_a_wrong_name_is_answered_with_the_right_one(results, tmp_path, capsys):
    assert build(results, tmp_path, "--only", "hit-rate") == 0
    assert {path.split(".")[0] for path in everything(tmp_path)} == {"figures/hit-rate", "figures/hit-rate-phone"}
    assert build(results, tmp_path, "--only", "hit-rates") == 1
    assert "unknown output 'hit-rates'; did you mean 'hit-rate'?" in capsys.readouterr().err


def test_an_output_that_was_asked_for_and_cannot_be_made_is_a_failure_that_says_what_to_run(results, tmp_path, caplog):
    assert build(results, tmp_path, "--only", "rounds-ifttt") == 1
    assert "rounds-ifttt is missing: no curves by round" in caplog.text
    assert "python -m benchmarks run default" in caplog.text


def test_no_results_at_all_still_give_a_page_that_says_what_to_run(tmp_path):
    (tmp_path / "none").mkdir()
    assert build(tmp_path / "none", tmp_path / "report") == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert "python -m benchmarks run default" in page
    assert not (tmp_path / "report" / "figures").exists()


def test_a_folder_of_results_that_is_not_there_is_an_error(tmp_path, capsys):
    assert build(tmp_path / "resluts", tmp_path / "report") == 1
    assert f"{tmp_path / 'resluts'}: no such folder of results." in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


@pytest.mark.usefixtures("few_outputs")
def test_a_file_that_cannot_be_read_is_named_on_the_page_and_left_alone(copied, tmp_path):
    half = copied / "0123456789abcdef.json"
    half.write_text('{"format": 2, "key": {"meth')
    old = sorted(copied.glob("*.json"))[1]
    spoiled = json.loads(old.read_text()) | {"format": 1}
    old.write_text(json.dumps(spoiled))
    assert build(copied, tmp_path / "report") == 0
    page = (tmp_path / "report" / "index.html").read_text()
    assert half.name in page
    assert old.name in page
    assert f"made by an older version (format 1, this version reads {FORMAT};" in page
    assert half.read_text() == '{"format": 2, "key": {"meth'
    assert json.loads(old.read_text()) == spoiled


@pytest.mark.usefixtures("few_outputs")
def test_results_of_different_data_are_refused_and_the_rest_is_built(copied, tmp_path, caplog):
    store = Store(copied)
    kept = next(run for run in load_results(copied) if run.key.method == "ease" and run.key.protocol == "ranking")
    store.save(replace(kept, key=replace(kept.key, fingerprint="f" * 16)), kept.homes(), kept.rules())
    assert build(copied, tmp_path / "report") == 1
    assert "hit-rate is missing: wyze-synthetic: results of different data cannot be compared" in caplog.text
    page = (tmp_path / "report" / "index.html").read_text()
    assert "results of different data cannot be compared" in page


@pytest.mark.usefixtures("few_outputs")
def test_failed_runs_are_named_on_the_page(copied, tmp_path):
    kept = load_results(copied)[0]
    error = "Traceback\nMemoryError: too many factors"
    broken = replace(kept, key=replace(kept.key, method="mf"), error=error, digests={})
    Store(copied).fail(broken)
    assert build(copied, tmp_path / "report") == 0
    assert "MemoryError: too many factors" in (tmp_path / "report" / "index.html").read_text()


def test_a_method_that_nobody_knows_is_shown_like_any_other(copied):
    store = Store(copied)
    for kept in load_results(copied):
        if kept.key.method == "ease":
            other = replace(kept, key=replace(kept.key, method="a-method-of-yours", parameters={"power": 2.0}))
            store.save(other, kept.homes(), kept.rules())
    built = site(chosen_outputs([]), Inputs.read(copied))
    assert b"a-method-of-yours" in built.files["index.html"]


def test_wrong_arguments_are_one_message(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--no-run", "--suite", "smoke"])
    assert "not allowed with argument" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--jobs", "0"])
    assert "expected a whole number, 1 or more, got '0'" in capsys.readouterr().err
    file = tmp_path / "file"
    file.write_text("")
    assert main(["--no-run", "--out", str(file)]) == 1
    assert "is a file; it must be a folder, as the report is many files" in capsys.readouterr().err
    assert main(["--no-run", "--results", str(file)]) == 1
    assert "is a file, not a folder" in capsys.readouterr().err
    assert main(["--suite", "smok", "--results", str(tmp_path / "new")]) == 1
    assert "unknown suite 'smok'; did you mean 'smoke'?" in capsys.readouterr().err


PROMISE = """
import sys
from reports.build import main
status = main(["--no-run", "--results", sys.argv[1], "--out", sys.argv[2], "--only", sys.argv[3], "--quiet"])
print(status, *sorted(sys.modules))
"""
MAKERS = ("torch", "numba", "fedrule", "baselines", "benchmarks.runs", "benchmarks.evaluation", "scipy.stats")


@pytest.mark.parametrize(("output", "drawn"), [("leaderboard-intervals", True), ("leaderboard", False)])
def test_a_report_reads_result_files_without_what_made_them(results, tmp_path, output, drawn):
    command = [sys.executable, "-c", PROMISE, str(results), str(tmp_path), output]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status, *modules = done.stdout.split()
    assert status == "0", done.stderr
    assert not [name for name in modules if name in MAKERS or name.partition(".")[0] in MAKERS]
    assert ("matplotlib" in modules) == drawn


def test_labels_stay_when_a_default_changes_after_the_run(results, report, tmp_path, monkeypatch):
    monkeypatch.setattr(get("ease").__init__, "__defaults__", (123.0, *get("ease").__init__.__defaults__[1:]))
    assert method_parameters("ease", {}) != next(
        run.key.parameters for run in load_results(results) if run.key.method == "ease"
    )
    assert build(results, tmp_path / "after") == 0
    assert everything(report) == everything(tmp_path / "after")


def test_speed_is_measured_for_the_report_unless_it_was(tmp_path, monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        (tmp_path / "speed").mkdir(exist_ok=True)
        tests = ["benchmarks/speed/test_fit.py::test_fit[ease-50]", "benchmarks/speed/test_inference.py::test_one_home"]
        stats = {"min": 1.0, "median": 1.0, "rounds": 1}
        saved = {
            "datetime": "2026-11-01T10:00:00+00:00",
            "machine_info": {},
            "commit_info": {},
            "benchmarks": [{"name": name.partition("::")[2], "fullname": name, "stats": stats} for name in tests],
        }
        (tmp_path / "speed" / "0001_smoke.json").write_text(json.dumps(saved))
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(subprocess, "run", run)
    arguments = ["--suite", "smoke", "--results", str(tmp_path), "--out", str(tmp_path / "report"), "--quiet"]
    monkeypatch.setattr("reports.build._make_runs", lambda *_: None)
    for _ in range(2):  # the second finds what the first has measured
        assert main([*arguments, "--only", "environment"]) == 0
    assert main([*arguments, "--only", "environment", "--speed", "no"]) == 0
    (command,) = commands
    assert [path.rpartition("/")[2] for path in command if path.endswith(".py")] == ["test_inference.py", "test_fit.py"]
    assert "--scale smoke --results " + str(tmp_path) in " ".join(command)
