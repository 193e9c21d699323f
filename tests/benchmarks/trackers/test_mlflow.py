"""Runs read back from MLflow's own stores, a database and a folder, and a server that does not answer."""

from __future__ import annotations

import math
import shutil
import socket

import pytest

from benchmarks.results.store import load_results
from benchmarks.trackers.tracking import Tracking
from datasets.common.errors import DataError
from tests.support.made_runs import keep, keep_failure, rounds

mlflow = pytest.importorskip("mlflow", reason="the tracker needs the extra track")
ViewType = pytest.importorskip("mlflow.entities").ViewType
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A database without runs: MLflow takes seconds to make its tables."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    mlflow.MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture(params=["sqlite", "folder"])
def uri(request, tables, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    if request.param == "folder":
        return str(tmp_path / "mlruns")
    return f"sqlite:///{shutil.copy(tables, tmp_path)}"


def send(uri, results):
    return Tracking([f"mlflow:{uri}"], "results").finish(results)


def runs(uri, view=ViewType.ACTIVE_ONLY):
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("fedrule")
    return client, list(client.search_runs([experiment.experiment_id], run_view_type=view))


def test_a_run_has_its_parameters_metrics_curves_and_files(uri, tmp_path):
    history = rounds(3, first={"loss": 0.5})
    summary = {"hr@10, all": 0.25, "devices >20: mrr": math.nan, "unseen": 4.0, "unseen: mrr": 0.125}
    (result,) = keep(tmp_path / "results", "ease", 0.3, seeds=[1], history=history, summary=summary)
    send(uri, [result])
    client, (run,) = runs(uri)
    assert (run.info.run_name, run.info.status) == (str(result.key), "FINISHED")
    assert (run.data.params["method"], run.data.params["seed"]) == ("ease", "1")
    assert {name.removeprefix("method."): value for name, value in run.data.params.items() if "method." in name} == {
        name: str(value) for name, value in result.key.parameters.items()
    }
    found = run.data.metrics
    assert (found["mrr"], found["hr_at_10.all"]) == (pytest.approx(0.3), 0.25)
    assert (found["unseen"], found["slices/unseen/mrr"]) == (4.0, 0.125)
    assert math.isnan(found["slices/devices_over_20/mrr"])
    own = {name for name in found if not name.startswith(("rounds/", "seconds/", "memory/", "counts/"))}
    assert len(own) == len(result.summary)
    clients = client.get_metric_history(run.info.run_id, "rounds/clients")
    assert [(each.step, each.value) for each in clients] == [(1, 40.0), (2, 40.0), (3, 40.0)]
    assert [each.step for each in client.get_metric_history(run.info.run_id, "mrr")] == [3]
    tags = run.data.tags
    assert (tags["fedrule.hash"], tags["fedrule.commit"]) == (result.key.hash, "0123456789abcdef")
    assert tags["fedrule.version.python"] == "3.11.7"
    for name in ("json", "homes.parquet", "rules.parquet"):
        file = f"{result.key.hash}.{name}"
        with open(client.download_artifacts(run.info.run_id, file, str(tmp_path)), "rb") as sent:  # noqa: PTH123
            assert sent.read() == (tmp_path / "results" / file).read_bytes()


def test_sending_twice_makes_no_duplicate(uri, tmp_path):
    results = keep(tmp_path / "results", "ease", 0.3)
    assert send(uri, results)[0].endswith("2 runs sent, 0 were there")
    assert send(uri, results)[0].endswith("0 runs sent, 2 were there")
    assert len(runs(uri)[1]) == 2


def test_a_result_that_another_process_has_sent_meanwhile_is_not_sent_again(uri, tmp_path):
    first, second = keep(tmp_path / "results", "ease", 0.3)
    ours = Tracking([f"mlflow:{uri}"], "results")
    ours.send(first)
    send(uri, [second])
    ours.send(second)
    assert len(runs(uri)[1]) == 2


def test_a_failed_run_is_failed_until_it_succeeds(uri, tmp_path):
    failed = keep_failure(tmp_path / "results", "ease", "Traceback\n  line\nMemoryError: no room\n")
    send(uri, [failed])
    client, (run,) = runs(uri)
    assert run.info.status == "FAILED"
    assert run.data.tags["fedrule.error"] == run.data.tags["mlflow.note.content"] == "MemoryError: no room"
    assert {each.path for each in client.list_artifacts(run.info.run_id)} == {
        "error.txt",
        f"{failed.key.hash}.failed.json",
    }
    (result,) = keep(tmp_path / "results", "ease", 0.3, seeds=[0])
    send(uri, [result])
    assert [each.info.status for each in runs(uri)[1]] == ["FINISHED"]
    assert len(runs(uri, ViewType.DELETED_ONLY)[1]) == 1


def test_a_run_that_was_cut_off_while_it_was_sent_is_replaced(uri, tmp_path, monkeypatch):
    (result,) = keep(tmp_path / "results", "ease", 0.3, seeds=[0])
    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "log_artifact", None)
        tracking = Tracking([f"mlflow:{uri}"], "results")
        tracking.finish([result])
    assert not tracking.complete
    send(uri, [result])
    (run,) = runs(uri)[1]
    assert run.info.status == "FINISHED"


def test_a_server_that_does_not_answer_loses_no_result(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as bound:  # a port that nobody listens at
        bound.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{bound.getsockname()[1]}"
        send(uri, keep(tmp_path, "ease", 0.3))
    assert len(load_results(tmp_path)) == 2
    refused = "2 runs not sent (Failed to establish a new connection: [Errno 111] Connection refused)"
    assert refused in caplog.records[-1].message
    assert f"python -m benchmarks track --to mlflow:{uri} --results results" in caplog.records[-1].message


def test_a_store_that_mlflow_does_not_know_is_an_error():
    with pytest.raises(DataError, match="mlflow:ftp://host: MLflow has no such store; write mlflow: and"):
        send("ftp://host", [])
