"""A node: answers the requests of the server for the homes that it holds, with the engine's own clients.

Every request may come to a new process, so that all that a node knows of a run lies in its folder
(`fedrule.flower.node_files`), and little is imported: methods with compiled trainers need no torch here.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import math
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from datasets.common.errors import DataError
from datasets.common.files import Json
from datasets.homes import Array, Homes
from datasets.valid import ValidRules
from fedrule.federated.cohort import Purpose
from fedrule.federated.private import normals_of
from fedrule.federated.rounds import Engine
from fedrule.federated.states import Broadcast, ClientStates
from fedrule.federated.trainers.trainer import Trainer
from fedrule.federated.vectors import FlatParameters
from fedrule.flower.messages import (
    AnyArray,
    Identity,
    Kind,
    Message,
    Refusal,
    check_clock,
    check_sender,
    pack_mask,
    pack_sums,
    refusal,
    unpack_mask,
)
from fedrule.flower.node_files import NodeFolder
from fedrule.flower.node_homes import Unknown, read_homes
from fedrule.flower.vocabulary import Vocabulary

if TYPE_CHECKING:
    from baselines.method import Method
    from fedrule.federated.secure.messages import Session
    from fedrule.methods.federated import Federated

log = logging.getLogger(__name__)

SESSION, ANSWER = "session", "answer."  # of secure sums
SETUP = "setup."  # how the names of arrays begin that are kept for all rounds
SECURE_NODES = 3  # of two in a sum each can take its own vector from it and see the other's
OWN_METHODS = ("fedrule.methods.federated", "fedrule.methods.fedrank")  # modules


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The node-config of a node: `flower-supernode --node-config 'homes="home.json" state="state/"'`."""

    homes: Path
    state: Path  # the folder that survives restarts
    first: int | None = None  # the number of its first home in the federation; None: the server chooses it
    unknown: Unknown = "refuse"  # names that the federation does not know; or ignore

    @classmethod
    def of(cls, config: Mapping[str, object]) -> NodeOptions:
        """From key-value pairs; those that Flower or somebody else needs are left alone."""
        for name in ("homes", "state"):
            if not isinstance(config.get(name), str):
                raise DataError(f'node-config: {name}="PATH" is missing; see docs/deployment.md')
        first, unknown = config.get("first"), config.get("unknown", "refuse")
        if first is not None and (not isinstance(first, int) or isinstance(first, bool) or first < 0):
            raise DataError(f"node-config: first must be a whole number from 0 on, got {first!r}")
        if unknown not in ("refuse", "ignore"):
            raise DataError(f'node-config: unknown must be "refuse" or "ignore", got {unknown!r}')
        homes, state = Path(str(config["homes"])), Path(str(config["state"]))
        return cls(homes, state, first, "refuse" if unknown == "refuse" else "ignore")


@dataclass(frozen=True, slots=True)
class Node:
    """Answers requests; all that it remembers is in its folder."""

    options: NodeOptions
    vocabulary: Vocabulary

    def answer(self, request: Message) -> Message:
        """The answer; a request that cannot be served is answered with the reason, which is logged here too."""
        try:
            check_sender(request, here="this node", there="the server", vocabulary=self.vocabulary.fingerprint)
            sent, limit = request.real("time"), request.real("limit")
            # A request arrives after it was sent, and within the time that the server waits for it.
            now = time.time()
            check_clock(now, earliest=sent, latest=sent + limit, whose="this node", tolerance=request.real("clock"))
            folder = NodeFolder(self.options.state)
            with folder.lock(seconds=limit):
                answers = {
                    Kind.JOIN: self._join,
                    Kind.RULES: self._rules,
                    Kind.COUNTS: self._counts,
                    Kind.ROUND: self._round,
                    Kind.END: self._end,
                    Kind.SECURE: self._secure,
                }
                if request.kind not in answers:
                    raise Refusal(f"this node does not know requests of kind {request.kind}; install a newer fedrule")
                check_protection(request)
                header, arrays = self._answered(request, folder) or answers[request.kind](request, folder)
        except DataError as error:
            log.error("request %s of the server is refused: %s", request.kind, error)
            return refusal(request, error)
        return Message(request.kind, identity(request).header(**header), arrays)

    def _join(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """How many homes there are, and which have rules; from here on they are those of the run."""
        run = request.text("run")
        homes = folder.homes(run)
        if homes is None:
            homes = read_homes(self.options.homes, self.vocabulary, if_unknown=self.options.unknown)
            if not homes.n_homes:
                raise DataError(f"{self.options.homes}: no home in it; a node holds at least one")
            folder.save_homes(run, homes)
        header: dict[str, Json] = {"node": folder.name, "homes": homes.n_homes, "first": self.options.first}
        return header, {"with_rules": pack_mask(_rule_counts(homes) > 0)}

    def _rules(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """In how many homes each typed rule occurs, and in how many a device acts on itself."""
        homes = self._homes(request, folder)
        if request.header.get("private"):
            from fedrule.evidence import private_statistics  # of private runs only

            return {}, {"sum": private_statistics.sum_of_rules(homes)}
        trigger_type, relation, action_type = homes.typed()
        n_types, n_relations = len(homes.types), len(homes.relations)
        cell = (trigger_type * n_types + action_type) * n_relations + relation
        each = np.unique(cell * homes.n_homes + homes.rules.home) // homes.n_homes  # once for each home
        cells, count = np.unique(each, return_counts=True)
        selves = len(np.unique(homes.rules.home[homes.rules.trigger == homes.rules.action]))
        if SESSION in request.arrays:
            vector = np.zeros(n_types**2 * n_relations + 1, dtype=np.int64)
            vector[cells], vector[-1] = count, selves
            return self._advertise(request, folder, vector, {}, {})
        return {"self_rules": selves}, {"cell": cells, "count": count.astype(np.int32)}

    def _counts(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """What else is counted over homes."""
        from fedrule.evidence.statistics import Statistics  # of methods that count homes

        homes, all_patterns = self._homes(request, folder), bool(request.value("all_patterns"))
        valid = valid_rules(self.vocabulary, request.array("cell"))
        if request.header.get("private"):
            from fedrule.evidence.private_statistics import BoundedSums

            return {}, {**BoundedSums.of(homes, valid, all_patterns=all_patterns, always_rooms=True).parts}
        counts = Statistics.of(homes, valid, all_patterns=all_patterns)
        if SESSION in request.arrays:
            return self._advertise(request, folder, counts.integers(), {}, {})
        arrays = counts.arrays(all_patterns=all_patterns)
        return {}, {name: array.astype(np.int32) for name, array in arrays.items()}

    def _round(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """Train those of the node's clients that are in the cohort; their states are pending until the next request."""
        run, homes = request.text("run"), self._homes(request, folder)
        if request.header.get("setup") is not None:
            self._keep_setup(request, folder)
        engine, trainer = self._trainer(request, folder, homes)
        earlier = self._noisy_before(request, folder) if engine.privacy.noisy and SESSION in request.arrays else None
        ready: list[Json] = [round(time.process_time(), 3), _peak_megabytes()]
        last = request.array("last").astype(np.int64)
        initial = ClientStates.initial(trainer.rule_counts, trainer.layout, engine.hyperparameters)
        current = folder.states(run, initial, last)
        broadcast = Broadcast(
            request.number("round"),
            request.array("model"),
            request.array("shared"),
            request.array("shared_round").astype(np.int64),
        )
        if broadcast.model.shape != (trainer.layout.size,):
            raise Refusal(f"a model of {broadcast.model.size} numbers, this run has {trainer.layout.size}")
        present = np.flatnonzero(unpack_mask(request.array("cohort"), homes.n_homes))
        faulty = unpack_mask(request.array("faulty"), homes.n_homes)[present]
        trained = engine.train_clients(trainer, current.copy(), broadcast, present, faulty=faulty)
        folder.save_states(run, current, trained.states)
        counted = np.zeros(homes.n_homes, dtype=bool)
        counted[trained.counted] = True
        about: dict[str, Json] = {"corrupted": trained.corrupted, "ready": ready}
        about["seconds"] = round(time.process_time(), 3)
        if SESSION in request.arrays:
            sums, n_clients = trained.sums, request.number("n_clients")
            if earlier is not None:
                return self._advertise(request, folder, earlier, about, {"counted": pack_mask(counted)})
            if engine.privacy.noisy:  # nobody adds all of the noise: each node a share of it
                update = engine.privacy.noisy_part(
                    sums.update,
                    n_clients=n_clients,
                    sampling_rate=engine.cohorts.fraction(n_clients),
                    threshold=session_of(request).threshold,
                    normals=normals_of(None, Purpose.ROUNDS),
                )
                sums = replace(sums, update=update)
                key, number = round_key(request), request.number("round")
                folder.write(run, "noisy", {"vector": sums.integers()}, key=key, round=number)
            return self._advertise(request, folder, sums.integers(), about, {"counted": pack_mask(counted)})
        header, arrays = pack_sums(trained.sums, trainer.layout)
        return {**header, **about}, {**arrays, "counted": pack_mask(counted)}

    @staticmethod
    def _noisy_before(request: Message, folder: NodeFolder) -> Array | None:
        """The noisy sum that this node gave in the same round before, e.g. to a server that has crashed since.

        Fresh noise on the same sum would be a second release, which is not in the account. So would be the sum of
        another cohort or model in a round that is over: it is refused.
        """
        found = folder.read(request.text("run"), "noisy")
        if found is None:
            return None
        about, arrays = found
        if about["key"] == round_key(request):
            return arrays["vector"]
        if request.number("round") <= int(str(about["round"])):
            raise Refusal(
                f"this node has given its noisy sum of round {int(str(about['round'])) + 1}, and is asked for another "
                f"one of round {request.number('round') + 1}, which is not in the account of what it discloses; "
                "restore the server's folder from its last state, or start a new run"
            )
        return None

    def _end(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """The states after the last round."""
        run, homes = request.text("run"), self._homes(request, folder)
        engine, trainer = self._trainer(request, folder, homes)
        initial = ClientStates.initial(trainer.rule_counts, trainer.layout, engine.hyperparameters)
        folder.save_states(run, folder.states(run, initial, request.array("last").astype(np.int64)), None)
        return {}, {}

    def _answered(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]] | None:
        """The answer that was given to a step of a secure sum before, where the request comes again.

        Keys drawn anew, or a vector masked twice, would spoil the sum or give something away. So a step before the last
        one of the same sum, whose request was under way for long, is refused.
        """
        if SESSION not in request.arrays:
            return None
        found = folder.read(request.text("run"), "secure")
        if found is None:
            return None
        session, step = request.array(SESSION).tobytes().hex(), request.number("step")
        last_session, last_step = cast("tuple[str, int]", found[0]["step"])
        if session != last_session or step > last_step:
            return None
        if step < last_step:
            raise Refusal(f"step {step} of a secure sum came after step {last_step}; each is taken once, in order")
        about, arrays = found
        answer = {name.removeprefix(ANSWER): a for name, a in arrays.items() if name.startswith(ANSWER)}
        return dict(about["header"]), answer  # type: ignore[call-overload]

    def _advertise(
        self,
        request: Message,
        folder: NodeFolder,
        vector: Array,
        header: dict[str, Json],
        arrays: dict[str, AnyArray],
    ) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """The first step of a secure sum of `vector`, which stays here; header and arrays are no secrets."""
        return self._take_step(request, folder, 1, stored=b"", vector=vector, header=header, arrays=arrays)

    def _secure(self, request: Message, folder: NodeFolder) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """A further step of a secure sum."""
        found = folder.read(request.text("run"), "secure")
        if found is None:
            raise Refusal("this node has no secrets of this sum; its folder is new")
        stored, vector = found[1]["secrets"].tobytes(), found[1]["vector"]
        step = request.number("step")
        return self._take_step(request, folder, step, stored=stored, vector=vector, header={}, arrays={})

    def _take_step(
        self,
        request: Message,
        folder: NodeFolder,
        step: int,
        *,
        stored: bytes,
        vector: Array,
        header: dict[str, Json],
        arrays: dict[str, AnyArray],
    ) -> tuple[dict[str, Json], dict[str, AnyArray]]:
        """Take a step and write its secrets, and the answer, before it is sent."""
        from fedrule.federated.secure.messages import Step
        from fedrule.federated.secure_sum import answer  # brings the extra secure

        message = request.array("message").tobytes()
        secrets, reply = answer(message, request.number("participant"), step=Step(step), stored=stored, vector=vector)
        answers = {**arrays, "message": np.frombuffer(reply, dtype=np.uint8)}
        kept = {f"{ANSWER}{name}": array for name, array in answers.items()}
        kept |= {"secrets": np.frombuffer(secrets, dtype=np.uint8), "vector": vector}
        place = [request.array(SESSION).tobytes().hex(), step]
        folder.write(request.text("run"), "secure", kept, step=place, header=header)
        return header, answers

    @staticmethod
    def _keep_setup(request: Message, folder: NodeFolder) -> None:
        """Keep what all clients have to know, which the first request of a round brings."""
        setup = request.value("setup")
        if not isinstance(setup, dict):
            raise Refusal("the setup of this run is no object; the server has another version of fedrule")
        arrays = {name.removeprefix(SETUP): a for name, a in request.arrays.items() if name.startswith(SETUP)}
        folder.write(request.text("run"), "setup", arrays, method=request.text("method"), **setup)

    def _homes(self, request: Message, folder: NodeFolder) -> Homes:
        homes = folder.homes(request.text("run"))
        if homes is None:
            raise Refusal("this node has not joined the run; its folder is new", needs=Kind.JOIN)
        return homes

    def _trainer(self, request: Message, folder: NodeFolder, homes: Homes) -> tuple[Engine, Trainer]:
        from fedrule.methods.federated import trainer_of

        found = folder.read(request.text("run"), "setup")
        if found is None:
            raise Refusal("this node was not sent the setup of the run; its folder is new", needs=Kind.ROUND)
        about, arrays = found
        if about["method"] != request.text("method"):
            raise Refusal("the setup of this node is of other parameters; they may not change during a run")
        method, first = federated_method(str(about["method"])), int(str(about["first"]))
        valid = valid_rules(self.vocabulary, arrays.pop("cell"))
        counts = None
        if method.counts_homes:
            from fedrule.evidence.statistics import Statistics  # of methods that count homes

            names = self.vocabulary.types, self.vocabulary.relations
            nobody = Statistics.of_nobody(*names, valid, all_patterns=method.evidence > 0)
            counts = nobody.with_arrays({name: array.astype(np.int64) for name, array in arrays.items()})
            counts = replace(counts, noisy=method.privacy.noisy)
        task = method.local_training(
            method.scorer(valid, counts),
            layout_of(about["layout"]),
            int(str(about["seed"])),
            self_pairs=bool(about["self_pairs"]),
        )
        return method.engine(), trainer_of(method.trained_on(homes, valid), task, first + np.arange(homes.n_homes))


def identity(message: Message) -> Identity:
    """What an answer has in common with its request."""
    return Identity(message.text("run"), message.text("vocabulary"), message.text("method"))


def federated_method(text: str) -> Federated:
    """The method that a text of `method_text` describes."""
    from baselines.registry import build

    content = json.loads(text)
    federated_class(content["name"])
    method = cast("Federated", build(content["name"], **content["parameters"]))
    method.refuse_deployment()
    if method.validation:
        raise DataError(
            f"{method.NAME}: validation {method.validation} needs rules that no home may show; set it to 0 and choose "
            "the number of rounds in a simulation"
        )
    return method


def check_protection(request: Message) -> None:
    """Refuse to give away more than the method of the run says, whatever the request asks for."""
    if request.kind not in (Kind.RULES, Kind.COUNTS, Kind.ROUND):
        return
    method = federated_method(request.text("method"))
    if method.privacy.noisy and request.kind != Kind.ROUND and not request.header.get("private"):
        raise Refusal("the method of this run promises noise, but exact counts are asked for; nothing is sent")
    if method.secure_threshold > 0:
        if SESSION not in request.arrays:
            raise Refusal("the method of this run promises secure sums, but a plain sum is asked for; nothing is sent")
        session = session_of(request)
        if session.threshold < (needed := threshold_of_nodes(method, len(session.members))):
            raise Refusal(
                f"a secure sum of {len(session.members)} nodes with a threshold of {session.threshold}, the method of "
                f"this run promises {needed}; nothing is sent"
            )


def round_key(request: Message) -> str:
    """What the sum of a node in a round depends on, as one text."""
    state = hashlib.sha256(str(request.number("round")).encode())
    for name in ("model", "cohort", "last"):
        state.update(np.ascontiguousarray(request.array(name)).tobytes())
    return state.hexdigest()


def session_of(request: Message) -> Session:
    """Of the first step of a secure sum: what the node takes part in, which is not always what a header says."""
    from fedrule.federated.secure.messages import Session  # brings the extra secure

    session = Session.from_bytes(request.array("message").tobytes())
    if session.digest != request.array(SESSION).tobytes():
        raise Refusal("a secure sum whose session is not the one in its message; the server mixes up two sums")
    return session


def check_nodes(method: Federated, nodes: int) -> None:
    """Refuse secure sums of so few nodes that they hide nobody."""
    if method.secure_threshold > 0 and nodes < SECURE_NODES:
        raise DataError(
            f"secure sums need at least {SECURE_NODES} nodes, got {nodes}: of two nodes each can take its own vector "
            "from the sum and see the other's; set nodes, or secure_threshold to 0"
        )


def threshold_of_nodes(method: Federated, n: int) -> int:
    """How many of n nodes a secure sum needs at least."""
    return max(SECURE_NODES, method.engine().secure_threshold_of(n))


def federated_class(name: str) -> type[Method]:
    """The class of a federated method."""
    for module in OWN_METHODS:  # imported by name: a node need not have all packages of the extra that they belong to
        importlib.import_module(module)
    from baselines.registry import get
    from fedrule.methods.federated import Federated

    found = get(name)
    if not issubclass(found, Federated):
        raise DataError(f"{name} is not trained in the homes; deploy a federated method: fedrank, fedgnn, fedrule, ...")
    return found


def method_text(name: str, parameters: Mapping[str, object]) -> str:
    """A method and what is given of its parameters, as one text that says whether two are equal."""
    return json.dumps({"name": name, "parameters": dict(parameters)}, sort_keys=True, allow_nan=False)


def layout_text(layout: FlatParameters) -> Json:
    return {
        "names": [*layout.names],
        "shapes": [[*shape] for shape in layout.shapes],
        "n_theta": layout.n_theta,
        "n_rows": layout.n_rows,
        "row_length": layout.row_length,
    }


def layout_of(content: object) -> FlatParameters:
    """The layout of `layout_text`."""
    if not isinstance(content, dict):
        raise Refusal("the setup of this run has no layout; the server has another version of fedrule")
    shapes = tuple(tuple(map(int, shape)) for shape in content["shapes"])
    numbers = (int(content[name]) for name in ("n_theta", "n_rows", "row_length"))
    layout = FlatParameters(tuple(map(str, content["names"])), shapes, *numbers)
    if any(math.prod(shape) < 0 for shape in shapes) or layout.size < 1:
        raise Refusal("the setup of this run has a layout without parameters")
    return layout


def valid_rules(vocabulary: Vocabulary, cell: AnyArray) -> ValidRules:
    return ValidRules.of_cells(len(vocabulary.types), len(vocabulary.relations), cell.astype(np.int64))


def _peak_megabytes() -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _rule_counts(homes: Homes) -> Array:
    return np.bincount(homes.rules.home, minlength=homes.n_homes)
