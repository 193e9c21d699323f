"""What the paper reports: Yao et al., FedRule: Federated Rule Recommendation System with Graph Neural Networks.

Its tables of final test results; AUC, mean rank (MR), and mean rank with the rules of the training graph removed
(MR(RT)). Its hit rates are read from figures, so only the one that its text gives is here.
"""

from __future__ import annotations

PAPER_METHODS = ("graphrule", "fedgnn", "fedrule")  # of its curves by round, final results and federated hit rates
METRICS = ("loss", "auc", "mr", "mr_rt")

# role -> method -> METRICS
RESULTS: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "wyze": {
        "graphrule": (0.1997, 0.9768, 4.349, 3.0970),
        "fedgnn": (0.3878, 0.9521, 6.661, 5.3946),
        "fedrule": (0.1892, 0.9804, 4.156, 2.9150),
    },
    "ifttt": {
        "graphrule": (0.3238, 0.9491, 9.6997, 9.6745),
        "fedgnn": (0.4905, 0.9072, 12.4479, 12.4240),
        "fedrule": (0.3614, 0.9417, 8.8812, 8.8564),
    },
}
HIT_RATE_AT_40 = 0.91  # of GraphRule on Wyze, section 4.2
INFERENCE_MILLISECONDS, INFERENCE_MEGABYTES = 500, 10  # most users got their recommendations with less, section 4.6
