"""How well and how fast: every method on every data set of the scale's suite, fitted and evaluated, its result kept.

Fit and evaluate are two benchmarks whose `extra_info` holds the metrics of both protocols. Results by those protocols
that the suite has go where `python -m benchmarks run` keeps its own, with the same keys and the same numbers, unless
finished ones of the same code are there. Only their memory is left out: this process has held the models of others. One
seed, and of the suite's entries those of the types track, split `holdout`, without curves and with each method's
default settings.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from time import perf_counter

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from baselines.registry import missing_extra, names
from benchmarks.evaluation import PROTOCOLS, Evaluation
from benchmarks.results.store import Store, results_folder
from benchmarks.runs.experiment import Experiment, data_options, method_parameters
from benchmarks.runs.run import FittedRun, fit, split_homes
from benchmarks.runs.suite import read_suite
from benchmarks.speed.measure import warm_up
from datasets.common.errors import install_hint
from datasets.registry import get as get_data

METRICS = {"ranking": ("mrr", "hr@10", "ndcg@10"), "paper": ("auc", "loss", "mr", "mr_rt")}
ROUNDS = {"smoke": 1, "default": 1, "paper": 3}  # of evaluating; a fit is made once
# Scale -> data -> methods left out there, the slowest: with them all of the scale would take longer than it may.
TOO_LONG: dict[str, dict[str, tuple[str, ...]]] = {
    "smoke": {"ifttt-synthetic": ("graphrank",)},
    "default": {},
    "paper": {},
}


class Case:
    """One method on one data set, between its two benchmarks."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment, self.code = experiment, experiment.code
        self.homes = experiment.source.load()
        self.parts = split_homes(experiment, self.homes)
        self.trained: FittedRun | None = None
        self.seconds: dict[str, float] = {}
        self.noted: list[dict[str, object]] = []  # the `extra_info` of its benchmarks
        warm_up(experiment.method)

    def fit(self) -> FittedRun:
        """As a run does."""
        begin = perf_counter()
        fitted, recorder = fit(self.experiment, self.parts.train)
        self.seconds["fit"] = perf_counter() - begin
        self.trained = FittedRun(self.experiment, self.homes, self.parts, fitted, recorder)
        return self.trained

    def note(self, benchmark: BenchmarkFixture) -> None:
        """What both benchmarks say of themselves."""
        method, data = self.experiment.method, self.experiment.source.data
        benchmark.extra_info |= {"method": method, "data": data, "homes": self.homes.n_homes}
        self.noted.append(benchmark.extra_info)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    found = plain_entries(metafunc.config.getoption("scale"))
    absent = [name for name in names() if missing_extra(name)]  # the suite leaves them out, here they are named
    cases = [*found, *((name, data) for data in dict.fromkeys(data for _, data in found) for name in absent)]
    # By module, so that pytest runs both benchmarks of a case before the next one and lets go of its model.
    metafunc.parametrize(("method", "data"), cases, ids=["-".join(case) for case in cases], scope="module")


@cache
def plain_entries(scale: str) -> dict[tuple[str, str], Experiment]:
    """Method and data -> the suite's run of seed 0 in default settings."""
    found: dict[tuple[str, str], Experiment] = {}
    for experiment in read_suite(scale, seeds=[0]):
        simple = experiment.source.track == "types" and experiment.split == "holdout" and not experiment.curves
        ranked = PROTOCOLS[0] in experiment.protocols  # only what the suite itself has is kept, see `test_evaluate`
        if simple and ranked and experiment.parameters == method_parameters(experiment.method, {}):
            found.setdefault((experiment.method, data_name(experiment)), experiment)
    return found


def data_name(experiment: Experiment) -> str:
    """A data set and those of its options that are not the defaults: "wyze-synthetic,homes=300"."""
    source = experiment.source
    usual = data_options(source.data, {})
    changed = [f"{name}={value}" for name, value in source.options.items() if value != usual[name]]
    return ",".join([source.data, *changed])


@pytest.fixture(scope="module")
def case(pytestconfig: pytest.Config, method: str, data: str) -> Case:
    if extra := missing_extra(method):
        pytest.skip(f"{method} needs {install_hint(extra)}")
    scale = str(pytestconfig.getoption("scale"))
    experiment = plain_entries(scale)[method, data]
    if reason := left_out(experiment, scale):
        pytest.skip(f"{method} on {data}: {reason}; see --scale paper, or python -m benchmarks run {scale}")
    return Case(experiment)


def left_out(experiment: Experiment, scale: str) -> str:
    """Why a run is not part of this scale; empty if it is."""
    data = experiment.source.data
    if scale != "paper" and get_data(data).files:
        return f"real data takes longer than --scale {scale} may"
    if experiment.method in TOO_LONG[scale].get(data, ()):
        return f"takes longer than --scale {scale} may"
    return ""


def test_fit(benchmark: BenchmarkFixture, case: Case, data: str) -> None:
    benchmark.group = f"fit {data}"
    case.note(benchmark)
    benchmark.pedantic(case.fit, rounds=1)


def test_evaluate(benchmark: BenchmarkFixture, pytestconfig: pytest.Config, scale: str, case: Case, data: str) -> None:
    """By both protocols; probabilities are calibrated before, since that may take a second fit."""
    benchmark.group = f"evaluate {data}"
    case.note(benchmark)
    trained = case.trained or case.fit()  # the other benchmark may have been deselected
    calibration, warnings, taken = {}, {}, {}
    for protocol in PROTOCOLS:
        begin = perf_counter()
        calibration[protocol], warnings[protocol] = trained.calibration(protocol)
        taken[protocol] = case.seconds | {"calibrate": perf_counter() - begin}

    def evaluate() -> dict[str, Evaluation]:
        found = {}
        for protocol in PROTOCOLS:
            begin = perf_counter()
            found[protocol] = trained.evaluate(protocol, calibration[protocol])
            taken[protocol]["evaluate"] = perf_counter() - begin
        return found

    found = benchmark.pedantic(evaluate, rounds=ROUNDS[scale])
    for noted in case.noted:  # that of the fit as well: one record has the seconds and what they bought
        for protocol, metrics in METRICS.items():
            noted.update({metric: found[protocol].summary[metric] for metric in metrics})
    if benchmark.disabled:  # --benchmark-disable
        return
    store = Store(results_folder(pytestconfig.getoption("results")))
    keys = case.experiment.keys(trained.homes.fingerprint)
    with store.claim(keys[PROTOCOLS[0]]) as ours:
        for protocol, key in keys.items():
            if ours and store.finished(key, case.code) is None:
                evaluation = found[protocol]
                result = trained.result(evaluation, calibration[protocol], code=case.code, seconds=taken[protocol])
                result = replace(result, warnings=(*result.warnings, *warnings[protocol]))
                store.save(result, evaluation.homes, evaluation.rules)
