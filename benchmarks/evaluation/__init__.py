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

    Protocol `paper` also evaluates the part `train`, the training rules themselves, as the paper's curves do.

    `chunk` is the number of candidates scored at a time, which changes memory and no number. `seed` draws the non-rules
    of protocol `paper`, and `calibration` turns scores into log-odds for its loss; without one the scores are taken as
    log-odds, and the summary says `calibrated` 0.
    """
    if protocol == "ranking":
        return evaluate_ranking(fitted, split, part=part, chunk=chunk)
    if protocol == "paper":
        return evaluate_paper(fitted, split, part=part, chunk=chunk, seed=seed, calibration=calibration)
    raise unknown("protocol", protocol, PROTOCOLS)
