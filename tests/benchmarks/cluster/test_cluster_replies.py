"""What a cluster makes of the replies of its machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cluster.cluster import ATTEMPTS, Cluster, Job
from benchmarks.runs.history import ignore_progress
from datasets.common.errors import DataError

JOB = Job("job 7", "module:Class", {}, Path("homes.parquet"))


class Scripted(Cluster):
    """A cluster whose machines reply as they are told; a reply with `stops` comes while it is stopped."""

    def __init__(self, *replies):
        super().__init__(repeat="repeat the command")
        self.replies = list(replies)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def capacity(self):
        return 1

    def stop(self):
        self.stopped = True

    def _ask(self, job, on_progress):
        del job, on_progress
        reply = self.replies.pop(0)
        self.stopped = self.stopped or "stops" in reply
        return reply


def do(*replies):
    """The reply of a cluster, and how many more its machines had."""
    cluster = Scripted(*replies)
    return cluster.do(JOB, ignore_progress), len(cluster.replies)


def test_a_complete_reply_is_kept_although_the_cluster_was_stopped():
    reply = {"files": {"1.json": b"{}"}, "stops": True}
    assert do(reply) == (reply, 0)


def test_an_error_or_a_refusal_of_a_stopped_cluster_is_nothing():
    assert do({"error": "killed", "stops": True}, {"files": {}}) == ({}, 1)
    assert do({"refusal": "has other code", "stops": True}) == ({}, 0)


def test_an_error_is_tried_again_unless_it_is_final():
    error, done = {"error": "killed"}, {"files": {}}
    assert do(error, done, done) == (done, 1)
    assert do(*[error] * ATTEMPTS, done) == (error, 1)
    assert do({"error": "wrong", "final": True}, done) == ({"error": "wrong", "final": True}, 1)


def test_a_refusal_ends_the_command_with_what_to_do():
    with pytest.raises(DataError, match=r"^the worker a has other code: install the same .*, and repeat the command$"):
        do({"refusal": "has other code", "machine": "the worker a"}, {"files": {}})
