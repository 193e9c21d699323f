"""From a draft to rules that stand: relations as popular as they should be, and no rule twice in a home."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.homes import Array, Mask
from datasets.synthetic.draws import Floats, spread_out
from datasets.synthetic.vocabulary import INTENT_USE
from datasets.synthetic.wiring import Draft, Wirer, relate

FITS = 3  # the later ones aim beside the target by what the first missed because of rules drawn anew
PASSES = 3  # of a fit over all rules
PUSH = 1.5  # by which power of a miss popularity is moved: more than 1, as companions and copies answer slowly
PRIOR = 2_000  # rules that what the catalogue holds likely counts for, beside those drawn
DOUBT = 5.0  # rules by which target and outcome are both padded, so that rare relations are not fitted to noise
ROUNDS = 8  # of drawing anew what a home has already, before its remaining choices are listed


def settle(wirer: Wirer, draft: Draft, by_rank: Floats) -> tuple[Wirer, Draft]:
    """The draft with relations, and the wirer that drew them.

    The relation that comes naturally most often is made to occur about `by_rank[0]` times, and so on. What a home would
    have twice, or what makes no sense, is drawn anew.
    """
    likely = np.bincount(wirer.catalogue.relation, wirer.catalogue.likely, len(by_rank))
    rule = relate(wirer, draft)
    natural = _seen(wirer, rule[_stand(wirer, draft, rule)]) + PRIOR * likely / likely.sum()
    target = np.empty(len(by_rank))
    target[np.argsort(-natural, kind="stable")] = by_rank
    wirer = replace(wirer, popularity=target / target.sum() / (natural / natural.sum()))
    aim = target
    for _ in range(FITS):
        wirer = _fit_popularity(wirer, draft, aim)
        rule = relate(wirer, draft)
        settled = redraw(wirer, replace(draft, rule=rule), np.flatnonzero(~_stand(wirer, draft, rule)))
        aim = aim * (target + DOUBT) / (_seen(wirer, settled.rule) + DOUBT)
    return wirer, settled


def _fit_popularity(wirer: Wirer, draft: Draft, aim: Floats) -> Wirer:
    """The wirer with which relations that are not repeats come out in proportion to `aim`."""
    for _ in range(PASSES):
        rule = relate(wirer, draft)
        stands = _stand(wirer, draft, rule)
        seen = _seen(wirer, rule[stands]) * (len(rule) / max(int(stands.sum()), 1))
        wirer = replace(wirer, popularity=wirer.popularity * ((aim + DOUBT) / (seen + DOUBT)) ** PUSH)
    return wirer


def _stand(wirer: Wirer, draft: Draft, rule: Array) -> Mask:
    """[n_rules]: which rules of a draft make sense and are not in their home before."""
    return ~_repeats(wirer, draft.trigger, draft.action, rule, np.zeros(0, dtype=np.int64))


def _seen(wirer: Wirer, rule: Array) -> Array:
    """[n_relations]: how often each relation occurs."""
    return np.bincount(wirer.catalogue.relation[rule], minlength=len(wirer.catalogue.relations))


def redraw(wirer: Wirer, draft: Draft, rows: Array) -> Draft:
    """The draft with other rules in these rows: a new wish of the same home, unlike all that it has."""
    trigger, action, rule = draft.trigger.copy(), draft.action.copy(), draft.rule.copy()
    for _ in range(ROUNDS):
        if not len(rows):
            break
        stands = _others(rows, len(rule))
        taken = np.sort(_keys(wirer, trigger[stands], action[stands], rule[stands]))
        trigger[rows], action[rows], intent = wirer.pairs(draft.home[rows])
        rule[rows] = wirer.rules(trigger[rows], action[rows], intent)
        rows = rows[_repeats(wirer, trigger[rows], action[rows], rule[rows], taken)]
    drawn = replace(draft, trigger=trigger, action=action, rule=rule)
    return _list_choices(wirer, drawn, rows) if len(rows) else drawn


def _others(rows: Array, n: int) -> Mask:
    others = np.ones(n, dtype=bool)
    others[rows] = False
    return others


def _list_choices(wirer: Wirer, draft: Draft, rows: Array) -> Draft:
    """Fill the rows that are still open from a list of all that their homes could yet have."""
    lived, cat, rng = wirer.households, wirer.catalogue, wirer.rng
    homes, needs = np.unique(draft.home[rows], return_counts=True)
    start = lived.start
    chooser, trigger, _ = spread_out(start[homes], start[homes + 1])
    whose, action, _ = spread_out(start[homes][chooser], start[homes + 1][chooser])
    chooser, trigger = chooser[whose], trigger[whose]
    pair = lived.device_type[trigger] * lived.n_types + lived.device_type[action]
    whose, rule, _ = spread_out(cat.pair_start[pair], cat.pair_start[pair + 1])
    chooser, trigger, action = chooser[whose], trigger[whose], action[whose]
    stands = _others(rows, len(draft.home))
    taken = np.sort(_keys(wirer, draft.trigger[stands], draft.action[stands], draft.rule[stands]))
    free = ~_repeats(wirer, trigger, action, rule, taken)
    chooser, trigger, action, rule = chooser[free], trigger[free], action[free], rule[free]
    wanted = np.array(INTENT_USE) @ cat.appeal * wirer.popularity[cat.relation]
    # The smallest of exponential times with these rates come first: a draw without putting back.
    order = np.lexsort((rng.exponential(size=len(rule)) / wanted[rule], chooser))
    first = np.searchsorted(chooser[order], np.arange(len(homes)))
    _, take, _ = spread_out(first, first + needs)
    new = order[take]
    rows = rows[np.argsort(draft.home[rows], kind="stable")]
    columns = {"trigger": trigger, "action": action, "rule": rule}
    filled = {name: getattr(draft, name).copy() for name in columns}
    for name, column in columns.items():
        filled[name][rows] = column[new]
    return replace(draft, **filled)


def _keys(wirer: Wirer, trigger: Array, action: Array, rule: Array) -> Array:
    """One number per rule, the same for the same devices and relation."""
    relation = wirer.catalogue.relation[rule]
    return (trigger * wirer.households.n_devices + action) * len(wirer.catalogue.relations) + relation


def _repeats(wirer: Wirer, trigger: Array, action: Array, rule: Array, taken: Array) -> Mask:
    """Which rules stand before among these or among the `taken` keys (sorted), or make no sense on one device."""
    key = _keys(wirer, trigger, action, rule)
    order = np.argsort(key, kind="stable")
    repeats: Mask = np.zeros(len(key), dtype=bool)
    repeats[order[1:]] = np.diff(key[order]) == 0
    if len(taken):
        repeats |= taken[np.minimum(np.searchsorted(taken, key), len(taken) - 1)] == key
    repeats |= (trigger == action) & ~wirer.catalogue.alone[rule]
    return repeats
