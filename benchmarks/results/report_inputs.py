"""All that reports read, made where it is missing: the runs of a suite, portraits of its data, its examples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.results import dataset_summary as portraits
from benchmarks.results import examples
from benchmarks.results.store import Store
from benchmarks.runs.experiment import Experiment, Source
from benchmarks.runs.scheduler import Outcome, execute
from benchmarks.runs.suite import read_examples, read_suite
from datasets.common.progress import progress
from datasets.common.threads import set_threads

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Prepared:
    """What became of the runs, and what was made beside them."""

    runs: Outcome
    portraits: int = 0  # of now
    examples: int = 0  # of now
    failed: list[tuple[str, str]] = field(default_factory=list)  # what besides runs could not be made, and why


def prepare(
    suite: str, *, store: Store, jobs: int = 1, threads: int = 1, quiet: bool = False, checkpoints: int = 0
) -> Prepared:
    """Make what is missing, first the runs; what fails is named and the rest goes on.

    Examples are fitted in this process, with as many threads as runs have.
    """
    experiments = read_suite(suite)
    asked = [examples.Asked(example[0].source, tuple(example)) for example in read_examples(suite)]
    runs = execute(experiments, store=store, jobs=jobs, threads=threads, quiet=quiet, checkpoints=checkpoints)
    prepared = Prepared(runs)
    _draw(_sources(experiments), store, prepared, quiet=quiet)
    set_threads(threads)
    _compare(asked, store, prepared, quiet=quiet)
    return prepared


def _sources(experiments: Sequence[Experiment]) -> list[Source]:
    """Every data set once, whichever its track."""
    found = {portraits.file_of(each.source.data, each.source.options): each.source for each in experiments}
    return list(found.values())


def _draw(sources: Sequence[Source], store: Store, prepared: Prepared, *, quiet: bool) -> None:
    missing = [source for source in sources if not portraits.is_current(source, store.folder)]
    with progress(len(missing), "portrait", quiet=quiet) as bar:
        for source in missing:
            bar.note(source.data)
            portraits.save(portraits.portrait(source), store.folder)
            prepared.portraits += 1
            bar.step()


def _compare(asked: Sequence[examples.Asked], store: Store, prepared: Prepared, *, quiet: bool) -> None:
    missing = [each for each in asked if not examples.is_current(each, store.folder)]
    with progress(sum(len(each.methods) for each in missing), "method", quiet=quiet) as bar:
        for each in missing:
            try:
                examples.save(examples.make(each, bar=bar), each, store.folder)
                prepared.examples += 1
            except Exception as error:  # whatever a method of somebody else's raises
                log.warning("failed: %s: %s", each, error)
                prepared.failed.append((str(each), str(error)))
