"""`pytest benchmarks/` in a process of its own: what it saves, where, and that its results are those of runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.registry import names
from benchmarks.results.speeds import load_speeds
from benchmarks.results.store import load_results
from benchmarks.runs.experiment import make_experiment, make_source
from benchmarks.runs.suite import read_suite
from datasets.registry import names as data_names

pytest.importorskip("pytest_benchmark", reason="benchmarks need the extra bench")

from benchmarks.speed.test_quality import TOO_LONG, left_out, plain_entries
from tests.support.single_run import run

ROOT = Path(__file__).parents[2]
QUALITY = "test_quality.py"


def benchmarks(suite, *options, cwd, results="results"):
    """A run of one suite, its output and all that it left in its folder."""
    command = [sys.executable, "-m", "pytest", f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
    command += ["-p", "no:cacheprovider", "--scale", "smoke", str(ROOT / "benchmarks" / "speed" / suite), *options]
    # A worker of xdist hands on that it is one, and nothing is measured beside other work.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    environment = own | {"FEDRULE_RESULTS": str(cwd / results)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    files = sorted(path.relative_to(cwd) for path in cwd.rglob("*") if path.is_file())
    return done.returncode, done.stdout + done.stderr, files


def synthetic():
    """The name and the number of the synthetic homes of the suite smoke."""
    found = {data: asked for (_, data), asked in plain_entries("smoke").items() if "wyze" in data}
    ((name, asked),) = found.items()
    return name, asked.source.options["homes"]


def test_one_run_gives_quality_and_speed(tmp_path):
    results, (data, homes) = tmp_path / "results", synthetic()
    settings = {"data": "wyze-synthetic", "data_options": {"homes": homes}, "isolate": False}
    run("random", **settings, store=results)
    before = {path: path.read_bytes() for path in results.iterdir()}
    code, said, _ = benchmarks(QUALITY, "--benchmark-only", "-k", "(popularity or random) and wyze", cwd=tmp_path)
    assert code == 0, said
    assert {path: path.read_bytes() for path in before} == before, "a finished run stays"

    speeds = {speed.name: speed for speed in load_speeds(results)[0]}
    assert len(speeds) == 4
    fit = speeds[f"test_fit[popularity-{data}]"]
    evaluated = speeds[f"test_evaluate[popularity-{data}]"]
    assert (fit.group, evaluated.group) == (f"fit {data}", f"evaluate {data}")
    assert fit.params == {"method": "popularity", "data": data}
    assert (fit.scale, fit.extra_info["homes"]) == ("smoke", homes)

    summaries = {}
    for ours in run("popularity", **settings, store=tmp_path / "runs"):
        (kept,) = (result for result in load_results(results) if result.key == ours.key)
        assert kept.summary == pytest.approx(ours.summary, rel=0, abs=0, nan_ok=True)
        assert (kept.digests, kept.counts, kept.code) == (ours.digests, ours.counts, ours.code)
        assert (kept.calibrated, kept.threads, kept.memory) == (ours.calibrated, 1, {})
        assert kept.seconds.keys() == ours.seconds.keys()
        summaries |= ours.summary
    for metric in ("mrr", "hr@10", "ndcg@10", "auc", "loss", "mr", "mr_rt"):
        assert fit.extra_info[metric] == evaluated.extra_info[metric] == summaries[metric]

    command = [Path(sys.executable).with_name("pytest-benchmark"), "--storage", results / "speed", "compare", "*_smoke"]
    compared = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"test_fit[popularity-{data}]" in compared.stdout


@pytest.mark.parametrize(
    ("suite", "which"),
    [("test_data.py", "test_split and holdout"), pytest.param(QUALITY, "popularity and wyze", marks=pytest.mark.slow)],
)
def test_nothing_is_kept_where_nothing_is_measured(tmp_path, suite, which):
    code, said, files = benchmarks(suite, "--benchmark-disable", "-k", which, cwd=tmp_path)
    assert code == 0, said
    assert files == []


def test_who_says_where_to_save_is_heard(tmp_path):
    options = ("--benchmark-only", "--benchmark-json", "mine.json", "--results", "other")
    code, said, files = benchmarks("test_data.py", *options, "-k", "test_split and holdout", cwd=tmp_path)
    assert code == 0, said
    assert files == [Path("mine.json")]


def test_an_unknown_scale_is_an_error_that_names_the_choices(tmp_path):
    code, said, files = benchmarks(QUALITY, "--scale", "huge", cwd=tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert all(scale in said for scale in ("'huge'", "smoke", "default", "paper"))
    assert files == []


def test_results_cannot_be_kept_in_a_file(tmp_path):
    (tmp_path / "results").write_text("")
    code, said, _ = benchmarks(QUALITY, cwd=tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "is a file, not a folder" in said


def test_real_data_and_the_slowest_methods_wait_for_a_larger_scale():
    real = make_experiment("popularity", make_source("ifttt-fedrule", options={}), parameters={}, options={})
    assert "real data" in left_out(real, "smoke")
    assert "real data" in left_out(real, "default")
    assert left_out(real, "paper") == ""
    quick = make_experiment("popularity", make_source("ifttt-synthetic", options={}), parameters={}, options={})
    assert left_out(quick, "smoke") == ""
    # a name that nobody has any more would leave out nothing
    assert {data for scale in TOO_LONG.values() for data in scale} <= set(data_names())
    assert {method for scale in TOO_LONG.values() for methods in scale.values() for method in methods} <= set(names())


def test_of_a_suite_every_plain_entry_is_measured_once():
    cases = plain_entries("smoke")
    asked = read_suite("smoke", seeds=[0])
    assert {each.source.data for each in cases.values()} == {"wyze-synthetic", "ifttt-synthetic"}
    assert {method for method, _ in cases} == {each.method for each in asked}
    assert all(each in asked for each in cases.values())
    assert not any(each.curves or each.source.track != "types" for each in cases.values())
