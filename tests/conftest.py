"""Tests use one thread and draw the same examples in every run; a busy machine does not fail them; homes for many."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from baselines import registry
from datasets import Homes
from datasets.common.environment import set_threads
from tests.support.two_homes import two_homes

# A shell starts background jobs with Ctrl-C ignored, and so would be the processes that tests stop by it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Where the environment asks for no bytecode (containers often do), each of the hundreds of processes that tests start
# would compile all our sources again, and pytest all test modules in each of its workers.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
set_threads(1)  # as reported runs do; several threads on a busy machine take many times as long
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=150)  # `tox -e slow`
settings.load_profile("repeatable")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Workers of `-n` begin with long runs of neighbouring tests and later take from each other's ends.

    By turns, as is the default, each of them would make what the tests of one module share.
    """
    from xdist.scheduler import WorkStealingScheduling  # only where it is installed

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


LIGHT = tuple(str(Path(__file__).with_name(folder)) + os.sep for folder in ("datasets", "reports"))


def pytest_collection_modifyitems(config, items):
    """The first worker begins with methods, for which kernels are compiled; the second one with what needs none.

    It finds them compiled later. In a new checkout both would compile all of them at once.
    """
    if hasattr(config, "workerinput"):
        light = [item for item in items if str(item.path).startswith(LIGHT)]
        others = [item for item in items if not str(item.path).startswith(LIGHT)]
        half = len(items) // 2
        items[:] = others[:half] + light + others[half:]


@pytest.fixture(scope="session", autouse=True)
def fsync_off():
    """Files are written as ever, but not waited for: that they survive a power failure is nothing that a test can see.

    Thousands of them are written, and a disk takes some milliseconds for each. Processes that tests start and kill
    still wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


@pytest.fixture
def two() -> Homes:
    """Ann's and Bob's homes."""
    return two_homes()


@pytest.fixture
def own_registry():
    """What a test registers is gone after it; our own methods, which are imported only once, stay."""
    ours = registry.listed()
    yield
    if registry.listed() is not ours:  # a test has had it read anew; all our sources are parsed for it
        registry.listed.cache_clear()
    for name in set(registry._METHODS) - set(ours):
        del registry._METHODS[name]
