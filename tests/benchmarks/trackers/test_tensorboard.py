"""Runs read back from event files as TensorBoard reads them."""

from __future__ import annotations

import math

import pytest

from benchmarks.trackers.tracking import Tracking
from tests.support.made_runs import keep, keep_failure, rounds

pytest.importorskip("tensorboard", reason="the tracker needs the extra track")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import parse_session_end_info_plugin_data as end_of
from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data as start_of
from tensorboard.util.tensor_util import make_ndarray

PARAMETERS = {"rate": 0.5, "deep": False, "sizes": [16, 8]}


def send(folder, results):
    return Tracking([f"tensorboard:{folder}"], "results").finish(results)


def read(folder):
    """The one run of a folder."""
    (place,) = folder.iterdir()
    events = EventAccumulator(str(place), size_guidance={"tensors": 0})
    events.Reload()
    return place, events


def points(events, tag):
    return [(each.step, make_ndarray(each.tensor_proto).item()) for each in events.Tensors(tag)]


def hparams(events):
    found = events.PluginTagToContent("hparams")
    start, end = (start_of(found["_hparams_/session_start_info"]), end_of(found["_hparams_/session_end_info"]))
    values = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    return values, end.status


def test_a_run_has_its_parameters_metrics_curves_and_files(tmp_path):
    history = rounds(3, first={"loss": 0.5, "seconds": 2.0})
    summary = {"hr@10, all": 0.25, "devices >20: mrr": math.nan}
    (result,) = keep(
        tmp_path / "results", "toy", 0.3, seeds=[1], history=history, summary=summary, parameters=PARAMETERS
    )
    send(tmp_path / "board", [result])
    place, events = read(tmp_path / "board")
    assert place.name == f"toy-wyze-synthetic-types-holdout-ranking-seed1-{result.key.hash}"
    assert points(events, "rounds/clients") == [(1, 40.0), (2, 40.0), (3, 40.0)]
    assert points(events, "rounds/loss") == [(1, 0.5)]
    assert points(events, "summary/mrr") == [(3, pytest.approx(0.3))]
    assert points(events, "summary/hr_at_10.all") == [(3, 0.25)]
    assert math.isnan(points(events, "slices/devices_over_20/mrr")[0][1])
    scalars = events.summary_metadata["summary/mrr"].plugin_data.plugin_name
    assert scalars == "scalars"
    values, status = hparams(events)
    assert status == 1  # STATUS_SUCCESS
    assert (values["method"], values["seed"]) == ("toy", 1)
    assert {name: values[f"method.{name}"] for name in PARAMETERS} == {"rate": 0.5, "deep": False, "sizes": "[16, 8]"}
    about = make_ndarray(events.Tensors("about")[0].tensor_proto).item().decode()
    assert "| fedrule.commit | 0123456789abcdef |" in about
    assert "| fedrule.version.python | 3.11.7 |" in about
    for name in ("json", "homes.parquet", "rules.parquet"):
        file = f"{result.key.hash}.{name}"
        assert (place / file).read_bytes() == (tmp_path / "results" / file).read_bytes()


def test_every_metric_of_the_summary_is_there(tmp_path):
    (result,) = keep(tmp_path / "results", "ease", 0.3, seeds=[0])
    send(tmp_path / "board", [result])
    found = [tag for tag in read(tmp_path / "board")[1].Tags()["tensors"] if tag.startswith("summary/")]
    assert len(found) == len(result.summary)


def test_sending_twice_changes_nothing(tmp_path):
    (result,) = keep(tmp_path / "results", "ease", 0.3, seeds=[0])
    send(tmp_path / "board", [result])
    before = {path: path.read_bytes() for path in (tmp_path / "board").rglob("*") if path.is_file()}
    assert send(tmp_path / "board", [result])[0].endswith("0 runs sent, 1 were there")
    assert {path: path.read_bytes() for path in (tmp_path / "board").rglob("*") if path.is_file()} == before


def test_a_failed_run_is_failed_until_it_succeeds(tmp_path):
    failed = keep_failure(tmp_path / "results", "ease", "Traceback\n  line\nMemoryError: no room\n")
    send(tmp_path / "board", [failed])
    place, events = read(tmp_path / "board")
    assert hparams(events)[1] == 2  # STATUS_FAILURE
    assert b"MemoryError: no room" in make_ndarray(events.Tensors("error")[0].tensor_proto).item()
    assert (place / f"{failed.key.hash}.failed.json").exists()
    (result,) = keep(tmp_path / "results", "ease", 0.3, seeds=[0])
    send(tmp_path / "board", [result])
    place, events = read(tmp_path / "board")  # the only one
    assert hparams(events)[1] == 1
    assert not (place / f"{failed.key.hash}.failed.json").exists()


def test_a_folder_that_cannot_be_made_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").touch()
    send(tmp_path / "file" / "board", keep(tmp_path / "results", "ease", 0.3))
    assert "2 runs not sent (NotADirectoryError" in caplog.text
