"""The repository keeps its own rules: imports go one way, folders stay small, and words are the field's."""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import datasets

ROOT = Path(__file__).parents[1]
# Each folder may import itself and those before it; reports read what `benchmarks.results` reads, and nothing else.
ORDER = ("datasets", "baselines", "fedrule", "benchmarks")
MAY_IMPORT = {folder: set(ORDER[: place + 1]) for place, folder in enumerate(ORDER)}
MAY_IMPORT["reports"] = {"reports", "datasets.common", "benchmarks.results"}
# Within a folder likewise: a sub-package may import itself and those before it, and modules at the root of its folder.
WITHIN = {
    "datasets": ("common", "readers", "synthetic"),
    "fedrule": (
        *("evidence", "network", "training", "federated", "methods", "audit", "models", "inference"),
        *("homeassistant", "pipeline", "serving", "commands"),
    ),
    "benchmarks": ("results", "evaluation", "runs", "cluster", "references", "speed", "commands"),
    "reports": ("text", "drawing", "tables", "figures"),
}
# The command line is the top layer and may use everything; so may what pytest runs as a benchmark.
TOP_LAYER = re.compile(
    r".*/__main__\.py|fedrule/commands/.*|reports/(build|curves)\.py|benchmarks/(conftest|speed/.*)\.py"
)
FOLDERS = (*ORDER, "reports")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
# What people read besides code; the changelog may name old words.
TEXTS = [
    path
    for folder in (*FOLDERS, "docs", ".")
    for ending in ("md", "toml", "js", "html", "lua")
    for path in sorted((ROOT / folder).glob(f"*.{ending}" if folder == "." else f"**/*.{ending}"))
    if path.name != "CHANGELOG.md"
]
FILES_PER_FOLDER = 16
# Words of our own that a reader would have to learn first; CONTRIBUTING.md says which words to use instead.
PRIVATE_WORDS = re.compile(
    r"\b(ran away|runs? away|is no number|what is no|go(es)? on from|go_on_from|lessons?|practices?|"
    r"errands?|shelf|handed in|handed_in|things to mend|taught|teacher)\b",
    re.IGNORECASE,
)


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


def within(name: str, allowed: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in allowed)


def against_the_flow(place: str, source: str) -> set[str]:
    """The imports of a file at `place` that go to a package which it may not use."""
    if TOP_LAYER.fullmatch(place):
        return set()
    folder, *inner = Path(place).with_suffix("").parts
    ours = {name for name in imported(source) if name.partition(".")[0] in FOLDERS}
    wrong = {name for name in ours if not within(name, MAY_IMPORT[folder])}
    packages = WITHIN.get(folder, ())
    if inner[0] in packages:
        later = {f"{folder}.{package}" for package in packages[packages.index(inner[0]) + 1 :]}
        wrong |= {name for name in ours if within(name, later)}
    return wrong


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_flow_of_data(path):
    assert against_the_flow(path.relative_to(ROOT).as_posix(), path.read_text()) == set()


def test_an_import_against_the_flow_is_noticed():
    assert against_the_flow("datasets/splits.py", "from benchmarks import runs") == {"benchmarks.runs"}
    assert against_the_flow("fedrule/models/train.py", "def f():\n    from benchmarks import evaluation") == {
        "benchmarks.evaluation"
    }
    assert against_the_flow("fedrule/methods/graphrule.py", "from baselines.registry import register") == set()
    assert against_the_flow("reports/site.py", "import datasets.homes") == {"datasets.homes"}
    assert against_the_flow("reports/site.py", "import benchmarks.runs.run") == {"benchmarks.runs.run"}
    assert against_the_flow("fedrule/network/score.py", "import fedrule.inference.encode") == {
        "fedrule.inference.encode"
    }


def test_the_command_line_may_use_everything():
    assert against_the_flow("fedrule/commands/train.py", "import benchmarks.evaluation.evaluate") == set()


def test_data_needs_no_torch():
    heavy = {"torch", "torch_geometric", "implicit", "sklearn", "matplotlib"}
    for path in (ROOT / "datasets").rglob("*.py"):
        assert not {name.split(".")[0] for name in imported(path.read_text())} & heavy, path


def test_a_folder_has_few_files_at_its_root():
    folders = {path.parent for path in SOURCES}
    counts = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("*.py"))) for folder in folders}
    crowded = {folder: count for folder, count in counts.items() if count > FILES_PER_FOLDER}
    assert crowded == {}


@pytest.mark.parametrize("path", [*SOURCES, *TEXTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_words_are_those_of_the_field(path):
    assert [match.group() for match in PRIVATE_WORDS.finditer(path.read_text())] == []


def test_the_name_datasets_is_ours_and_not_another_package():
    assert Path(datasets.__file__).parent == ROOT / "datasets"


def test_ci_runs_the_test_command_of_the_readme_word_for_word():
    commands = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert len(commands) == 2
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    assert last == commands[1]


def test_every_file_that_code_reads_is_installed_with_it():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    installed = {
        path
        for package, globs in listed.items()
        for glob in globs
        for path in (ROOT / Path(*package.split("."))).glob(glob)
    }
    endings = {".toml", ".html", ".css", ".js", ".txt", ".lua", ".svg"}
    present = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in endings}
    assert present <= installed, present - installed


def test_every_dependency_is_pinned_exactly():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    flower = [extras.pop("flower")]  # has an environment and pins of its own
    for file, more in (("constraints.txt", extras.values()), ("constraints-flower.txt", flower)):
        pinned = set(re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / file).read_text(), flags=re.MULTILINE))
        names = {re.split(r"[<>=\[;]", each)[0] for each in chain(project["dependencies"], *more)}
        assert names <= pinned, names - pinned
