"""A whole federation on this machine, by real processes, and a comparison with the simulation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datasets.common.errors import DataError, counted
from datasets.common.files import Json
from datasets.homes import Homes
from fedrule.federated.array_file import AnyArray, read_arrays
from fedrule.flower import LIMIT, RESEND
from fedrule.flower.app_folder import AppFolder, AppOptions, check_new, write_app
from fedrule.flower.method import check_deployment, federated_method, method_text
from fedrule.flower.processes import Deployment
from fedrule.flower.server.folder import REMEDY, WEIGHTS, missing_of, rounds_of, status_of
from fedrule.flower.vocabulary import Vocabulary

log = logging.getLogger(__name__)

POLL = 0.5  # seconds between two looks at the files of the server
LOOKS = 60  # between two questions for the status of a run, which start a process

OnRecord = Callable[[Mapping[str, Json]], None]


@dataclass(frozen=True, slots=True)
class LocalRun:
    """Homes on nodes of this machine, in a folder."""

    folder: AppFolder
    homes: Homes
    method: str
    parameters: Mapping[str, object]
    nodes: int
    seed: int = 0

    @classmethod
    def prepare(
        cls,
        path: Path,
        homes: Homes,
        method: str,
        *,
        parameters: Mapping[str, object],
        nodes: int,
        seed: int = 0,
        limit: float = LIMIT,
        resend: float = RESEND,
    ) -> LocalRun:
        """Write the app and the homes of the nodes, as equal in number as can be, one run of homes after the other.

        Whatever cannot work is refused before anything is written.
        """
        built = federated_method(method_text(method, parameters))
        if not 1 <= nodes <= homes.n_homes:
            raise DataError(f"nodes must be 1 to {homes.n_homes}, the number of homes, got {nodes}")
        with_rules = np.bincount(homes.rules.home, minlength=homes.n_homes) > 0
        check_deployment(built, nodes, with_rules=with_rules)
        check_new(path)
        path = path.resolve()  # processes have other working folders
        options = AppOptions(
            method,
            parameters,
            nodes=nodes,
            seed=seed,
            server_folder=str(path / "server"),
            limit=limit,
            resend=resend,
        )
        folder = write_app(path, Vocabulary.of(homes), options)
        local = cls(folder, homes, method, parameters, nodes, seed)
        for node in range(nodes):
            first, end = local.bounds[node : node + 2]
            homes.subset(np.arange(first, end)).save(local.homes_file(node))
        return local

    @property
    def bounds(self) -> list[int]:
        """[nodes + 1]: where the homes of each node begin."""
        return [self.homes.n_homes * node // self.nodes for node in range(self.nodes + 1)]

    @property
    def server(self) -> Path:
        return self.folder.path / "server"

    def homes_file(self, node: int) -> Path:
        return self.folder.path / "homes" / f"node-{node}.parquet"

    def node_config(self, node: int) -> str:
        state = self.folder.path / "state" / f"node-{node}"
        return f'homes="{self.homes_file(node)}" state="{state}" first={self.bounds[node]}'

    def start(self, deployment: Deployment) -> int:
        """Start the server and all nodes and submit the app; Flower's number of the run."""
        deployment.start_server()
        log.info("the server listens on port %d of 127.0.0.1", deployment.port)
        for node in range(self.nodes):
            deployment.register(node)
            deployment.start_node(node, self.node_config(node))
        log.info("%s started; the run begins when all have joined", counted(self.nodes, "node"))
        return deployment.run()

    def wait(self, deployment: Deployment, run: int, *, on_record: OnRecord | None = None, seconds: float) -> None:
        """Wait until the run is over; an error where it failed, a process ended or it takes longer."""
        end, seen, looks, said = time.monotonic() + seconds, 0, 0, ""
        while time.monotonic() < end:
            status, records = status_of(self.server), rounds_of(self.server)
            if (text := status_text(status)) not in ("", said):
                log.info("%s", text)
                said = text
            for record in records[seen:]:
                if on_record is not None:
                    on_record(record)
            seen, looks = len(records), looks + 1
            if status.get("state") == "done":  # nodes have heard of it, and have deleted their secrets
                return
            if "error" in status:
                raise DataError(f"the run failed: {status['error']} (log: {deployment.log_file('server')})")
            deployment.check_running()
            if looks % LOOKS == 0:
                ended = deployment.status(run)
                if ended.startswith("finished") and not (self.server / WEIGHTS).exists():
                    where = deployment.write_log("run", deployment.flwr("log", str(run), "--show"))
                    raise DataError(f"the run ended without a model ({ended}); its log is {where}")
            time.sleep(POLL)
        raise DataError(f"no model after {seconds:g} seconds; see {deployment.log_file('server')}")

    def weights(self) -> dict[str, AnyArray]:
        """Of the model that the run has given."""
        _, arrays = read_arrays(self.server / WEIGHTS, what="model of a federation", remedy=REMEDY)
        return {name: array for name, array in arrays.items() if name != "valid.cell"}

    def simulated(self) -> dict[str, AnyArray]:
        """The model of the simulation, in which the same clients are missing."""
        method = federated_method(method_text(self.method, self.parameters))
        missing = missing_of(self.server)
        fitted = method.fit(self.homes, rng=np.random.default_rng(self.seed), missing=missing)
        return {name: value.numpy() for name, value in fitted.parameters.items()}

    def differences(self) -> int:
        """Numbers of the model that are not the simulation's, bit for bit."""
        found, expected = self.weights(), self.simulated()
        if found.keys() != expected.keys():
            return sum(array.size for array in expected.values())
        return sum(int((found[name].view(np.uint32) != expected[name].view(np.uint32)).sum()) for name in expected)


def status_text(status: Mapping[str, Json]) -> str:
    """What a server does, in words; empty where there is nothing to say."""
    if "wanted" not in status:
        return ""
    joined, wanted, refused = status["joined"], int(str(status["wanted"])), status.get("refused") or {}
    assert isinstance(joined, list)
    assert isinstance(refused, dict)
    reasons = "".join(f"; node {node} was refused: {reason}" for node, reason in refused.items())
    return f"{len(joined)} of {counted(wanted, 'node')} joined{reasons}"
