"""What a node keeps on its disk, so that it survives restarts: its homes as the run began, what it was sent then, and
the states of its clients in two phases.

A state becomes the current one only when the server says that it counted the round: until then it is pending, beside
the one before, in the same file. So neither a node killed in mid-round nor an update that came too late nor a server
that resumes from its last checkpoint leaves a client with a state that the server does not know of.

Of a run by secure sums it also has the secrets of the current sum, notes of the earlier ones, and what noise was added
to (`fedrule.flower.node_secure`); when the run is over only the notes stay.

Every file is written under a temporary name and moved, belongs to one run, and has a checksum for every array. Files
are named by their run: a new run begins with new ones, and those of old runs may be deleted.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from datasets.common.errors import DataError
from datasets.common.files import atomic_file
from datasets.homes import Array, Homes, Relation, Rules, Words
from fedrule.federated.array_file import AnyArray, read_arrays, write_arrays
from fedrule.federated.states import ClientStates
from fedrule.flower.messages import Refusal

FORMAT = 1  # goes up when older files would be misread
OWN = 0o600  # files that their owner alone reads
WORDS = {  # what is in the files of a run, for messages
    "homes": "this node's homes as the run began",
    "method": "the method and the parameters that this node has agreed to",
    "setup": "the numbers that this node was sent with its first round",
    "states": "the states of this node's clients",
    "secure": "this node's secrets of the last secure sum",
    "sums": "this node's notes of the secure sums that it took part in",
    "noisy": "this node's numbers with noise of the last round",
    "noisy_rules": "this node's numbers of rules with noise",
    "noisy_counts": "this node's counts with noise",
}
PENDING = "pending."
CURRENT = "current."


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """The folder of one node."""

    path: Path

    def __post_init__(self) -> None:
        """Homes and secrets lie in it: made for its owner alone, and refused where others may look or write."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.path.stat().st_mode & 0o077:
            raise Refusal(
                f"{self.path}: others on this machine can read or write this folder, in which homes and secrets are "
                f"kept; run chmod 700 {self.path}"
            )

    @property
    def name(self) -> str:
        """Of the node, drawn when the folder is new: the server knows it again by this after a restart."""
        path = self.path / "node.json"
        if not path.exists():
            with atomic_file(path) as temporary:
                temporary.touch(mode=OWN)
                temporary.write_text(json.dumps({"format": FORMAT, "node": secrets.token_hex(8)}) + "\n", "utf-8")
        try:
            content = json.loads(path.read_text("utf-8"))
            return str(content["node"])
        except (ValueError, LookupError, TypeError):
            raise DataError(
                f"{path}: damaged; restore it from a copy, or empty the folder and start a new run"
            ) from None

    @contextmanager
    def lock(self, *, seconds: float) -> Iterator[None]:
        """The folder for this process alone, waiting for another one that answers an earlier request."""
        import fcntl  # not on every system, and neither is Flower's node

        with open(self.path / ".lock", "w", opener=partial(os.open, mode=OWN)) as file:
            end = time.monotonic() + seconds
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > end:
                        message = "another process uses this node's folder; give every node its own (state=)"
                        raise Refusal(f"{self.path}: {message}") from None
                    time.sleep(0.1)
            yield

    def file(self, run: str, what: str) -> Path:
        if not run.isalnum():
            raise Refusal(f"run {run!r}: expected letters and digits; the server has another version of fedrule")
        return self.path / f"{run}.{what}"

    def read(self, run: str, what: str) -> tuple[dict[str, object], dict[str, AnyArray]] | None:
        """The facts and arrays of a file; None where there is none, an error where it is not what it should be."""
        path = self.file(run, what)
        if not path.exists():
            return None
        words = WORDS.get(what, what)
        remedy = f"restore it from a copy, or delete it and start a new run: without it {words} are lost"
        about, arrays = read_arrays(path, what=f"file of {words}", remedy=remedy)
        if about.get("format") != FORMAT or about.get("what") != what:
            raise DataError(
                f"{path}: a file of {about.get('what')} in format {about.get('format')}, not of {what} in format "
                f"{FORMAT}; {remedy}"
            )
        if about.get("run") != run:
            raise DataError(
                f"{path}: of run {about.get('run')}, not of {run}, which the server trains; give this node the folder "
                "of that run (state= in its node-config), or delete the file and start a new run"
            )
        return about, arrays

    def write(self, run: str, what: str, arrays: Mapping[str, AnyArray], **about: object) -> None:
        path = self.file(run, what)
        write_arrays(path, {"format": FORMAT, "what": what, "run": run, **about}, arrays, mode=OWN)

    def save_homes(self, run: str, homes: Homes) -> None:
        """Keep the homes as they are now: those of a run do not change, and reading them again takes little."""
        rules, words = homes.rules, homes.words
        arrays = {
            "device_home": homes.device_home,
            "device_type": homes.device_type,
            **{name: getattr(rules, name) for name in ("home", "trigger", "action", "relation")},
        }
        if rules.group is not None:
            arrays["group"] = rules.group
        if words is not None:
            arrays |= {"word_device": words.device, "word": words.word}
        about = {"name": homes.name, "homes": homes.n_homes, "types": homes.types, "relations": homes.relations}
        self.write(run, "homes", arrays, **about)

    def homes(self, run: str) -> Homes | None:
        """The homes of a run, without the ids of users and devices; None before they are kept."""
        found = self.read(run, "homes")
        if found is None:
            return None
        about, arrays = found
        n_homes, n_devices = int(str(about["homes"])), len(arrays["device_home"])
        home, trigger, action, relation = (arrays[name] for name in ("home", "trigger", "action", "relation"))
        words = Words(arrays["word_device"], arrays["word"]) if "word" in arrays else None
        types, relations = json.loads(json.dumps([about["types"], about["relations"]]))
        return Homes(
            str(about["name"]),
            tuple(types),
            tuple(Relation(*pair) for pair in relations),
            np.arange(n_homes),
            arrays["device_home"],
            arrays["device_type"],
            np.arange(n_devices),
            Rules(home, trigger, action, relation, arrays.get("group")),
            words=words,
        )

    def states(self, run: str, initial: ClientStates, last: Array) -> ClientStates:
        """The states of the node's clients, of which the server counted those of rounds `last` as the last ones.

        A pending state becomes current where the server counted its round, and is forgotten otherwise. Refused where
        the server counts on states that this node does not have.
        """
        found = self.read(run, "states")
        current, pending = (initial, None) if found is None else _phases(found[1])
        if len(current.last) != len(last):
            raise Refusal(
                f"{self.file(run, 'states')}: states of {len(current.last)} clients, the server counts {len(last)}; "
                "the homes of a node may not change during a run"
            )
        if pending is not None and np.array_equal(pending.last, last):
            current = pending
        elif np.array_equal(current.last, last):
            pass
        elif _keeps_nothing(initial):  # the algorithm has no states: nothing is lost but when clients took part
            current = replace(initial, last=last.copy())
        else:
            lost = int((current.last != last).sum())
            what = "no such file" if found is None else "not the states of the last rounds"
            raise Refusal(
                f"{self.file(run, 'states')}: {what}, but the server counts on the states of {lost} clients of this "
                "node; restore the file from a copy, or start a new run"
            )
        return current

    def settle_states(self, run: str, last: Array) -> None:
        """After the last round: a pending state that the server counted becomes current, any other is forgotten."""
        found = self.read(run, "states")
        if found is None:
            return
        current, pending = _phases(found[1])
        self.save_states(run, pending if pending is not None and np.array_equal(pending.last, last) else current, None)

    def save_states(self, run: str, current: ClientStates, pending: ClientStates | None) -> None:
        arrays = {f"{CURRENT}{name}": array for name, array in current.arrays().items()}
        if pending is not None:
            arrays |= {f"{PENDING}{name}": array for name, array in pending.arrays().items()}
        self.write(run, "states", arrays)


def _phases(arrays: Mapping[str, AnyArray]) -> tuple[ClientStates, ClientStates | None]:
    """The current states in a file, and the pending ones where there are any."""
    has_pending = any(name.startswith(PENDING) for name in arrays)
    return _states(arrays, CURRENT), _states(arrays, PENDING) if has_pending else None


def _states(arrays: Mapping[str, AnyArray], prefix: str) -> ClientStates:
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return ClientStates.from_arrays(own)


def _keeps_nothing(states: ClientStates) -> bool:
    vectors = states.own.empty and states.first.empty and states.second.empty and states.packed is None
    return vectors and not len(states.steps)
