"""What the documentation shows works as written: Python blocks, command lines, examples, links and names."""

from __future__ import annotations

import importlib
import io
import json
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import chdir, closing, redirect_stderr, redirect_stdout
from functools import cache
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from baselines import registry
from baselines.contract import check_method
from benchmarks.runs.suite import read_suite, suites
from datasets import load
from fedrule.federated import algorithm
from fedrule.inference import HomeRequest
from reports import build
from reports.inputs import Inputs
from reports.outputs import MAKE_DOCS, Missing, Table
from tests.support.home_assistant import DEMO_HOME
from tests.support.made_runs import run as made_run

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))}
CURRENT = {name: text for name, text in PAGES.items() if name != "CHANGELOG.md"}  # which also names what is gone
FOLDERS = ("datasets", "baselines", "fedrule", "benchmarks", "reports")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of one language on a page, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], flags=re.MULTILINE | re.DOTALL)


def only_block(page: str, language: str) -> str:
    (block,) = blocks(page, language)
    return block


def run_python(code: str, folder: Path) -> str:
    """What a block prints, run as a script of its own in a folder."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def run_here(code: str, folder: Path) -> str:
    """The same without a process of its own, which would import torch anew; nothing but its imports is shared."""
    printed = io.StringIO()
    with chdir(folder), redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})
    return printed.getvalue()


def test_every_python_block_is_run_by_a_test_of_this_file():
    found = {page: len(blocks(page, "python")) for page in PAGES if blocks(page, "python")}
    assert found == {
        "CONTRIBUTING.md": 2,
        "README.md": 1,
        "docs/data.md": 1,
        "docs/federated.md": 1,
        "docs/graph.md": 1,
        "docs/home-assistant.md": 2,
        "docs/models.md": 1,
        "docs/pipeline.md": 1,
        "docs/privacy.md": 2,
    }


def test_the_tour_of_the_data_runs(tmp_path):
    assert "home of 1: " in run_python(only_block("docs/data.md", "python"), tmp_path)
    assert (tmp_path / "homes.parquet").is_file()


def test_the_federated_method_trains_and_resumes(tmp_path):
    for run in (run_python, run_here):  # the second fit starts where the first one ended
        run(only_block("docs/federated.md", "python") + "\nassert Path('run.npz').is_file()", tmp_path)


def test_a_secure_sum_is_the_plain_one(tmp_path):
    assert re.fullmatch(r"\d+ bytes\n", run_here(blocks("docs/privacy.md", "python")[0], tmp_path))


def test_the_private_method_of_the_page_can_be_built(tmp_path):
    assert run_here(blocks("docs/privacy.md", "python")[1], tmp_path) == ""


def test_the_graph_method_scores_pairs(tmp_path):
    code = only_block("docs/graph.md", "python")
    checks = "\nassert scores.shape == (2, len(homes.relations))\nassert not np.isnan(scores).all()"
    run_here(code + checks, tmp_path)


def test_a_model_is_trained_saved_used_and_trained_further(tmp_path):
    code = only_block("docs/models.md", "python") + "\nassert set(lists['user']) <= set(homes.users.tolist())"
    assert run_here(code, tmp_path).count("When *") == 3


def test_a_home_assistant_is_read_from_its_folder_and_a_rule_written(tmp_path):
    (tmp_path / "config").symlink_to(DEMO_HOME)
    printed = run_here("\n".join(blocks("docs/home-assistant.md", "python")), tmp_path)
    assert printed.startswith("12 automations, 12 give rules; 22 rules")
    assert "# A brightness of 50 % is a guess" in printed
    assert "  alias: When Backyard sees movement, dim Kitchen lights\n" in printed
    assert HomeRequest.read(tmp_path / "home.json").rules


def test_the_homes_of_the_pages_have_rooms_that_tell_devices_apart():
    request = re.search(r"-d '(\{.*?\})'", (ROOT / "docs/serving.md").read_text("utf-8"), re.DOTALL)
    asked = json.loads(request[1])
    assert asked.pop("k") == 3
    for example in (json.loads(only_block("docs/models.md", "json")), asked):
        home = HomeRequest.from_json(example)
        names = [device.display_name for device in home.devices]
        assert names == ["Front door", "Hall light", "Back door", "Kitchen light"]
        front, hall, back, kitchen = map(set, home.device_words())
        assert front & hall
        assert back & kitchen
        assert not (front | hall) & (back | kitchen)


def test_the_pipeline_reads_the_databases_that_its_file_describes(tmp_path, monkeypatch):
    settings = only_block("docs/pipeline.md", "toml")
    (tmp_path / "homes.toml").write_text(settings)
    described = tomllib.loads(settings)
    rows = {"devices": [(17, 1, "ContactSensor"), (17, 2, "Light")], "rules": [(17, 1, "Open", "Power On", 2)]}
    roles = {
        "devices": ("user", "device", "type"),
        "rules": ("user", "trigger_device", "trigger_state", "action", "action_device"),
    }
    for part, file in (("devices", "devices.db"), ("rules", "rules.db")):
        names = [described[part]["columns"].get(role, role) for role in roles[part]]
        columns = ", ".join((*names, described[part]["updated"]))
        with closing(sqlite3.connect(tmp_path / file)) as database:
            database.execute(f"create table {described[part]['table']} ({columns})")
            marks = ", ".join("?" * (len(names) + 1))
            values = [(*row, "2026-06-01") for row in rows[part]]
            database.executemany(f"insert into {described[part]['table']} values ({marks})", values)
            database.commit()
    monkeypatch.setenv("DEVICES_URL", str(tmp_path / "devices.db"))
    checks = "\nassert (homes.n_rules, some.n_rules, new.n_rules, part.n_rules, pipeline.n_users()) == (1, 1, 1, 1, 1)"
    run_here(only_block("docs/pipeline.md", "python") + checks, tmp_path)


@pytest.fixture
def registered(tmp_path, monkeypatch, own_registry):  # noqa: ARG001
    """A function that imports a block as a module of somebody else and gives the name of the method it registers."""
    monkeypatch.setattr(algorithm, "ALGORITHMS", dict(algorithm.ALGORITHMS))
    monkeypatch.syspath_prepend(tmp_path)

    def import_block(code: str, module: str) -> str:
        before = set(registry.names())
        (tmp_path / f"{module}.py").write_text(code)
        importlib.import_module(module)
        (name,) = set(registry.names()) - before
        return name

    return import_block


def test_the_method_of_the_readme_keeps_the_contract(registered):
    name = registered(only_block("README.md", "python"), "my_method")
    assert registry.summary(name)
    assert all(parameter.meaning for parameter in registry.parameters(name))
    assert check_method(name) == []
    assert len(only_block("README.md", "python").splitlines()) <= 25


def test_the_algorithm_of_the_contributing_page_trains(registered):
    name = registered(blocks("CONTRIBUTING.md", "python")[1], "my_algorithm")
    homes, trigger, action = load("wyze-synthetic", homes=20), np.array([0, 0]), np.array([0, 1])
    clipped, plain = (
        registry.build(method, rounds=2, learning_rate=100.0)
        .fit(homes, rng=np.random.default_rng(0))
        .score_pairs(homes, trigger, action)
        for method in (name, "fedgnn")
    )
    assert np.isfinite(clipped).any()
    assert not np.array_equal(clipped, plain, equal_nan=True)


def test_the_table_of_the_contributing_page_is_made_from_runs():
    module: dict[str, Callable[[Inputs], Table]] = {}
    exec(blocks("CONTRIBUTING.md", "python")[0], module)
    table = module["fit_seconds"](
        Inputs((made_run("ease", seconds={"fit": 2.0}), made_run("mf", seconds={"fit": 0.5})))
    )
    assert [[cell.text for cell in row] for row in table.rows] == [["ease", "2.0"], ["mf", "0.5"]]
    assert table.about.caption == "ease took 2.0 s."
    with pytest.raises(Missing, match="no finished run"):
        module["fit_seconds"](Inputs())


def test_the_suite_of_the_readme_runs_on_tables_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load("wyze-synthetic", homes=30).save("homes.parquet")
    _main("datasets")(["generate", "saved", "--data", "homes.parquet", "--layout", "tables", "--out", "my_tables"])
    (tmp_path / "my_suite.toml").write_text(only_block("README.md", "toml"))
    asked = read_suite("my_suite.toml", seeds=[0])
    assert {one.method for one in asked} == {"popularity", "ease", "graphrank"}
    assert {one.source.load().n_homes for one in asked} == {30}


MODULES = ("datasets", "benchmarks", "fedrule", "reports.build", "reports.curves")
# `python -m MODULE ...`, or `fedrule ...`, which is installed as a command.
COMMAND = re.compile(
    rf"(?:python -m |^    (?=fedrule )|`(?=fedrule [a-z]))({'|'.join(map(re.escape, MODULES))})"
    r"\b(?!\.)((?:[^`\n\\]|\\\n)*)",
    re.MULTILINE,
)
# Options of other programs.
OTHERS = {"--benchmark-only", "--scale", "--storage", "--all-files", "--node-config", "--backend-store-uri", "--logdir"}
OTHERS |= {"--nthreads", "--dashboard-address", "--no-dashboard"}  # of Dask


def _main(module: str):
    name = module if module.startswith("reports.") else f"{module}.__main__"
    return importlib.import_module(name).main


@cache
def _help(module: str, words: tuple[str, ...]) -> str:
    """What `python -m MODULE WORDS --help` prints."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as end:
        _main(module)([*words, "--help"])
    assert end.value.code == 0, f"python -m {module} {' '.join(words)} --help: {printed.getvalue()}"
    return printed.getvalue()


def _documented() -> list[tuple[str, str, tuple[str, ...]]]:
    """Every command line of the pages: page, module, words."""
    found = []
    for page, text in CURRENT.items():
        for module, rest in COMMAND.findall(text):
            words = shlex.split(rest.replace("\\\n", " ").replace("[", " ").replace("]", " "), comments=True)
            found.append((page, module, tuple(words)))
    return list(dict.fromkeys(found))


def _options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))


def _before_options(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(takewhile(lambda word: not word.startswith("-"), words))


@pytest.mark.parametrize(("page", "module", "words"), _documented(), ids=lambda value: str(value)[:60])
def test_a_documented_command_exists_and_has_these_options(page, module, words):
    before = _before_options(words)
    options = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
    assert options <= _options(_help(module, before)), page
    if module == "benchmarks" and before[:1] == ("run",) and len(before) > 1:
        assert before[1] in suites() or before[1].endswith(".toml"), page


def test_nothing_is_left_to_be_filled_in():
    for page, text in CURRENT.items():
        assert not re.search(r"^[A-Z_]+$|\b(TODO|TBD|FIXME)\b", text, flags=re.MULTILINE), page


def test_every_option_in_the_text_is_one_of_some_command():
    helps = (_options(_help(module, _before_options(words))) for _, module, words in _documented())
    known = set().union(OTHERS, *helps)
    for page, text in CURRENT.items():
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known, page


def _anchor(heading: str) -> str:
    """What code hosts make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", PAGES[page]):
        if target.startswith("http"):
            continue
        path = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        assert path.exists(), target
        if anchor:
            assert anchor in map(_anchor, re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE)), anchor


@pytest.mark.parametrize("page", sorted(CURRENT))
def test_files_that_are_named_exist(page):
    named = re.findall(rf"`((?:{'|'.join((*FOLDERS, 'tests', 'docs'))})/[\w./-]*)`", CURRENT[page])
    missing = {name for name in named if not (ROOT / name).exists()}
    assert {name for name in missing if "my_" not in name} == set()


def test_every_folder_has_its_place_in_the_architecture():
    folders = {path.parent.relative_to(ROOT).as_posix() for top in FOLDERS for path in (ROOT / top).rglob("*.py")}
    assert {name for name in folders if f"`{name}/`" not in PAGES["docs/architecture.md"]} == set()


def test_results_in_the_pages_are_what_the_published_results_say(monkeypatch, tmp_path, caplog):
    """`--check` builds every block of README.md and docs/ again; with the digests nobody can edit both."""
    monkeypatch.chdir(ROOT)
    command = MAKE_DOCS.removeprefix("python -m reports.build ").split()
    with caplog.at_level("ERROR"):
        assert build.main([*command, "--check", "--quiet", "--out", str(tmp_path)]) == 0, (
            f"{caplog.text}\nrenew them: {MAKE_DOCS}"
        )


def test_the_readme_is_short():
    assert len(PAGES["README.md"].splitlines()) <= 150


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.findall(r"^## ([\d.]+)", PAGES["CHANGELOG.md"], flags=re.MULTILINE)[0] == version
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE) == [version]


def test_hooks_before_a_commit_are_the_commands_of_tox():
    hooks = re.findall(r"^ +entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(), flags=re.MULTILINE)
    tox = (ROOT / "tox.ini").read_text()
    assert hooks == ["ruff check .", "ruff format --check .", "mypy"]
    assert all(re.search(rf"^(commands = | +){re.escape(hook)}$", tox, flags=re.MULTILINE) for hook in hooks)
