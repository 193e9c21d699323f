"""What the README shows of the results is made from them, and an edit by hand is noticed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from datasets.common.errors import DataError
from reports import outputs, readme
from reports.figures import leaderboard as leaderboards
from reports.inputs import PLACES, Inputs
from reports.outputs import Output
from reports.readme import BEGIN, END, SECTION, block_of, digest, readme_files
from reports.tables.formulations import formulations
from reports.text.formats import NONE
from tests.support.made_runs import keep, small_results

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    """The figure by its name, whatever else is registered."""
    shown = (Output("leaderboard-intervals", "Intervals", "The list", "figure", leaderboards.intervals),)
    monkeypatch.setattr(outputs, "all_outputs", lambda: shown)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "README.md").write_text(f"# Ours\n\nBefore.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n")
    return tmp_path


@pytest.fixture
def inputs(tmp_path):
    return Inputs.read(small_results(tmp_path / "results"))


def write(files):
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_the_lists_stand_between_the_markers_and_the_rest_is_left_alone(root, inputs):
    files = readme_files(inputs, root)
    assert sorted(str(path.relative_to(root)) for path in files) == [
        "README.md",
        "docs/report/leaderboard.md",
        "docs/report/leaderboard.svg",
        "docs/report/manifest.json",
    ]
    text = files[root / "README.md"].decode()
    assert text.startswith(f"# Ours\n\nBefore.\n\n{BEGIN}\n")
    assert text.endswith(f"\n{END}\n\nAfter.\n")
    assert "old" not in block_of(text).split()
    # 8 methods of two seeds; the newest was written on the 11th. HR@10 as made up: 0.30 * 10^0.3 = 0.5986.
    assert f"Made by `{readme.COMMAND}` from 16 runs, the newest of 2026-11-11 (" in text
    shown = "MRR | sd over seeds | HR@10 | NDCG@10"
    assert f"| method | wyze-synthetic (40 homes): {shown} | ifttt-synthetic (40 homes): {shown} |" in text
    assert "Brackets: 95 % interval over homes and seeds." in text
    lines = text.splitlines()
    first = next(line for line in lines if line.startswith("| graphrank |"))
    fields = [field.strip() for field in first.strip("|").split("|")]
    value, low, high = map(float, re.findall(r"[0-9.]+", fields[1]))
    assert (value, fields[2:]) == (0.3, ["0.000", "0.599", "0.300", *[NONE] * 4])  # it was not run on recipes
    assert fields[1].startswith("**0.300")
    assert 0.28 <= low < 0.3 < high <= 0.32  # no home has less than 0.28 or more than 0.32
    assert "](docs/report/leaderboard.svg)" in text
    assert "](docs/report/leaderboard.md)" in text


def test_the_readme_has_ten_methods_at_most_and_the_full_table_all(root, tmp_path):
    others = {f"toy-{n}": 0.2 - n / 100 for n in range(12)}
    for method, mean in {"graphrank": 0.3, "graphrule": 0.05, "fedrule": 0.04, "popularity": 0.06, **others}.items():
        keep(tmp_path / "many", method, mean)
    files = readme_files(Inputs.read(tmp_path / "many"), root)

    def methods(text):
        return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")][2:]

    # The best four, and the paper's methods and popularity though they are far below.
    best = ["graphrank", "toy-0", "toy-1", "toy-2"]
    assert methods(files[root / "README.md"].decode()) == [*best, "popularity", "graphrule", "fedrule"]
    assert len(methods(files[root / "docs" / "report" / "leaderboard.md"].decode())) == 16


def test_the_tables_of_formulations_stand_on_a_page_of_their_own_each_note_once(root, inputs, monkeypatch):
    tables = [
        Output(role.name, role.title, SECTION, "table", lambda inputs, role=role: formulations(inputs, role))
        for role in PLACES
    ]
    everything = (*outputs.all_outputs(), *tables)
    monkeypatch.setattr(outputs, "all_outputs", lambda: everything)
    files = readme_files(inputs, root)
    page = files[root / "docs" / "report" / "formulations.md"].decode()
    assert "central beside federated: [docs/report/formulations.md](" in files[root / "README.md"].decode()
    # The made-up results are of synthetic homes and recipes; what was not run has no table.
    assert re.findall("^## (.*)$", page, re.MULTILINE) == ["Smart homes", "Synthetic recipes"]
    assert "| evidence ranking | graphrank | **0.3000 " in page
    assert page.count("Federated / central: on common seeds") == 1
    listed = json.loads(files[root / "docs" / "report" / "manifest.json"])["files"]["docs/report/formulations.md"]
    assert listed["sources"] == sorted(f"{run.key.hash}.json" for run in inputs.runs)


def test_what_is_written_is_up_to_date_and_stays_the_same(root, inputs):
    files = readme_files(inputs, root)
    write(files)
    assert readme_files(inputs, root) == files
    assert disagreeing(root) == []


def test_an_edit_by_hand_is_noticed(root, inputs):
    write(readme_files(inputs, root))
    path = root / "README.md"
    path.write_text(path.read_text().replace("| graphrank | **0.300", "| graphrank | **0.900"))
    assert disagreeing(root) == ["README.md"]
    figure = root / "docs" / "report" / "leaderboard.svg"
    figure.write_bytes(figure.read_bytes() + b" ")
    assert disagreeing(root) == ["README.md", "docs/report/leaderboard.svg"]


def test_the_manifest_names_the_runs_behind_each(root, inputs):
    manifest = json.loads(readme_files(inputs, root)[root / "docs" / "report" / "manifest.json"])
    assert manifest["command"] == readme.COMMAND
    assert manifest["files"]["README.md"]["sources"] == sorted(f"{run.key.hash}.json" for run in inputs.runs)
    assert all(each["sources"] for each in manifest["files"].values())


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_the_markers_is_an_error_that_names_them(root, inputs, text):
    (root / "README.md").write_text(text)
    with pytest.raises(DataError, match=r"README\.md: .* <!-- leaderboard: begin --> and <!-- leaderboard: end -->"):
        readme_files(inputs, root)


def test_without_results_the_command_is_named(root):
    with pytest.raises(DataError, match=r"no finished run.*python -m benchmarks run default"):
        readme_files(Inputs(), root)


def test_a_figure_that_cannot_be_made_is_named(root):
    keep(root / "results", "graphrule", 0.9, protocol="paper", metric="auc")
    with pytest.raises(DataError, match=r"README\.md shows leaderboard-intervals: no.*To get it: python"):
        readme_files(Inputs.read(root / "results"), root)


def test_the_readme_and_its_figures_are_as_they_were_made():
    assert disagreeing(ROOT) == [], f"edited by hand; make them again: {readme.COMMAND}"


def disagreeing(root):
    """The files that are not what the manifest says, in order."""
    manifest = json.loads((root / "docs" / "report" / "manifest.json").read_text())
    found = {}
    for name in manifest["files"]:
        content = (root / name).read_bytes()
        found[name] = digest(block_of(content.decode()).encode() if name == "README.md" else content)
    return sorted(name for name, made in manifest["files"].items() if found[name] != made["digest"])
