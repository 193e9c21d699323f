"""`python -m fedrule deploy`: a federation by Flower, written to a folder or tried on this machine."""

from __future__ import annotations

import argparse
import logging
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.common.cli import add_import, count, import_all, say
from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.common.options import read_assignments
from datasets.common.progress import progress
from fedrule.commands import HOMES_HELP, HOMES_METAVAR, load_homes

if TYPE_CHECKING:
    from datasets.homes import Homes

log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    init = actions.add_parser(
        "init", help="write a Flower app with certificates, keys and instructions to a new folder"
    )
    init.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to write; it must be new or empty")
    init.add_argument("--host", action="append", default=[], help="name or address of the server; may be repeated")
    init.add_argument("--port", type=count, default=8123, help="port of the server (default: %(default)s)")
    about = "days that the certificates are valid (default: %(default)s)"
    init.add_argument("--days", type=count, default=30, metavar="N", help=about)
    simulate = actions.add_parser("simulate", help="run a server and nodes as processes on this machine, for a try")
    about = "compare the model with that of the simulation, bit for bit"
    simulate.add_argument("--compare", action="store_true", help=about)
    about = "keep all files here; default: a temporary folder"
    simulate.add_argument("--folder", type=Path, metavar="FOLDER", help=about)
    simulate.add_argument("--rounds", type=count, default=3, metavar="N", help="rounds (default: %(default)s)")
    about = "stop a run that takes longer (default: %(default)s)"
    simulate.add_argument("--seconds", type=count, default=1800, metavar="N", help=about)
    simulate.add_argument("--quiet", action="store_true", help="no progress")
    for action, nodes in ((init, 2), (simulate, 4)):
        data = "wyze-synthetic:homes=200"
        action.add_argument("--data", default=data, metavar=HOMES_METAVAR, help=f"{HOMES_HELP} (default: {data})")
        action.add_argument("--nodes", type=count, default=nodes, metavar="N", help="nodes (default: %(default)s)")
        action.add_argument("--method", default="fedrank", metavar="NAME", help="method (default: %(default)s)")
        about = "an option of the method"
        action.add_argument("--set", dest="options", action="append", default=[], metavar="KEY=VALUE", help=about)
        action.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
        add_import(action)


def run(chosen: argparse.Namespace) -> int:
    """Write a folder, or try a federation."""
    import_all(chosen.modules)
    return _init(chosen) if chosen.action == "init" else _simulate(chosen)


def _parameters(chosen: argparse.Namespace) -> dict[str, object]:
    """Options of the method, checked as the nodes will check them."""
    from fedrule.flower.node import check_nodes, federated_class, federated_method, method_text

    given: dict[str, object] = read_assignments(federated_class(chosen.method), chosen.options, where=chosen.method)
    method = federated_method(method_text(chosen.method, given))
    check_nodes(method, chosen.nodes)
    if method.privacy.noisy and getattr(chosen, "compare", False):
        raise DataError(
            "--compare: a private run cannot be computed again, its noise and cohorts are secret; leave out --compare, "
            "or epsilon and noise_multiplier"
        )
    return given


def _init(chosen: argparse.Namespace) -> int:
    parameters = _parameters(chosen)
    from fedrule.flower.app_folder import AppOptions, write_app
    from fedrule.flower.vocabulary import Vocabulary

    options = AppOptions(
        chosen.method,
        parameters,
        nodes=chosen.nodes,
        seed=chosen.seed,
        hosts=tuple(chosen.host) or ("localhost", "127.0.0.1"),
        port=chosen.port,
        days=chosen.days,
    )
    homes = load_homes(chosen.data)
    write_app(chosen.folder, Vocabulary.of(homes), options)
    say(f"{chosen.folder}: an app for {chosen.nodes} nodes with the vocabulary of {homes.name}; read README.md there")
    return 0


def _simulate(chosen: argparse.Namespace) -> int:
    parameters = {**_parameters(chosen), "rounds": chosen.rounds}
    homes = load_homes(chosen.data)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: all processes are stopped
    if chosen.folder is not None:
        return _try(chosen, parameters, homes, chosen.folder)
    with tempfile.TemporaryDirectory(prefix="fedrule-deploy-") as folder:
        return _try(chosen, parameters, homes, Path(folder) / "federation")


def _try(chosen: argparse.Namespace, parameters: Mapping[str, object], homes: Homes, folder: Path) -> int:
    from fedrule.flower.processes import Deployment
    from fedrule.flower.trial import Trial

    begin = time.monotonic()
    trial = Trial.prepare(folder, homes, chosen.method, parameters=parameters, nodes=chosen.nodes, seed=chosen.seed)
    with Deployment(trial.folder) as deployment, progress(chosen.rounds, "round", quiet=chosen.quiet) as bar:
        log.info(
            "%d homes on %d nodes: server and nodes start on 127.0.0.1, with TLS and keys", len(homes), chosen.nodes
        )
        number = trial.start(deployment)

        def on_record(record: Mapping[str, Json]) -> None:
            bar.note(f"epsilon {record['epsilon']}" if "epsilon" in record else f"loss {record.get('loss')}")
            bar.step()

        trial.wait(deployment, number, on_record=on_record, seconds=chosen.seconds)
    say(f"{chosen.method}: {chosen.rounds} rounds in {time.monotonic() - begin:.0f} s")
    if chosen.compare:
        different = trial.differences()
        size = sum(array.size for array in trial.weights().values())
        if different:
            raise DataError(f"{different} of {size} numbers of the model differ from those of the simulation")
        say(f"all {size} numbers of the model are those of the simulation, bit for bit")
    return 0
