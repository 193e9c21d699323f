"""`python -m fedrule deploy`: a federation by Flower, written to a folder or run on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from datasets.common.cli import add_import, count, import_all, say
from datasets.common.errors import DataError, counted, install_hint
from datasets.common.files import Json
from datasets.common.options import read_assignments
from datasets.common.progress import progress
from fedrule.commands import HOMES_HELP, HOMES_METAVAR, load_homes
from fedrule.flower import DAYS, PORT

if TYPE_CHECKING:
    from datasets.homes import Homes
    from fedrule.methods.federated import Federated

log = logging.getLogger(__name__)

ROUNDS = 3  # of `simulate`, unless given


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    init = actions.add_parser(
        "init", help="write a Flower app with certificates, keys and instructions to a new folder"
    )
    init.add_argument("folder", type=Path, metavar="FOLDER", help="the folder to write; it must be new or empty")
    init.add_argument("--host", action="append", default=[], help="name or address of the server; may be repeated")
    init.add_argument("--port", type=count, default=PORT, help="port of the server (default: %(default)s)")
    about = "days that the certificates are valid (default: %(default)s)"
    init.add_argument("--days", type=count, default=DAYS, metavar="N", help=about)
    simulate = actions.add_parser("simulate", help="run a server and nodes as processes on this machine")
    about = "compare the model with that of the simulation, bit for bit; not for private runs, which have secret seeds"
    simulate.add_argument("--compare", action="store_true", help=about)
    about = "keep all files here; default: a temporary folder"
    simulate.add_argument("--folder", type=Path, metavar="FOLDER", help=about)
    simulate.add_argument("--rounds", type=count, metavar="N", help=f"rounds (default: {ROUNDS})")
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
    """Write a folder, or run a federation."""
    import_all(chosen.modules)
    return _init(chosen) if chosen.action == "init" else _simulate(chosen)


def _require(packages: Sequence[str], *, action: str) -> None:
    """Refuse at once where a package of Flower's environment is missing."""
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        raise DataError(f"deploy {action} needs {missing[0]}; install {install_hint('flower')}")


def _method(chosen: argparse.Namespace, **more: object) -> tuple[dict[str, object], Federated]:
    """Options of the method, and the method, checked as the server and the nodes will check it."""
    from fedrule.flower.method import check_deployment, federated_class, federated_method, method_text

    given: dict[str, object] = read_assignments(federated_class(chosen.method), chosen.options, where=chosen.method)
    given = {**more, **given}
    method = federated_method(method_text(chosen.method, given))
    check_deployment(method, chosen.nodes)
    return given, method


def _init(chosen: argparse.Namespace) -> int:
    _require(("cryptography",), action="init")
    parameters, method = _method(chosen)
    from fedrule.flower.app_folder import HOSTS, AppOptions, check_new, write_app
    from fedrule.flower.vocabulary import Vocabulary

    options = AppOptions(
        chosen.method,
        parameters,
        nodes=chosen.nodes,
        seed=chosen.seed,
        hosts=tuple(chosen.host) or HOSTS,
        port=chosen.port,
        days=chosen.days,
    )
    check_new(chosen.folder)
    homes = load_homes(chosen.data)
    write_app(chosen.folder, Vocabulary.of(homes), options)
    nodes = counted(chosen.nodes, "node")
    say(f"{chosen.folder}: an app for {nodes} with the vocabulary of {homes.name}; read README.md there")
    if not method.secure_threshold and not method.privacy.noisy:
        log.warning(
            "nothing hides homes from the server in this run: it sees every node's own sums, from which rules can be "
            "read. With 3 nodes or more: --set secure_threshold=0.67; and noise: --set epsilon=2 --set clip=0.1 "
            "(docs/privacy.md)"
        )
    return 0


def _simulate(chosen: argparse.Namespace) -> int:
    _require(("cryptography", "flwr"), action="simulate")
    from fedrule.flower.app_folder import check_new
    from fedrule.flower.processes import check_installed

    check_installed()
    if chosen.rounds is not None and any(option.partition("=")[0] == "rounds" for option in chosen.options):
        raise DataError("give --rounds or --set rounds=N, not both")
    parameters, method = _method(chosen, rounds=chosen.rounds or ROUNDS)
    if method.privacy.noisy and chosen.compare:
        raise DataError(
            "--compare: a private run cannot be computed again, its noise and cohorts are secret; leave out --compare, "
            "or epsilon and noise_multiplier"
        )
    if chosen.folder is not None:
        check_new(chosen.folder)
    homes = load_homes(chosen.data)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: all processes are stopped
    if chosen.folder is not None:
        return _run_locally(chosen, parameters, homes, chosen.folder)
    with tempfile.TemporaryDirectory(prefix="fedrule-deploy-") as folder:
        return _run_locally(chosen, parameters, homes, Path(folder) / "federation")


def _run_locally(chosen: argparse.Namespace, parameters: Mapping[str, object], homes: Homes, folder: Path) -> int:
    from fedrule.flower.local_run import LocalRun
    from fedrule.flower.processes import Deployment

    begin, rounds = time.monotonic(), int(str(parameters["rounds"]))
    local = LocalRun.prepare(folder, homes, chosen.method, parameters=parameters, nodes=chosen.nodes, seed=chosen.seed)
    lines = not chosen.quiet and not sys.stderr.isatty()  # in place of a progress bar
    logging.getLogger("fedrule.flower").setLevel(logging.WARNING if chosen.quiet else logging.INFO)
    records: list[Mapping[str, Json]] = []
    with Deployment(local.folder) as deployment, progress(rounds, "round", quiet=chosen.quiet) as bar:

        def on_record(record: Mapping[str, Json]) -> None:
            records.append(record)
            bar.note(_note(record))
            bar.step()
            if lines:
                log.info("round %s of %d: %s", record["round"], rounds, _note(record))

        if not chosen.quiet:
            log.info("%s on %s: server and nodes start, with TLS and keys", *_sizes(homes, chosen.nodes))
        local.wait(deployment, local.start(deployment), on_record=on_record, seconds=chosen.seconds)
    say(f"{chosen.method}: {counted(rounds, 'round')} in {time.monotonic() - begin:.0f} s")
    say(_traffic(records))
    if chosen.folder is not None:
        say(f"the model is {folder / 'server' / 'model.safetensors'}")
    if chosen.compare:
        different = local.differences()
        size = sum(array.size for array in local.weights().values())
        if different:
            raise DataError(f"{different} of {size} numbers of the model differ from those of the simulation")
        say(f"all {size} numbers of the model are those of the simulation, bit for bit")
    return 0


def _sizes(homes: Homes, nodes: int) -> tuple[str, str]:
    return counted(len(homes), "home"), counted(nodes, "node")


def _note(record: Mapping[str, Json]) -> str:
    name = "epsilon" if "epsilon" in record else "loss"
    value = record.get(name)
    missing = record["missing"]
    dropped = f", {counted(len(missing), 'home')} missing" if isinstance(missing, list) and missing else ""
    server = record.get("epsilon_server")
    to_server = f" ({server:.1f} to the server, which knows who took part)" if isinstance(server, float) else ""
    delta = record.get("delta")
    at = f" at delta {delta:.2g}" if isinstance(delta, float) else ""
    return (f"{name} {value:.4f}" if isinstance(value, float) else f"no {name}") + at + to_server + dropped


def _traffic(records: Sequence[Mapping[str, Json]]) -> str:
    """Bytes of the payload of a node in a round, as measured and as layout and rows predict them."""
    parts = []
    for what in ("sent", "received"):
        found, expected = (
            [value for record in records for value in _values(record[name])] for name in (what, f"predicted_{what}")
        )
        if not found:
            continue
        about = f" ({sum(expected) / len(expected) / 1e3:.1f} kB predicted)" if expected else ""
        parts.append(f"{what} {sum(found) / len(found) / 1e3:.1f} kB{about}")
    return f"a node in a round: {', '.join(parts) or 'nothing was sent'}"


def _values(by_node: Json) -> list[float]:
    values = by_node.values() if isinstance(by_node, dict) else ()
    return [float(value) for value in values if isinstance(value, int | float)]
