"""How fitting grows with the number of homes: seconds and peak memory of every registered method.

    pytest benchmarks/speed/test_fit.py --benchmark-only --scale paper

At each size `extra_info` has the growth per ten times the homes, and as `ratio` how many times faster a home is fitted
than by the plain fit of benchmarks/references/plain_fits.py, timed on some homes in the same run; `reference` says what
that does. Where there is no plain fit of the same method, it has `ratio to counting` instead, a unit of time. A method
that joins the registry joins the benchmark. The features of `recrules` and `takg` are measured on their own as well,
without trees, which the plain code does not grow.
"""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import datasets
from baselines.registry import build, missing_extra, names
from benchmarks.conftest import Peak, SavedHomes
from benchmarks.references.plain_fits import plain_fit
from benchmarks.speed.measure import Measured, few_rounds, note_growth, note_ratio, seconds, warm_up
from datasets.common.errors import install_hint
from datasets.homes import Homes
from fedrule.training.examples import ExampleSampler

# Homes; the first is what growth is measured from.
SIZES = {"smoke": (50, 200), "default": (1_000, 10_000), "paper": (1_000, 10_000, 76_218)}
SAMPLE = 20  # homes of the plain fit, which takes up to seconds for each
FEATURES = {"smoke": 300, "default": 10_000, "paper": 76_218}  # homes whose features are computed
# Seconds; a method that would need more at a size, by its last one, is not run there.
TOO_LONG = {"smoke": 30.0, "default": 300.0, "paper": 600.0}

PROGRAM = """
import numpy as np
import datasets
from baselines.registry import build
homes = datasets.load("saved", path={path!r})
build({name!r}, **{parameters!r}).fit(homes, rng=np.random.default_rng(0))
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", names())


def test_fit(
    benchmark: BenchmarkFixture,
    saved: SavedHomes,
    peak: Peak,
    measured: dict[str, Measured],
    scale: str,
    name: str,
    size: int,
) -> None:
    if extra := missing_extra(name):
        pytest.skip(f"{name} needs {install_hint(extra)}")
    known, first = measured[name], SIZES[scale][0]
    smaller = max((n for n in known if n < size), default=0)
    if smaller and (expected := known[smaller]["seconds"] * size / smaller) > TOO_LONG[scale]:
        more = "" if scale == "paper" else "; see --scale paper"
        pytest.skip(
            f"{name} would need about {expected:.0f} s for {size:,} homes, more than {TOO_LONG[scale]:.0f} s{more}"
        )
    path = saved(size, merged=True)
    homes = datasets.load("saved", path=path)
    warm_up(name)
    benchmark.pedantic(fit, args=(name, homes), rounds=3 if size == first and scale == "paper" else 1)
    if benchmark.stats is None:  # --benchmark-disable: nothing was measured
        return
    held = peak(PROGRAM.format(path=str(path), name=name, parameters=few_rounds(name)))
    known[size] = {"seconds": benchmark.stats["min"], **held}
    rate = size / benchmark.stats["min"]
    benchmark.extra_info |= {"homes": size, "rules": homes.n_rules, "homes per second": rate, **held}
    note_growth(benchmark, known, first, size)
    plain = plain_fit(name, homes, SAMPLE)
    note_ratio(benchmark, size, seconds(plain.work) * plain.times / plain.homes)
    benchmark.extra_info["reference"] = plain.about
    if not plain.same:
        benchmark.extra_info["ratio to counting"] = benchmark.extra_info.pop("ratio")


def fit(name: str, homes: Homes) -> None:
    build(name).fit(homes, rng=np.random.default_rng(0))


@pytest.mark.parametrize("method", ["recrules", "takg"])
def test_features(benchmark: BenchmarkFixture, saved: SavedHomes, scale: str, method: str) -> None:
    """Counting all homes and the features of one draw of training candidates; of the loop, only the features."""
    pytest.importorskip("sklearn", reason=f"{method} needs the extra learn")
    from fedrule.evidence.rule_paths import PATHS
    from fedrule.methods.features.recrules import RecRules, RuleGraph
    from fedrule.methods.features.takg import KnowledgeGraph, TaKG

    options = RecRules() if method == "recrules" else TaKG()
    homes = datasets.load("saved", path=saved(FEATURES[scale], merged=True))

    def count() -> RuleGraph | KnowledgeGraph:
        return RuleGraph.of(homes, PATHS) if method == "recrules" else KnowledgeGraph.of(homes)

    sampler = ExampleSampler.of(
        homes, count().valid, hidden=options.hidden_rules, non_rules="feasible", per_rule=options.non_rules
    )
    drawn = sampler.draw(np.random.default_rng(0))
    benchmark.pedantic(lambda: count().features(drawn.context, drawn.candidates), rounds=3)
    plain = plain_fit(method, homes, SAMPLE)
    note_ratio(benchmark, homes.n_homes, seconds(plain.work) / plain.homes, candidates=float(len(drawn.candidates)))
