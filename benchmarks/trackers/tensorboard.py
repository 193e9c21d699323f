"""TensorBoard: a folder for each run, with an event file and the files of the result.

    DIR/<method>-<data>-<track>-<split>-<protocol>-seed<n>-<hash>/events.out.tfevents...
                                                                  <hash>.json, <hash>.homes.parquet, ...

Curves and metrics are scalars, parameters and whether a run failed are in the tab HParams, and tags, warnings and
errors are text. A folder is written under a temporary name and moved, so one with the same JSON as the store is
complete. torch and TensorFlow are not needed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import DATA_CLASS_SCALAR, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.plugins.hparams.api_pb2 import Status
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.scalar import metadata as scalars
from tensorboard.plugins.text import metadata as texts
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

from benchmarks.trackers.tracked_run import TrackedRun


class TensorBoardTracker:
    """Event files in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder).expanduser()

    def connect(self) -> None:
        """Make the folder; an OSError where that is impossible."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(f"{self.folder} cannot be written to")

    def has(self, run: TrackedRun) -> bool:
        """Whether the folder of a run has this result."""
        there = self._place(run) / run.files[0].name
        return there.exists() and there.read_bytes() == run.files[0].read_bytes()

    def send(self, run: TrackedRun) -> None:
        """Write the folder of a run; an older result of the same key is replaced."""
        self.connect()
        temporary = self.folder / f".unfinished-{run.hash}-{os.getpid()}"
        try:
            temporary.mkdir(exist_ok=True)
            writer = EventFileWriter(str(temporary))
            for event in _events(run):
                writer.add_event(event)
            writer.close()
            for file in run.files:
                shutil.copyfile(file, temporary / file.name)
            if self._place(run).exists():
                shutil.rmtree(self._place(run))
            temporary.rename(self._place(run))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _place(self, run: TrackedRun) -> Path:
        parts = [*(run.params[name] for name in ("method", "data", "track", "split", "protocol"))]
        name = "-".join(map(str, [*parts, f"seed{run.params['seed']}", run.hash]))
        return self.folder / re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _events(run: TrackedRun) -> Iterator[Event]:
    start, end = HParamsPluginData(), HParamsPluginData()
    start.session_start_info.start_time_secs = run.begin
    start.session_start_info.group_name = run.hash
    for name, value in run.params.items():
        kind = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"
        setattr(start.session_start_info.hparams[name], f"{kind}_value", value)
    end.session_end_info.end_time_secs = run.end
    end.session_end_info.status = Status.STATUS_FAILURE if run.failed else Status.STATUS_SUCCESS
    nothing = make_tensor_proto(0.0)
    yield _event(run.begin, 0, hparams.SESSION_START_INFO_TAG, nothing, metadata=hparams.create_summary_metadata(start))
    for row in run.curves:
        for name, number in row.values.items():
            yield _scalar(row.time, row.number, name, number)
    for name, number in run.metrics.items():
        grouped = name if "/" in name else f"summary/{name}"  # by what is before the slash
        yield _scalar(run.end, run.last_round, grouped, number)
    about = {"about": _table(run.tags), "warnings": run.notes, "error": run.error and _verbatim(run.error)}
    for name, text in about.items():
        if text:
            tensor = make_tensor_proto(text.encode())
            yield _event(run.end, run.last_round, name, tensor, metadata=texts.create_summary_metadata(None, ""))
    yield _event(run.end, 0, hparams.SESSION_END_INFO_TAG, nothing, metadata=hparams.create_summary_metadata(end))


def _scalar(time: float, step: int, name: str, value: float) -> Event:
    return _event(time, step, name, make_tensor_proto(value, dtype="float32"), metadata=SCALAR)


def _event(time: float, step: int, tag: str, tensor: TensorProto, *, metadata: SummaryMetadata) -> Event:
    summary = Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])
    return Event(wall_time=time, step=step, summary=summary)


def _table(rows: dict[str, str]) -> str:
    """A table of Markdown."""
    lines = [f"| {name} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _verbatim(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


SCALAR = scalars.create_summary_metadata(None, "")
SCALAR.data_class = DATA_CLASS_SCALAR
