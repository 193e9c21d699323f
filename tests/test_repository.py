"""The repository keeps its own rules: imports go one way, names are ours, the README says what is run."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import datasets

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "datasets": set(),
    "baselines": {"datasets"},
    "fedrule": {
        "datasets",
        *(f"baselines.{what}" for what in ("registry", "discovery", "method", "owners", "items", "cooccurrence")),
    },
    "benchmarks": {"datasets", "baselines", "fedrule"},
    "reports": {
        "datasets.common.errors",
        "datasets.common.progress",
        "datasets.common.threads",
        "datasets.common.files",
        # What reads result files, and what makes the missing ones.
        *(f"benchmarks.{what}" for what in ("results", "compare", "leaderboard", "naming", "histories")),
        *(f"benchmarks.{what}" for what in ("speeds", "records")),
        *(f"benchmarks.{what}" for what in ("portraits", "examples", "matrix_excerpt", "example_lists")),
        *(f"benchmarks.{what}" for what in ("prepare", "tune")),
    },
}
# Evaluation is written once: what is trained to be used is measured by it.
BESIDES = {"fedrule/models/train.py": {f"benchmarks.{what}" for what in ("evaluate", "calibrate", "circumstances")}}
SOURCES = [path for folder in MAY_IMPORT for path in sorted((ROOT / folder).rglob("*.py"))]


def imported(source: str) -> set[str]:
    """Every module that a file imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def against_the_direction(folder: str, source: str, *, besides: frozenset[str] = frozenset()) -> set[str]:
    """The imports of a file in `folder` that go to a folder of ours which it may not use."""
    ours = {name for name in imported(source) if name.split(".")[0] in MAY_IMPORT}
    allowed = MAY_IMPORT[folder] | {folder} | besides
    return {name for name in ours if not any(name == a or name.startswith(f"{a}.") for a in allowed)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_flow_of_data(path):
    place = path.relative_to(ROOT)
    besides = frozenset(BESIDES.get(place.as_posix(), ()))
    assert against_the_direction(place.parts[0], path.read_text(), besides=besides) == set()


def test_an_import_against_the_flow_is_noticed():
    assert against_the_direction("datasets", "from benchmarks import run") == {"benchmarks.runs.scheduler"}
    assert against_the_direction("fedrule", "import baselines.mf") == {"baselines.mf"}
    assert against_the_direction("fedrule", "from baselines.registry import register") == set()
    assert against_the_direction("reports", "def f():\n    import datasets") == {"datasets"}


def test_data_needs_no_torch():
    heavy = {"torch", "torch_geometric", "implicit", "sklearn", "matplotlib"}
    for path in (ROOT / "datasets").rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(path.read_text())} & heavy, path


def test_the_name_datasets_is_ours_and_not_another_package():
    assert Path(datasets.__file__).parent == ROOT / "datasets"


def test_ci_runs_the_test_command_of_the_readme_word_for_word():
    commands = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert len(commands) == 2
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == commands[1]


def test_every_dependency_is_pinned_exactly():
    pinned = set(re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = chain(project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[<>=\[;]", requirement)[0] for requirement in asked}
    assert names <= pinned, names - pinned


def test_no_file_of_ours_is_long():
    long = {str(p.relative_to(ROOT)): n for p in SOURCES if (n := len(p.read_text().splitlines())) > 300}
    assert long == {}
