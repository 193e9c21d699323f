"""The ranking evaluation as two loops over homes: plain Python, and NumPy."""

from __future__ import annotations

import numpy as np

from baselines.method import Fitted
from baselines.scoring import allows_self_pairs
from datasets.splits import Split
from datasets.valid import ValidRules


def candidate_by_candidate(fitted: Fitted, made: Split, sample: int) -> list[tuple[float, float]]:
    """Ranks with and without the valid filter: a list of candidates per home, walked through for each hidden rule."""
    homes, hidden = made.test.homes, made.test.rules
    kind, self_pairs = homes.device_type.tolist(), allows_self_pairs(made, "test")
    valid = set(zip(*(column.tolist() for column in made.train.typed()), strict=True))
    start, rule_start = homes.device_start, homes.rule_start
    ranks = []
    for home in np.unique(hidden.home)[:sample].tolist():
        devices = range(start[home], start[home + 1])
        rules = homes.rules.take(np.arange(rule_start[home], rule_start[home + 1]))
        known = set(zip(rules.trigger.tolist(), rules.action.tolist(), rules.relation.tolist(), strict=True))
        pairs = [(trigger, action) for trigger in devices for action in devices if self_pairs or trigger != action]
        table = fitted.score_pairs(homes, *np.array(pairs).T).tolist()
        scores: dict[tuple[int, int, int], float] = {}
        for (trigger, action), row in zip(pairs, table, strict=True):
            for relation, score in enumerate(row):
                if (trigger, action, relation) not in known:
                    scores[trigger, action, relation] = score
        allowed = {cell for cell in scores if (kind[cell[0]], cell[2], kind[cell[1]]) in valid}
        for place in np.flatnonzero(hidden.home == home).tolist():
            rule = int(hidden.trigger[place]), int(hidden.action[place]), int(hidden.relation[place])
            own, both = scores[rule], []
            for some in (allowed, scores.keys()):
                above = sum(scores[cell] > own for cell in some)
                level = sum(scores[cell] == own for cell in some)
                both.append(above + (level + 1) / 2 if rule in some else np.inf)
            ranks.append((both[0], both[1]))
    return ranks


def home_by_home(fitted: Fitted, made: Split, sample: int) -> list[tuple[float, float]]:
    """The same with arrays for the candidates of each home."""
    homes, hidden = made.test.homes, made.test.rules
    kind, self_pairs = homes.device_type, allows_self_pairs(made, "test")
    valid = ValidRules.of(made.train).dense()
    start, rule_start = homes.device_start, homes.rule_start
    ranks = []
    for home in np.unique(hidden.home)[:sample].tolist():
        devices = np.arange(start[home], start[home + 1])
        trigger, action = (side.ravel() for side in np.meshgrid(devices, devices, indexing="ij"))
        if not self_pairs:
            trigger, action = trigger[trigger != action], action[trigger != action]
        scores = fitted.score_pairs(homes, trigger, action)
        row = {pair: number for number, pair in enumerate(zip(trigger.tolist(), action.tolist(), strict=True))}
        for place in range(rule_start[home], rule_start[home + 1]):
            rule = homes.rules.trigger[place], homes.rules.action[place]
            scores[row[rule], homes.rules.relation[place]] = np.nan
        allowed = valid[kind[trigger], kind[action]]
        for place in np.flatnonzero(hidden.home == home).tolist():
            cell = row[hidden.trigger[place], hidden.action[place]], hidden.relation[place]
            own = scores[cell]
            above, level = scores > own, scores == own
            filtered = (above & allowed).sum() + ((level & allowed).sum() + 1) / 2
            ranks.append((float(filtered) if allowed[cell] else np.inf, float(above.sum() + (level.sum() + 1) / 2)))
    return ranks
