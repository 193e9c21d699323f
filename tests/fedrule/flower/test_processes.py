"""Server and nodes as real processes of Flower, with TLS and node keys: the simulation's model, whatever is killed.

They take minutes, most of it Flower's processes, of which every request starts one at every node: `tox -e flower`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="a deployment needs the extra flower, in an environment of its own: tox -e flower")
pytest.importorskip("torch", reason="the server needs the extra graph")

from datasets import load
from fedrule.federated.array_file import read_arrays
from fedrule.flower.certificates import make_node_key
from fedrule.flower.local_run import LocalRun
from fedrule.flower.processes import ACTIVATED, Deployment
from fedrule.flower.server.folder import missing_of, rounds_of, status_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

SECONDS = 3000.0  # a busy machine


@contextmanager
def deployed(
    path: Path, method: str, *, homes: int, nodes: int, rounds: int, resend: float = 120.0, **parameters: float
) -> Iterator[tuple[LocalRun, Deployment]]:
    data = load("wyze-synthetic", homes=homes)
    given = {"rounds": rounds, **parameters}
    local = LocalRun.prepare(
        path / "federation", data, method, parameters=given, nodes=nodes, limit=SECONDS, resend=resend
    )
    with Deployment(local.folder) as deployment:
        yield local, deployment


@pytest.mark.parametrize("method", ["fedgnn", "fedrule", "fedrank"])
def test_200_homes_on_4_nodes_give_the_model_of_the_simulation_after_10_rounds(method: str, tmp_path: Path) -> None:
    with deployed(tmp_path, method, homes=200, nodes=4, rounds=10) as (local, deployment):
        local.wait(deployment, local.start(deployment), seconds=SECONDS)
    assert local.differences() == 0
    assert missing_of(local.server) == {}
    records = rounds_of(local.server)
    assert [record["round"] for record in records] == [*range(1, 11)]
    for record in records:
        assert len(record["sent"]) == 4
        assert record["sent"] == record["predicted_sent"]
        assert record["received"] == record["predicted_received"]


def test_a_node_that_is_killed_in_mid_round_and_started_again_changes_no_bit(tmp_path: Path) -> None:
    with deployed(tmp_path, "fedrule", homes=20, nodes=2, rounds=4, resend=20.0) as (local, deployment):
        run = local.start(deployment)
        wait_until(lambda: len(rounds_of(local.server)) >= 1, "the first round", seconds=SECONDS)
        # A process of the node that answers a request: it is killed with the request in hand.
        wait_until(lambda: bool(answering(deployment, "node-1")), "a request at the node", seconds=SECONDS)
        deployment.kill("node-1")
        deployment.restart_node(1, local.node_config(1))
        local.wait(deployment, run, seconds=SECONDS)
    assert missing_of(local.server) == {}  # it was asked again
    assert local.differences() == 0


def answering(deployment: Deployment, name: str) -> list[int]:
    """Processes that answer a request at a node."""
    found = []
    for pid in deployment._marked(name):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"flwr-clientapp" in command:
            found.append(pid)
    return found


def test_a_server_that_is_killed_resumes_with_the_same_bits(tmp_path: Path) -> None:
    with deployed(tmp_path, "fedrule", homes=20, nodes=2, rounds=5) as (local, deployment):
        local.start(deployment)
        wait_until(lambda: len(rounds_of(local.server)) >= 2, "the second round", seconds=SECONDS)
        deployment.kill("server")
        done = len(rounds_of(local.server))
        assert done < 5
        deployment.start_server()
        local.wait(deployment, deployment.run(), seconds=SECONDS)
    assert local.differences() == 0
    rounds = [record["round"] for record in rounds_of(local.server)]
    assert sorted(set(rounds)) == [1, 2, 3, 4, 5]
    assert len(rounds) <= 6  # one of them may be done again
    assert rounds[done] in (done, done + 1)  # the round after the last checkpoint, not the first one


def test_nodes_with_an_unknown_key_without_a_key_or_in_plain_text_are_refused(tmp_path: Path) -> None:
    with deployed(tmp_path, "fedgnn", homes=4, nodes=2, rounds=1) as (local, deployment):
        deployment.start_server()
        deployment.register(0)
        make_node_key(tmp_path / "stranger")
        authority = ("--root-certificates", str(local.folder.tls.authority))
        cases = {
            10: (*authority, "--auth-supernode-private-key", str(tmp_path / "stranger")),
            11: authority,
            12: ("--insecure", "--max-retries", "2"),
        }
        for node, arguments in cases.items():
            deployment.start_node(node, local.node_config(1), arguments=arguments)
        deployment.start_node(0, local.node_config(0))
        wait_until(lambda: ACTIVATED in deployment.log_of("server"), "the node with its key", seconds=SECONDS)
        for node in cases:
            process = deployment.processes[f"node-{node}"]
            wait_until(lambda process=process: process.poll() is not None, f"node {node} to give up", seconds=300)
            assert process.returncode != 0, deployment.log_of(f"node-{node}")
        assert deployment.log_of("server").count(ACTIVATED) == 1  # of the one with a registered key
        assert deployment.processes["node-0"].poll() is None


def test_ctrl_c_stops_every_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fedrule", "deploy", "simulate", "--data", "wyze-synthetic:homes=4"]
    more = ["--nodes", "2", "--method", "fedgnn", "--rounds", "50", "--folder", str(tmp_path / "federation")]
    environment = {**os.environ, "FEDRULE_TEST": str(tmp_path)}
    process = subprocess.Popen([*command, *more], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(
            lambda: bool([*(tmp_path / "federation/logs").glob("node-1.log")]), "the nodes to start", seconds=SECONDS
        )
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Stopped." in said
    assert [pid for pid in marked_by(f"FEDRULE_TEST={tmp_path}") if pid != os.getpid()] == []


def marked_by(variable: str) -> list[int]:
    """Processes with this in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if variable.encode() in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_node_of_a_deployment_is_light_before_it_trains(tmp_path: Path) -> None:
    with deployed(tmp_path, "fedrank", homes=16, nodes=8, rounds=2) as (local, deployment):
        local.wait(deployment, local.start(deployment), seconds=SECONDS)
    assert missing_of(local.server) == {}
    assert local.differences() == 0
    megabytes = [ready[1] for record in rounds_of(local.server) for ready in record["ready"].values()]
    assert len(megabytes) == 16
    assert max(megabytes) <= 250
    assert np.isfinite([record["loss"] for record in rounds_of(local.server)]).all()


def test_three_nodes_train_with_secure_sums_and_their_own_noise(tmp_path: Path) -> None:
    private = {"epsilon": 8.0, "clip": 0.1, "cohort": 40, "secure_threshold": 0.6}
    with deployed(tmp_path, "fedrank", homes=60, nodes=3, rounds=2, **private) as (local, deployment):
        local.wait(deployment, local.start(deployment), seconds=SECONDS)
        wait_until(
            lambda: status_of(local.server)["state"] == "done", "nodes to hear that the run is over", seconds=SECONDS
        )
    assert missing_of(local.server) == {}
    records = rounds_of(local.server)
    assert [record["round"] for record in records] == [1, 2]
    assert 0 < records[0]["epsilon"] < records[1]["epsilon"] <= 8
    assert not {"clients", "refused", "loss"} & records[0].keys()
    assert all(np.isfinite(weights).all() for weights in local.weights().values())
    for node in range(3):
        (sums,) = (local.folder.path / "state" / f"node-{node}").glob("*.sums")
        assert {*read_arrays(sums, what="sums", remedy="")[0]["sums"]} == {"rules", "counts", "round 0", "round 1"}
        assert not [*sums.parent.glob("*.noisy*"), *sums.parent.glob("*.secure")]
