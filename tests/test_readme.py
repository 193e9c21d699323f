"""What the README shows works as it stands there."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

from baselines import registry
from fedrule.inference import AskedHome

README = Path(__file__).parents[1] / "README.md"


def section(heading: str) -> str:
    """The README from a heading to the next one of its kind."""
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", README.read_text(), flags=re.MULTILINE | re.DOTALL
    )
    assert found, f"README.md has no section {heading!r}"
    return found[1]


def code_of(heading: str) -> str:
    """The one block of Python in a section."""
    (code,) = re.findall(r"^```python\n(.*?)^```", section(heading), flags=re.MULTILINE | re.DOTALL)
    return code


def test_the_tour_of_the_data_runs_as_it_stands(tmp_path):
    done = subprocess.run([sys.executable, "-c", code_of("Data")], cwd=tmp_path, check=True, capture_output=True)
    assert b"home of 1: " in done.stdout
    assert (tmp_path / "homes.parquet").is_file()


def test_the_federated_method_trains_and_goes_on_as_it_stands(tmp_path):
    for _ in range(2):  # the second fit begins where the first has ended
        code = code_of("Federated methods") + "\nassert Path('run.npz').is_file()"
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_graph_method_recommends_as_it_stands():
    code = (
        code_of("Graph methods")
        + "\nassert scores.shape == (2, len(homes.relations))\nassert not np.isnan(scores).all()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_is_trained_saved_and_asked_as_it_stands(tmp_path):
    code = code_of("Recommend for real homes") + "\nassert set(lists['user']) <= set(homes.users.tolist())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.count("When *") == 3


def test_the_home_of_the_readme_is_a_home():
    (text,) = re.findall(r"^```json\n(.*?)^```", section("Recommend for real homes"), flags=re.MULTILINE | re.DOTALL)
    assert [device.called for device in AskedHome.of_json(json.loads(text)).devices] == ["Front door", "Hall light"]


def test_add_your_own_method_is_short():
    assert len(section("Add your own method").strip().splitlines()) <= 30


def test_add_your_own_method_runs_as_a_module_and_registers_a_method(tmp_path, monkeypatch):
    code = code_of("Add your own method")
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    before = set(registry.names())
    (tmp_path / "readme_method.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("readme_method")
    (name,) = set(registry.names()) - before
    assert registry.summary(name)
    assert all(parameter.meaning for parameter in registry.parameters(name))
    assert "check_method(" in code
    subprocess.run([sys.executable, tmp_path / "readme_method.py"], check=True)  # its last line checks the contract
