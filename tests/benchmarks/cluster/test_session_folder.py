"""Folders of sessions: those of killed processes are deleted by a later one, and no others."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.cluster import session_folder
from benchmarks.cluster.session_folder import SessionFolder, delete_abandoned, shared_folder

fcntl = pytest.importorskip("fcntl", reason="there are no such locks on Windows")

ROOT = Path(__file__).parents[3]
OWNER = """
import sys, time
from pathlib import Path
from benchmarks.cluster.session_folder import SessionFolder
folder = SessionFolder(Path(sys.argv[1]), "jobs-")
(folder.path / "homes").write_text("private")
print(folder.path, flush=True)
time.sleep(3600)
"""


@contextmanager
def owner(place):
    """A process that has a folder, and that folder."""
    command = [sys.executable, "-c", OWNER, str(place)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_the_folder_of_a_killed_process_is_deleted_and_that_of_a_living_one_stays(tmp_path):
    with owner(tmp_path) as (killed, abandoned), owner(tmp_path) as (_, used):
        killed.kill()
        killed.wait()
        assert (abandoned / "homes").exists()
        with SessionFolder(tmp_path, "jobs-") as own:
            delete_abandoned(tmp_path, "jobs-*")
            assert set(tmp_path.iterdir()) == {used, own.path}
        assert set(tmp_path.iterdir()) == {used}
        assert (used / "homes").exists()


def test_a_folder_of_another_machine_stays(tmp_path, monkeypatch):
    with owner(tmp_path) as (_, folder):
        pass
    with monkeypatch.context() as patch:
        patch.setattr(session_folder.socket, "gethostname", lambda: "another")
        delete_abandoned(tmp_path, "jobs-*")
        assert folder.exists()
    delete_abandoned(tmp_path, "jobs-*")
    assert not folder.exists()


def test_without_locks_a_folder_is_that_of_its_process_alone(tmp_path, monkeypatch):
    def lock(*_):
        raise OSError("No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", lock)
        folder = SessionFolder(tmp_path, "jobs-")
    delete_abandoned(tmp_path, "jobs-*")
    assert folder.path.exists()
    folder.delete()
    assert not folder.path.exists()


def test_the_place_of_a_folder_is_made_and_it_is_hidden_beside_an_output(tmp_path):
    with shared_folder(tmp_path / "new" / "place") as folder:
        assert folder.path.is_dir()
        assert folder.path.name.startswith(".")
