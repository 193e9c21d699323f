"""MLflow: a run for each result, in the experiment `fedrule` or that of $MLFLOW_EXPERIMENT_NAME.

MLflow gives a run an id of its own, so the tag `fedrule.hash` says which result it is. `fedrule.digest` is written
last: a run without it, or with that of an older result, is replaced. MLflow keeps what is replaced among its deleted
runs.

A folder, as in mlflow:./mlruns, works, but MLflow no longer develops this kind of store and its page shows it only with
MLFLOW_ALLOW_FILE_STORE=true; a database, mlflow:sqlite:///mlflow.db, or a server has no such limit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TypeVar

# Unless people have chosen otherwise: no telemetry, and a server that does not answer costs a minute, not an hour.
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)  # before MLflow is imported, which reads some of them then

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, Run, RunTag, ViewType  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.tracking.registry import UnsupportedModelRegistryStoreURIException  # noqa: E402
from mlflow.utils.file_utils import local_file_uri_to_path  # noqa: E402
from mlflow.utils.uri import is_local_uri  # noqa: E402

from benchmarks.trackers.tracked_run import TrackedRun  # noqa: E402
from datasets.common.errors import DataError  # noqa: E402

EXPERIMENT = "fedrule"
HASH, DIGEST = "fedrule.hash", "fedrule.digest"
METRICS_AT_ONCE, TAGS_AT_ONCE = 900, 90  # in a request, which may have 1,000 metrics, and 100 parameters or tags
MAX_TAG_LENGTH = 5000  # characters that every server takes
SQLITE = "sqlite:///"

T = TypeVar("T")


class MlflowTracker:
    """A server, a database or a folder of MLflow."""

    def __init__(self, uri: str) -> None:
        for logger in ("mlflow", "alembic"):  # which tell how it creates its tables
            logging.getLogger(logger).setLevel(logging.WARNING)
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # it warns of each retry; we warn once
        self.uri = uri
        local = is_local_uri(uri)
        self._folder = Path(local_file_uri_to_path(uri)) if local else None
        self._experiment: str | None = None  # its id, once it is known
        self._digests: dict[str, str] | None = None  # hash -> digest of the runs that were there at first
        try:
            self._client = MlflowClient(tracking_uri=uri)
        except UnsupportedModelRegistryStoreURIException:
            schemes = "http://host:5000, sqlite:///mlflow.db or a folder"
            raise DataError(f"mlflow:{uri}: MLflow has no such store; write mlflow: and {schemes}") from None

    def connect(self) -> None:
        """Find or make the experiment; an error where the store does not answer."""
        self._experiment = self._find_experiment()

    def has(self, run: TrackedRun) -> bool:
        """Whether the store has this result."""
        if self._digests is None and self._folder is None:
            # One listing is faster than a search for each of hundreds of results.
            tags = [each.data.tags for each in self._runs("!= ''")]
            self._digests = {each[HASH]: each.get(DIGEST, "") for each in tags}
        found = self._digests is not None and self._digests.get(run.hash) == run.digest
        return found or any(each.data.tags.get(DIGEST) == run.digest for each in self._same(run))

    def send(self, run: TrackedRun) -> None:
        """Write a run; older results of the same key are deleted."""
        older = self._same(run)
        description = {"mlflow.note.content": run.notes, "mlflow.source.name": "python -m benchmarks run"}
        description |= {"mlflow.source.git.commit": run.tags.get("fedrule.commit", "").partition(" ")[0]}
        first = {HASH: run.hash} | {name: text[:MAX_TAG_LENGTH] for name, text in description.items() if text}
        begin, end = round(run.begin * 1000), round(run.end * 1000)
        made = self._client.create_run(self._id, start_time=begin, tags=first, run_name=run.name).info.run_id
        params = [Param(name, str(value)) for name, value in run.params.items()]
        tags = [RunTag(name, value[:MAX_TAG_LENGTH]) for name, value in run.tags.items()]
        for some in _batches(params, TAGS_AT_ONCE):
            self._client.log_batch(made, params=some)
        for some in _batches(tags, TAGS_AT_ONCE):
            self._client.log_batch(made, tags=some)
        curves = (
            Metric(name, value, round(row.time * 1000), row.number)
            for row in run.curves
            for name, value in row.values.items()
        )
        metrics = (Metric(name, value, end, run.last_round) for name, value in run.metrics.items())
        for some in _batches(list(chain(curves, metrics)), METRICS_AT_ONCE):
            self._client.log_batch(made, metrics=some)
        for file in run.files:
            self._client.log_artifact(made, str(file))
        if run.error:
            self._client.log_text(made, run.error, "error.txt")
        self._client.set_terminated(made, "FAILED" if run.failed else "FINISHED", end_time=end)
        self._client.set_tag(made, DIGEST, run.digest)
        for each in older:
            self._client.delete_run(each.info.run_id)

    def _same(self, run: TrackedRun) -> list[Run]:
        """The runs of the same key, complete or not."""
        if self._folder is None:
            return list(self._runs(f"= '{run.hash}'"))
        # MLflow's own search reads every number of every run of a folder, which takes hours for hundreds of results.
        tags = (self._folder / self._id).glob(f"*/tags/{HASH}")
        found = [self._client.get_run(tag.parents[1].name) for tag in tags if tag.read_text() == run.hash]
        return [each for each in found if each.info.lifecycle_stage == "active"]

    def _runs(self, condition: str) -> Iterator[Run]:
        """The runs of the experiment whose hash meets a condition."""
        token = None
        while True:
            found = self._client.search_runs(
                [self._id], f"tags.`{HASH}` {condition}", ViewType.ACTIVE_ONLY, max_results=500, page_token=token
            )
            yield from found
            token = found.token
            if not token:
                return

    @property
    def _id(self) -> str:
        self._experiment = self._experiment or self._find_experiment()
        return self._experiment

    def _find_experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=self._artifacts()))
            except MlflowException:  # another process may have made it just now
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        if found.lifecycle_stage != "active":
            remedy = "restore it, or name another one by MLFLOW_EXPERIMENT_NAME"
            raise DataError(f"mlflow:{self.uri}: the experiment {name} was deleted; {remedy}")
        return str(found.experiment_id)

    def _artifacts(self) -> str | None:
        """Files go beside a database, not into the current folder; other stores have a place for them."""
        if not self.uri.startswith(SQLITE):
            return None
        return (Path(self.uri.removeprefix(SQLITE)).absolute().parent / "mlartifacts").as_uri()


def _batches(entries: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
