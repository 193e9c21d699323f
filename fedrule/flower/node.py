"""A node: answers the requests of the server for the homes that it holds, with the engine's own clients.

Every request may come to a new process, so that all that a node knows of a run lies in its folder
(`fedrule.flower.node_files`), and little is imported: methods with compiled trainers need no torch here.
"""

from __future__ import annotations

import hashlib
import logging
import math
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datasets.common.errors import DataError
from datasets.common.errors import unknown as unknown_name
from datasets.common.files import Json
from datasets.common.gaussian_mechanism import DELTA_POWER
from datasets.homes import Array, Homes, Mask
from datasets.valid import cells_of
from fedrule.federated.array_file import AnyArray
from fedrule.federated.cohort import Purpose
from fedrule.federated.private import normals_of
from fedrule.federated.rounds import Engine
from fedrule.federated.states import Broadcast, ClientStates
from fedrule.federated.trainers.trainer import Trainer
from fedrule.flower.messages import (
    BROKEN,
    SESSION,
    SETUP,
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
from fedrule.flower.method import federated_method, layout_of, threshold_of_nodes, valid_rules
from fedrule.flower.node_files import NodeFolder
from fedrule.flower.node_homes import Unknown, read_homes
from fedrule.flower.node_secure import Answer, advertise, earlier_answer, forget_secrets, further_step, session_of
from fedrule.flower.vocabulary import Vocabulary

if TYPE_CHECKING:
    from fedrule.evidence.private_statistics import BoundedSums
    from fedrule.methods.federated import Federated

log = logging.getLogger(__name__)

MOST_DELTA = 0.001  # of a run, at a node that has a max_epsilon
FLOWERS_OWN = {"partition-id", "num-partitions"}  # keys of node-configs in Flower's simulations


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The node-config of a node: `flower-supernode --node-config 'homes="home.json" state="state/"'`."""

    homes: Path
    state: Path  # the folder that survives restarts
    first: int | None = None  # the number of its first home in the federation; None: the server chooses it
    unknown_names: Unknown = "refuse"  # names that the federation does not know; or ignore
    require_secure: bool = False  # whether runs without secure sums are refused
    max_epsilon: float = math.inf  # the largest epsilon of a run; runs without noise are refused where it is given

    @classmethod
    def of(cls, config: Mapping[str, object]) -> NodeOptions:
        """From key-value pairs; an unknown key is an error, since one that protects homes may be misspelled."""
        for name in config.keys() - FLOWERS_OWN:
            if name not in (known := [each.name for each in fields(cls)]):
                raise unknown_name("key of the node-config", name, known)
        for name in ("homes", "state"):
            if not isinstance(config.get(name), str):
                raise DataError(f'node-config: {name}="PATH" is missing; see docs/deployment.md')
        first, unknown = config.get("first"), config.get("unknown_names", "refuse")
        if first is not None and (not isinstance(first, int) or isinstance(first, bool) or first < 0):
            raise DataError(f"node-config: first must be a whole number from 0 on, got {first!r}")
        if unknown not in ("refuse", "ignore"):
            raise DataError(f'node-config: unknown_names must be "refuse" or "ignore", got {unknown!r}')
        secure, epsilon = config.get("require_secure", False), config.get("max_epsilon", math.inf)
        if not isinstance(secure, bool):
            raise DataError(f"node-config: require_secure must be true or false, got {secure!r}")
        if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not epsilon > 0:
            raise DataError(f"node-config: max_epsilon must be a number above 0, got {epsilon!r}")
        homes, state = Path(str(config["homes"])), Path(str(config["state"]))
        return cls(homes, state, first, "refuse" if unknown == "refuse" else "ignore", secure, float(epsilon))

    def check(self, method: Federated) -> None:
        """Refuse a run that protects homes less than the owner of this node wants."""
        if self.require_secure and not method.secure_threshold > 0:
            raise Refusal(
                "this node takes part in runs with secure sums only (require_secure in its node-config), and this one "
                "has none; set secure_threshold, e.g. 0.67"
            )
        if self.max_epsilon < math.inf and not 0 < method.epsilon <= self.max_epsilon:
            has = f"epsilon {method.epsilon:g}" if method.epsilon else "no epsilon"
            raise Refusal(
                f"this node takes part in runs with an epsilon of at most {self.max_epsilon:g} (max_epsilon in its "
                f"node-config), and this one has {has}; set epsilon"
            )
        if self.max_epsilon < math.inf and method.delta > MOST_DELTA:
            raise Refusal(
                f"delta {method.delta:g}: every home may be disclosed in full with this probability, whatever epsilon "
                f"is; this node, which has a max_epsilon, takes part up to {MOST_DELTA:g}"
            )


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
                    Kind.SECURE: further_step,
                }
                if request.kind not in answers:
                    raise Refusal(f"this node does not know requests of kind {request.kind}; install a newer fedrule")
                check_protection(request)
                self._check_method(request, folder)
                header, arrays = earlier_answer(request, folder) or answers[request.kind](request, folder)
        except Refusal as error:
            log.error("request %s of the server is refused: %s", request.kind, error)
            return refusal(request, error)
        except DataError as error:  # names devices, types or files of this node, which are not for the server
            log.error("request %s of the server is refused: %s", request.kind, error)
            return refusal(request, Refusal("its homes, or its own files, cannot be used; its log says which and why"))
        except BROKEN as error:
            log.exception("request %s of the server cannot be read", request.kind)
            reason = f"request {request.kind} cannot be read ({type(error).__name__}); the server has another version"
            return refusal(request, Refusal(f"{reason} of fedrule: install the same one on both"))
        return Message(request.kind, identity(request).header(**header), arrays)

    def _check_method(self, request: Message, folder: NodeFolder) -> None:
        """Refuse another method, or other parameters, than those that the run had when this node joined it.

        And one that promises less than the owner of this node wants; what a new run promises is logged.
        """
        run, method = request.text("run"), request.text("method")
        built = federated_method(method)
        self.options.check(built)
        if (found := folder.read(run, "method")) is None:
            folder.write(run, "method", {}, method=method)
            log.info("run %s: %s", run, promises(built))
        elif found[0].get("method") != method:
            raise Refusal("the server changed the method of this run, or its parameters; start a new run")

    def _join(self, request: Message, folder: NodeFolder) -> Answer:
        """How many homes there are, and which have rules; from here on they are those of the run."""
        run = request.text("run")
        homes = folder.homes(run)
        if homes is None:
            homes = read_homes(self.options.homes, self.vocabulary, if_unknown=self.options.unknown_names)
            if not homes.n_homes:
                raise DataError(f"{self.options.homes}: no home in it; a node holds at least one")
            folder.save_homes(run, homes)
        header: dict[str, Json] = {"node": folder.name, "homes": homes.n_homes, "first": self.options.first}
        return header, {"with_rules": pack_mask(_rule_counts(homes) > 0)}

    def _rules(self, request: Message, folder: NodeFolder) -> Answer:
        """In how many homes each typed rule occurs, and in how many a device has it with itself."""
        homes = self._homes(request, folder)
        if federated_method(request.text("method")).privacy.noisy:
            from fedrule.evidence import private_statistics  # of private runs only

            sums = private_statistics.BoundedSums({"rules": private_statistics.sum_of_rules(homes)})
            return self._private_sums(request, folder, sums)
        rules = homes.rules
        cell, count = _homes_by_cell(homes, np.ones(len(rules), dtype=bool))
        self_cell, self_count = _homes_by_cell(homes, rules.trigger == rules.action)
        if SESSION in request.arrays:
            n_cells = len(homes.types) ** 2 * len(homes.relations)
            vector = np.zeros(2 * n_cells, dtype=np.int64)
            vector[cell], vector[n_cells + self_cell] = count, self_count
            return advertise(request, folder, vector, {})
        return {}, {"cell": cell, "count": count, "self_cell": self_cell, "self_count": self_count}

    def _counts(self, request: Message, folder: NodeFolder) -> Answer:
        """What else is counted over homes."""
        from fedrule.evidence.statistics import Statistics  # of methods that count homes

        method, homes = federated_method(request.text("method")), self._homes(request, folder)
        all_patterns = method.evidence > 0  # what is counted is the method's to say, not the request's
        valid = valid_rules(self.vocabulary, _cells(request.array("cell"), self.vocabulary))
        if method.privacy.noisy:
            from fedrule.evidence.private_statistics import BoundedSums

            words = self.vocabulary.words  # declared for all: whether these homes have any is not for a node to tell
            homes = homes if words else replace(homes, words=None)
            sums = BoundedSums.of(homes, valid, all_patterns=all_patterns, always_rooms=words)
            return self._private_sums(request, folder, sums)
        counts = Statistics.of(homes, valid, all_patterns=all_patterns)
        if SESSION in request.arrays:
            return advertise(request, folder, counts.integers(), {})
        arrays = counts.arrays(all_patterns=all_patterns)
        return {}, {name: array.astype(np.int32) for name, array in arrays.items()}

    def _private_sums(self, request: Message, folder: NodeFolder, sums: BoundedSums) -> Answer:
        """Counts of a private run: to a server that adds the noise, or with this node's share of it to a secure sum.

        The vector of a secure sum is kept and sent again where the server asks again, e.g. after a crash: fresh noise
        on the same counts would be a second release, which is not in the account.
        """
        if SESSION not in request.arrays:
            return {}, {**sums.parts}
        method, run, session = federated_method(request.text("method")), request.text("run"), session_of(request)
        scale: dict[str, Json] = {"n_clients": request.number("n_clients"), "nodes": len(session.members)}
        cells = np.ascontiguousarray(request.arrays.get("cell", np.zeros(0, dtype=np.int64)))
        asked: dict[str, Json] = {**scale, "cells": hashlib.sha256(cells.tobytes()).hexdigest()}
        self._check_scale(folder, run, scale)
        name = f"noisy_{request.kind}"
        if (found := folder.read(run, name)) is None:
            n_clients = request.number("n_clients")
            account = method.privacy.account(n_clients, method.engine().cohorts.fraction(n_clients))
            normals = normals_of(None, Purpose.COUNTS)
            vector = sums.with_share_of_noise(account.counts, threshold=session.threshold, normals=normals)
            folder.write(run, name, {"vector": vector}, **asked)
        elif any(found[0].get(key) != value for key, value in asked.items()):
            raise Refusal(
                "this node has given its noisy counts, and is asked for others, which are not in the account of what "
                "it discloses; start a new run"
            )
        else:
            vector = found[1]["vector"]
        return advertise(request, folder, vector, {})

    @staticmethod
    def _check_scale(folder: NodeFolder, run: str, scale: Mapping[str, Json]) -> None:
        """Refuse numbers of homes or nodes, by which noise is scaled, that differ from those of earlier counts."""
        for kind in (Kind.RULES, Kind.COUNTS):
            found = folder.read(run, f"noisy_{kind}")
            if found is not None and (different := [key for key, value in scale.items() if found[0].get(key) != value]):
                raise Refusal(
                    f"the server changed what the noise of this node is scaled by ({', '.join(different)}); start a "
                    "new run"
                )

    def _round(self, request: Message, folder: NodeFolder) -> Answer:
        """Train those of the node's clients that are in the cohort; their states are pending until the next request."""
        run, homes = request.text("run"), self._homes(request, folder)
        if request.header.get("setup") is not None:
            self._keep_setup(request, folder)
        method = federated_method(request.text("method"))
        if not 0 <= request.number("round") < method.rounds:
            raise Refusal(
                f"round {request.number('round') + 1} is asked for, but this run has {method.rounds}, and what a home "
                "discloses in more of them is not agreed on; start a new run"
            )
        engine, trainer, n_clients = self._trainer(request, folder, homes)
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
        about: dict[str, Json] = {"corrupted": trained.corrupted}
        if not engine.privacy.noisy:  # how long it takes depends on homes, and has no noise
            about |= {"ready": ready, "seconds": round(time.process_time(), 3)}
        if SESSION in request.arrays:
            sums = trained.sums
            if earlier is not None:
                return advertise(request, folder, earlier, about, counted=pack_mask(counted))
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
            return advertise(request, folder, sums.integers(), about, counted=pack_mask(counted))
        header, arrays = pack_sums(trained.sums, trainer.layout, all_rows=engine.privacy.noisy)
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

    @staticmethod
    def _end(request: Message, folder: NodeFolder) -> Answer:
        """The run is over: keep the states after its last round, and forget its secrets."""
        folder.settle_states(request.text("run"), request.array("last").astype(np.int64))
        forget_secrets(folder, request.text("run"))
        return {}, {}

    def _keep_setup(self, request: Message, folder: NodeFolder) -> None:
        """Keep what all clients have to know, which the first request of a round brings; another one is refused.

        The noise of a node depends on it: a server that claims other numbers of homes or nodes later is not followed.
        """
        setup, run = request.value("setup"), request.text("run")
        if not isinstance(setup, dict):
            raise Refusal("the setup of this run is no object; the server has another version of fedrule")
        about = {"method": request.text("method"), **setup}
        self._check_scale(folder, run, {key: setup.get(key) for key in ("n_clients", "nodes")})
        arrays = {name.removeprefix(SETUP): a for name, a in request.arrays.items() if name.startswith(SETUP)}
        if (found := folder.read(run, "setup")) is None:
            self._check_setup(setup, arrays)
            folder.write(run, "setup", arrays, **about)
            return
        different = [name for name, value in about.items() if found[0].get(name) != value]
        different += [name for name in arrays.keys() | found[1].keys() if not _equal(arrays, found[1], name)]
        if different:
            raise Refusal(f"the server changed the setup of this run ({', '.join(sorted(different))}); start a new run")

    def _check_setup(self, setup: Mapping[str, Json], arrays: Mapping[str, AnyArray]) -> None:
        """Refuse a setup with which no round could be done: kept, it would stay."""
        for name in ("seed", "first", "n_clients", "nodes"):
            value = setup.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise Refusal(f"the setup of this run has {name} {value!r}; the server has another version of fedrule")
        layout_of(setup.get("layout"))
        _cells(arrays["cell"], self.vocabulary)

    def _homes(self, request: Message, folder: NodeFolder) -> Homes:
        homes = folder.homes(request.text("run"))
        if homes is None:
            raise Refusal("this node has not joined the run; its folder is new", needs=Kind.JOIN)
        return homes

    def _trainer(self, request: Message, folder: NodeFolder, homes: Homes) -> tuple[Engine, Trainer, int]:
        """What trains these homes by the setup of the run, and the number of clients that the setup says."""
        from fedrule.methods.federated import trainer_of

        found = folder.read(request.text("run"), "setup")
        if found is None:
            raise Refusal("this node was not sent the setup of the run; its folder is new", needs=Kind.ROUND)
        about, arrays = found
        if SESSION in request.arrays and (listed := len(session_of(request).members)) > int(str(about["nodes"])):
            raise Refusal(f"a secure sum of {listed} nodes, this run has {about['nodes']}; nothing is sent")
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
        trainer = trainer_of(method.trained_on(homes, valid), task, first + np.arange(homes.n_homes))
        return method.engine(), trainer, int(str(about["n_clients"]))


def identity(message: Message) -> Identity:
    """What an answer has in common with its request."""
    return Identity(message.text("run"), message.text("vocabulary"), message.text("method"))


def check_protection(request: Message) -> None:
    """Refuse to give away more than the method of the run says, whatever the request asks for."""
    if request.kind not in (Kind.RULES, Kind.COUNTS, Kind.ROUND):
        return
    method = federated_method(request.text("method"))
    if request.kind == Kind.COUNTS and not method.counts_homes:
        raise Refusal(f"counts over homes are asked for, which {method.NAME} does not use; nothing is sent")
    if method.privacy.noisy and request.kind != Kind.ROUND:
        if not method.counts_share:
            raise Refusal(
                f"{request.kind} are asked for, which this run has no part of its epsilon for; nothing is sent"
            )
        if not request.header.get("private"):
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


def promises(method: Federated) -> str:
    """What a run promises to homes, for the log of a node."""
    if method.epsilon:
        delta = f"{method.delta:g}" if method.delta else f"1 / homes^{DELTA_POWER}"
        noise = f"epsilon {method.epsilon:g} at delta {delta}"
    elif method.noise_multiplier:
        noise = f"noise of {method.noise_multiplier:g} times clip in a round"
    else:
        noise = "no noise"
    share = method.secure_threshold
    sums = f"secure sums of more than {share:g} of the nodes" if share else "sums of this node that the server sees"
    return f"{method.NAME}, {noise} over {method.rounds} rounds, {sums}"


def round_key(request: Message) -> str:
    """What the sum of a node in a round depends on, as one text."""
    state = hashlib.sha256(str(request.number("round")).encode())
    for name in ("model", "cohort", "last"):
        state.update(np.ascontiguousarray(request.array(name)).tobytes())
    return state.hexdigest()


def _peak_megabytes() -> int:
    """The most memory that this process had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _rule_counts(homes: Homes) -> Array:
    return np.bincount(homes.rules.home, minlength=homes.n_homes)


def _homes_by_cell(homes: Homes, which: Mask) -> tuple[Array, AnyArray]:
    """Cells of some of the rules, and in how many homes each occurs; as the column sums of `typed_rules` say."""
    each = cells_of(homes)[which] * homes.n_homes + homes.rules.home[which]
    cell, count = np.unique(np.unique(each) // homes.n_homes, return_counts=True)
    return cell, count.astype(np.int32)


def _cells(cell: AnyArray, vocabulary: Vocabulary) -> AnyArray:
    """The cells of the valid rules; refused where they are no ascending numbers of cells."""
    n_cells = len(vocabulary.types) ** 2 * len(vocabulary.relations)
    whole = cell.ndim == 1 and np.issubdtype(cell.dtype, np.integer)
    if not whole or (len(cell) and not (cell[0] >= 0 and cell[-1] < n_cells and (np.diff(cell) > 0).all())):
        raise Refusal(
            f"valid rules must be ascending numbers below {n_cells}; the server has another version of fedrule"
        )
    return cell


def _equal(one: Mapping[str, AnyArray], other: Mapping[str, AnyArray], name: str) -> bool:
    return name in one and name in other and np.array_equal(one[name], other[name])
