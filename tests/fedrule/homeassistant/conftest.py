"""Configurations written into a folder of the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fedrule.homeassistant import InstalledHome, read_folder, read_home


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Writes files, by their path and content, and returns their folder."""

    def write_files(files: Mapping[str, str]) -> Path:
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
        return tmp_path

    return write_files


@pytest.fixture
def home_of(write: Callable[[Mapping[str, str]], Path]) -> Callable[[str], InstalledHome]:
    """The home of a configuration whose automations are this YAML."""

    def read(automations: str) -> InstalledHome:
        files = {"configuration.yaml": "automation: !include automations.yaml\n", "automations.yaml": automations}
        return read_home(read_folder(write(files)))

    return read
