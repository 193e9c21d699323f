"""`recommend --cluster` on another machine: batches of homes in, their lists out, each batch made by a process.

A process loads the model once. It has one thread, so that its numbers are those of the command, and is no part of the
worker: a crash is an error of one batch, and Ctrl-C ends it at once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import socket
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

from benchmarks.cluster import cluster, remote
from benchmarks.cluster.cluster import Reply
from benchmarks.cluster.remote import refusal_of_other_code
from benchmarks.runs import processes, source_hash
from benchmarks.runs.processes import Process, ProcessPool, describe_failure, reporter, serve
from datasets.common.cli import EXTRAS, import_all
from datasets.common.environment import commit, versions
from datasets.common.errors import DataError, install_hint
from datasets.common.files import Json
from datasets.storage import load_file
from fedrule.inference import sentences
from fedrule.inference.arrow_lists import ArrowLists
from fedrule.inference.recommender import Recommender

if TYPE_CHECKING:
    from benchmarks.runs.history import OnProgress

HANDLER = "fedrule.commands.list_handler:ListHandler"
PHRASES = Path(sentences.__file__).with_name("phrases.toml")
# What brings homes to a process and lists back; other code of ours that is imported is found by its imports.
CLUSTER = {Path(file) for file in (cluster.__file__, remote.__file__, processes.__file__, source_hash.__file__)}
HOMES, LISTS, REPLY = "homes.parquet", "lists.arrow", "reply.json"  # in the folder of a batch


def code_of(modules: list[str]) -> str:
    """Hash of all code that makes lists on another machine, of the words of their sentences, and of these modules."""
    roots = [Path(__file__)]
    for module in modules:
        found = importlib.util.find_spec(module)
        if found is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        roots.append(Path(str(found.origin)))
    parts = [source_hash.source_hash(roots, CLUSTER).digest.encode(), PHRASES.read_bytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


class ListHandler:
    """Makes lists on a machine of a cluster."""

    def __init__(self) -> None:
        # No more processes than the machine makes batches at the same time: all of them have the same model.
        self._pool: ProcessPool[str, Process] = ProcessPool(_start)

    def refusal(self, content: Mapping[str, Any]) -> str:
        """Why this machine must not make lists; empty where it may."""
        return refusal_of_other_code(content["method"], content["code"], lambda: code_of(content["modules"]))

    def run(self, name: str, content: Mapping[str, Any], file: Path, data: bytes, on_progress: OnProgress) -> Reply:
        """Make the lists of the homes in `data` by the model of a file."""
        with TemporaryDirectory(dir=file.parent) as temporary:
            folder = Path(temporary)
            (folder / HOMES).write_bytes(data)
            job: dict[str, Json] = {**content, "model": str(file), "folder": temporary}
            with self._pool.take(str(file), name) as process:
                code, tail = process.run(json.dumps(job), on_progress)
            if code:
                return {"error": f"{describe_failure(code, tail)} (on {socket.gethostname()})"}
            reply: Reply = json.loads((folder / REPLY).read_text("utf-8"))
            lists = folder / LISTS
            return reply | {"files": {LISTS: lists.read_bytes()}} if lists.exists() else reply

    def cancel(self, name: str) -> None:
        """End this batch."""
        self._pool.cancel(name)

    def stop(self) -> None:
        """End all batches."""
        self._pool.stop()

    def close(self) -> None:
        """End the processes that wait for more batches."""
        self._pool.__exit__()


def _start(model: str) -> Process:
    return Process("fedrule.commands.list_handler", key=model, threads=1)


def _make(job: dict[str, Any], lines: IO[str]) -> int:
    """The lists of one batch."""
    folder, report = Path(job["folder"]), reporter(lines)
    homes, done = load_file(folder / HOMES), 0

    def on_homes(many: int) -> None:
        nonlocal done
        done += many
        report(done, homes.n_homes)

    try:
        recommender = _recommender(job["model"], tuple(job["modules"]))
    except (ImportError, DataError) as error:
        why = str(error).removeprefix(f"{job['model']}: ")
        if _is_for_lack_of_a_package(error):
            why = f"cannot use the model of {job['method']} ({why}; {commit() or 'no git checkout'})"
            reply: Reply = {"refusal": why}
        else:  # such as a file that was damaged here
            reply = {"error": f"{why} (on {socket.gethostname()})"}
    else:
        given = {name: job[name] for name in ("k", "unknown", "max_similar")}
        try:
            lists = ArrowLists.of(recommender.recommend_many(homes, **given, on_homes=on_homes))
        except DataError as error:  # it would be one on any machine
            reply = {"error": str(error), "final": True}
        else:
            (folder / LISTS).write_bytes(lists.streams[0])
            reply = {"versions": versions()}
    (folder / REPLY).write_text(json.dumps(reply), "utf-8")
    return 0


def _is_for_lack_of_a_package(error: BaseException | None) -> bool:
    """Whether something is not installed: an import failed before this error, or it names an extra to install."""
    hints = [install_hint(extra) for extra in set(EXTRAS.values())]
    while error is not None:
        if isinstance(error, ImportError) or any(hint in str(error) for hint in hints):
            return True
        error = error.__cause__ or error.__context__
    return False


@lru_cache(maxsize=1)
def _recommender(model: str, modules: tuple[str, ...]) -> Recommender:
    import_all(modules)
    return Recommender.load(model)


if __name__ == "__main__":
    sys.exit(serve(_make))
