"""One evaluation for every method: it owns candidates, masking, the valid filter, ties and metrics."""

from __future__ import annotations

from baselines.calibration import Calibration
from baselines.method import Fitted
from baselines.scoring import CHUNK
from benchmarks.evaluation.metrics import Evaluation
from benchmarks.evaluation.paper import evaluate_paper
from benchmarks.evaluation.ranking import evaluate_ranking
from datasets.common.errors import unknown
from datasets.splits import Split

__all__ = ["PROTOCOLS", "Evaluation", "evaluate"]

PROTOCOLS = ("ranking", "paper")


def evaluate(
    fitted: Fitted,
    split: Split,
    protocol: str = "ranking",
    *,
    part: str = "test",
    chunk: int = CHUNK,
    seed: int = 0,
    calibration: Calibration | None = None,
) -> Evaluation:
    """How well a model fitted on `split.train` finds the hidden rules of a part (`test` or `validation`).

    Protocol `paper` also answers for the part `train`: the rules that the model was told, as the paper's curves ask.

    `chunk` is how many candidates are scored at a time: memory, and no number, depends on it. `seed` draws the
    non-rules of the `paper` protocol, and `calibration` turns scores into log-odds for its loss; without one the
    scores are taken for log-odds, and the summary says `calibrated` 0.
    """
    if protocol == "ranking":
        return evaluate_ranking(fitted, split, part=part, chunk=chunk)
    if protocol == "paper":
        return evaluate_paper(fitted, split, part=part, chunk=chunk, seed=seed, calibration=calibration)
    raise unknown("protocol", protocol, PROTOCOLS)
