"""Make what reports read and is missing: the runs of a suite, summaries of its data sets, its examples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.results.records import summary_file
from benchmarks.results.store import Store
from benchmarks.runs.dataset_summary import is_current, save_summary, summarize
from benchmarks.runs.examples import ExampleSpec, make_example, save_example
from benchmarks.runs.experiment import Experiment
from benchmarks.runs.scheduler import Outcome, run_all
from benchmarks.runs.suite import read_examples, read_suite
from datasets.common.progress import progress
from datasets.common.threads import set_threads

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReportInputs:
    """The outcome of the runs, and what else was made by this call."""

    runs: Outcome
    summaries: int = 0
    examples: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)  # examples that could not be made, and why


def make_report_inputs(
    suite: str, *, store: Store, jobs: int = 1, threads: int = 1, quiet: bool = False, checkpoints: int = 0
) -> ReportInputs:
    """Make what is missing, the runs first; a failure is logged and the rest is made.

    Examples are fitted in this process, with as many threads as runs have.
    """
    experiments = read_suite(suite)
    specs = [ExampleSpec(example[0].source, tuple(example)) for example in read_examples(suite)]
    made = ReportInputs(
        run_all(experiments, store=store, jobs=jobs, threads=threads, quiet=quiet, checkpoints=checkpoints)
    )
    _make_summaries(experiments, store, made, quiet=quiet)
    set_threads(threads)
    _make_examples(specs, store, made, quiet=quiet)
    return made


def _make_summaries(experiments: Sequence[Experiment], store: Store, made: ReportInputs, *, quiet: bool) -> None:
    """Of every data set once, whichever its track."""
    sources = {summary_file(each.source.data, each.source.options): each.source for each in experiments}
    missing = [source for source in sources.values() if not is_current(source, store.folder)]
    with progress(len(missing), "data set", quiet=quiet) as bar:
        for source in missing:
            bar.note(source.data)
            save_summary(summarize(source), store.folder)
            made.summaries += 1
            bar.step()


def _make_examples(specs: Sequence[ExampleSpec], store: Store, made: ReportInputs, *, quiet: bool) -> None:
    missing = [spec for spec in specs if not spec.is_current(store.folder)]
    with progress(sum(len(spec.methods) for spec in missing), "method", quiet=quiet) as bar:
        for spec in missing:
            try:
                save_example(make_example(spec, bar=bar), store.folder)
                made.examples += 1
            except Exception as error:  # whatever a third-party method raises
                log.warning("failed: %s: %s", spec, error)
                made.failed.append((str(spec), str(error)))
