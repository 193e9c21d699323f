"""Fits and writes of checkpoints that are killed in mid-run: `python -m tests.support.killed_fits FOLDER`.

Each try is a process of its own, forked from this one so that libraries are loaded once. There remain for every
variant <variant>-whole.npz, the last checkpoint of a fit that nobody disturbed, and <variant>-killed.npz, that of a fit
which was killed several times; and <number>.npz, the file that is there after a write was killed at its point so many.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

import datasets
from baselines.registry import build
from datasets import Homes
from fedrule.federated.checkpoint import Checkpoint
from tests.support.small_states import small_state

SMALL = {"rounds": 10, "local_steps": 2, "hidden": 4, "predictor_hidden": 6, "participation": 0.05}
VARIANTS = {
    "kernel": {},
    "any-model": {"bias": "learned"},
    "kept-adam": {"bias": "learned", "client_optimizer": "kept-adam"},
    "watched": {"bias": "learned", "validation": 0.2, "patience": 10, "server_optimizer": "plain", "server_rate": 1.0},
}
KILLS = 3


def fits(folder: Path) -> dict[str, list[int]]:
    """By variant the first round of each try, of which only the last one is not killed."""
    homes = datasets.load("wyze-synthetic", homes=200)
    rng, report = random.Random(5), {}
    for name, more in VARIANTS.items():
        method = build("fedrule", **SMALL | more)
        times: list[float] = []
        _fit(method, homes, folder / f"{name}-whole.npz", partial(_note, times))
        killed = partial(_fit, method, homes, folder / f"{name}-killed.npz")
        firsts = [_killed(killed, rng.uniform(0, 2) * float(np.median(np.diff(times)))) for _ in range(KILLS)]
        rounds: list[int] = []
        killed(rounds.append)
        report[name] = [*firsts, rounds[0]]
    return report


def _fit(method, homes: Homes, path: Path, on_round) -> None:
    checkpoint = Checkpoint(path, every=1)
    method.fit(homes, rng=np.random.default_rng(0), on_round=lambda done, *_: on_round(done), checkpoint=checkpoint)


def _note(times: list[float], done: int) -> None:
    del done
    times.append(time.perf_counter())


def _killed(fit, seconds: float) -> int:
    """The first round of a fit that is killed so long after its second one, and in its fourth at the latest."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        on_round: list[int] = []

        def tell(done: int) -> None:
            on_round.append(done)
            os.write(writes, f"{done}\n".encode())
            if len(on_round) == 4:
                time.sleep(3600)  # the parent may be late on a busy machine

        fit(tell)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as lines:
        first = int(lines.readline())
        lines.readline()
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it was done before it could be killed"
    return first


def writes(folder: Path) -> int:
    """A second state written over the first, killed at every point: before each array and around the move."""
    first, second = small_state(1), small_state(2)
    n = 0
    while True:
        path = folder / f"{n}.npz"
        Checkpoint(path).save(first, last=True)
        child = os.fork()
        if not child:
            _die_after(n)
            Checkpoint(path).save(second, last=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return n
        n += 1


def _die_after(calls: int) -> None:
    """This process is killed instead of the next call but so many that writes, brings to disk or moves."""
    left = [calls]

    def mortal(function):
        def called(*given, **more):
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return function(*given, **more)

        return called

    np.lib.format.write_array = mortal(np.lib.format.write_array)
    os.fsync, os.replace = mortal(os.fsync), mortal(os.replace)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    sys.stdout.write(json.dumps({"fits": fits(place), "writes": writes(place)}))
