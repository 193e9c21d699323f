"""The ranking evaluation as two loops over homes: plain Python, and NumPy."""

from __future__ import annotations

import numpy as np

from baselines.method import Fitted
from baselines.scoring import allows_self_pairs
from datasets.splits import Split
from datasets.valid import ValidRules


def candidate_by_candidate(fitted: Fitted, made: Split, sample: int) -> list[list[int]]:
    """Above and tied, with the valid filter and without: lists of candidates, walked through for each hidden rule."""
    homes, hidden = made.test.homes, made.test.rules
    kind, self_pairs = homes.device_type.tolist(), allows_self_pairs(made, "test")
    valid = set(zip(*(column.tolist() for column in made.train.typed()), strict=True))
    start, rule_start = homes.device_start, homes.rule_start
    places = []
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
                tied = sum(scores[cell] == own for cell in some)
                both += [above, tied] if rule in some else [0, 0]
            places.append(both)
    return places


def home_by_home(fitted: Fitted, made: Split, sample: int) -> list[list[int]]:
    """The same with arrays for the candidates of each home."""
    homes, hidden = made.test.homes, made.test.rules
    kind, self_pairs = homes.device_type, allows_self_pairs(made, "test")
    valid = ValidRules.of(made.train).dense()
    start, rule_start = homes.device_start, homes.rule_start
    places = []
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
            above, tied = scores > own, scores == own
            valid_places = [int((above & allowed).sum()), int((tied & allowed).sum())] if allowed[cell] else [0, 0]
            places.append([*valid_places, int(above.sum()), int(tied.sum())])
    return places
