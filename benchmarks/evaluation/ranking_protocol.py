"""Protocol `ranking`: is the hidden rule near the top of the list of everything the home could automate?

Gains are averaged over hidden rules; `mrr_home` and `hr@10_home` average over homes instead. A plain name is with the
valid filter, "<name>, all" without it. A rule whose triple was never seen in training cannot be found under the
filter and counts as a miss there (`unseen` says how many); so does one that the model cannot answer (`unanswered`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from baselines.method import Fitted
from benchmarks.evaluation.evaluation import Evaluation
from benchmarks.evaluation.metrics import Values, discounted_gain, hits, mean, mean_by, reciprocal_rank
from benchmarks.evaluation.ranking import Ranks, rank_hidden
from benchmarks.evaluation.scoring import allows_self_pairs, hidden_part, narrow
from datasets.homes import Array, Mask
from datasets.splits import Hidden, Split
from datasets.valid import ValidRules

LONGEST = 50  # the hit-rate curve goes from 1 to here
HITS = (1, 3, 5, 10, 20, 50)  # the points of the curve that homes and slices carry as well
SIZES = ((1, 2), (3, 5), (6, 10), (11, 20), (21, None))  # devices of a home, both ends included


def evaluate_ranking(fitted: Fitted, split: Split, *, part: str, chunk: int) -> Evaluation:
    """Valid are the triples that the model was trained on, those of `split.train`."""
    valid = ValidRules.of(split.train)
    homes, (rules,) = narrow(hidden_part(split, part))
    ranks = rank_hidden(fitted, Hidden(homes, rules), valid=valid, self_pairs=allows_self_pairs(split), chunk=chunk)
    seen = valid.contains(homes.device_type[rules.trigger], homes.device_type[rules.action], rules.relation)
    answered = ~np.isnan(ranks.score)
    gains = _gains(ranks)

    summary = _counts(rules.home, seen, answered)
    for name, rank in (("", ranks.valid), (", all", ranks.every)):
        summary |= {f"hr@{n}{name}": mean(hits(rank, n)) for n in range(1, LONGEST + 1)}
    summary |= {name: mean(gain) for name, gain in gains.items()}
    for name in ("mrr", "hr@10", "mrr, all", "hr@10, all"):
        metric, comma, every = name.partition(",")
        summary[f"{metric}_home{comma}{every}"] = mean(mean_by(gains[name], rules.home, homes.n_homes))
    devices = np.diff(homes.device_start)
    for name, chosen in _slices(devices[rules.home], seen):
        counts = _counts(rules.home[chosen], seen[chosen], answered[chosen])
        part_of = counts | {metric: mean(gain[chosen]) for metric, gain in gains.items()}
        summary |= {f"{name}: {metric}": value for metric, value in part_of.items()}

    home_table = pd.DataFrame(
        {
            "user": homes.users,
            "devices": devices,
            "candidates": ranks.n_valid,
            "candidates, all": ranks.n_every,
            "n_hidden": np.bincount(rules.home),
            "unseen": np.bincount(rules.home, ~seen).astype(np.int64),
            "unanswered": np.bincount(rules.home, ~answered).astype(np.int64),
        }
        | {name: mean_by(gain, rules.home, homes.n_homes) for name, gain in gains.items()}
    )
    rule_table = pd.DataFrame(
        {
            "user": homes.users[rules.home],
            "trigger": homes.device_ids[rules.trigger],
            "action": homes.device_ids[rules.action],
            "relation": rules.relation,
            "devices": devices[rules.home],
            "seen": seen,
            "score": ranks.score,
            "rank": ranks.valid,
            "rank, all": ranks.every,
        }
    )
    return Evaluation("ranking", summary, rule_table, home_table)


def _gains(ranks: Ranks) -> dict[str, Values]:
    """The main metrics of each hidden rule by name."""
    gains: dict[str, Values] = {}
    for name, rank in (("", ranks.valid), (", all", ranks.every)):
        gains |= {f"hr@{n}{name}": hits(rank, n) for n in HITS}
        gains[f"mrr{name}"] = reciprocal_rank(rank)
        gains[f"mrr@50{name}"] = reciprocal_rank(rank, 50)
        gains[f"ndcg@10{name}"] = discounted_gain(rank, 10)
    return gains


def _counts(home: Array, seen: Mask, answered: Mask) -> dict[str, float]:
    """How many there are; `home` is sorted."""
    return {
        "hidden": float(len(home)),
        "homes": float(np.count_nonzero(np.diff(home, prepend=-1))),
        "unseen": float(np.count_nonzero(~seen)),
        "unanswered": float(np.count_nonzero(~answered)),
    }


def _slices(devices: Array, seen: Mask) -> Iterator[tuple[str, Mask]]:
    """Hidden rules by whether their triple was seen in training, and by the size of their home."""
    yield "seen", seen
    yield "unseen", ~seen
    for least, most in SIZES:
        name = f"devices {least}-{most}" if most else f"devices >{least - 1}"
        yield name, (devices >= least) & (devices <= (most or np.inf))
