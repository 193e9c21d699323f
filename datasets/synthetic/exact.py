"""Small changes that make counts exact: a rule that should occur but does not takes the place of a common one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Mask
from datasets.synthetic.draws import any_of
from datasets.synthetic.households import ANYWHERE
from datasets.synthetic.settle import redraw
from datasets.synthetic.wiring import Draft, Wirer

COMMON = 40  # a rule may give way only if its typed rule occurs more often than this
SEEN = 20  # occurrences from which a relation counts as seen often
TRIES = 4
ENOUGH = 5_000  # rules that may give way to one typed rule; more of them need not be looked at


def every_rule_once(wirer: Wirer, draft: Draft) -> Draft:
    """The same number of rules, in which every typed rule of the catalogue occurs."""
    count = np.bincount(draft.rule, minlength=len(wirer.catalogue.relation))
    return _plant(wirer, draft, np.flatnonzero(count == 0))


def often_seen(wirer: Wirer, draft: Draft, n_often: int, most: int) -> Draft:
    """The same number of rules, in which every relation occurs, `n_often` of them SEEN times, and none over `most`."""
    cat = wirer.catalogue
    count = np.bincount(cat.relation[draft.rule], minlength=len(cat.relations))
    stay = np.bincount(cat.relation[draft.rule[~_may_go(wirer, draft)]], minlength=len(count))
    often = np.zeros(len(count), dtype=bool)
    often[np.lexsort((-count, stay < SEEN))[:n_often]] = True
    middling = (count > 50 * SEEN) & (count < 0.9 * most)
    common = replace(wirer, popularity=np.where(middling, wirer.popularity, 1e-9))
    for _ in range(TRIES):  # a home of odd devices may answer with another rare relation
        draft = redraw(common, draft, _too_many(wirer, draft, np.where(often, most, SEEN - 1)))

    count = np.bincount(cat.relation[draft.rule], minlength=len(cat.relations))
    best = np.argsort(-cat.likely, kind="stable")
    usual = best[np.unique(cat.relation[best], return_index=True)[1]]  # [n_relations]  its likeliest typed rule
    missing = np.where(often, np.maximum(SEEN - count, 0), count == 0)
    return _plant(wirer, draft, np.repeat(usual, missing))


def _too_many(wirer: Wirer, draft: Draft, limit: Array) -> Array:
    """The rules beyond `limit` [n_relations], any of each relation but those that must stay."""
    relation = wirer.catalogue.relation[draft.rule]
    count = np.bincount(relation, minlength=len(limit))
    rows = np.flatnonzero((count > limit)[relation])
    may_go = _may_go(wirer, draft)[rows]
    order = np.lexsort((wirer.rng.random(len(rows)), may_go, relation[rows]))
    relation, may_go, rows = relation[rows][order], may_go[order], rows[order]
    place = np.arange(len(rows)) - np.searchsorted(relation, relation)
    return np.sort(rows[(place >= limit[relation]) & may_go])


def _may_go(wirer: Wirer, draft: Draft) -> Mask:
    """[n_rules]: all but the first rule of a home with Cloud, the one that it has Cloud for."""
    first = np.concatenate([[True], np.diff(draft.home) > 0])
    zone = wirer.households.zone
    stays: Mask = first & ((zone[draft.trigger] == ANYWHERE) | (zone[draft.action] == ANYWHERE))
    return ~stays


def _plant(wirer: Wirer, draft: Draft, wanted: Array) -> Draft:
    """Put each wanted typed rule into a home that owns its types and lacks it, in place of a common rule.

    Where too few homes can take one in, the counts that were promised cannot be met, which is an error.
    """
    lived, cat, rng = wirer.households, wirer.catalogue, wirer.rng
    trigger, action, rule = draft.trigger.copy(), draft.action.copy(), draft.rule.copy()
    common = np.bincount(rule, minlength=len(cat.relation)) > COMMON
    rows = rng.permutation(np.flatnonzero(common[rule] & _may_go(wirer, draft)))
    home = draft.home[rows]
    owned, type_start = lived.owned() > 0, lived.type_start
    owners = [np.flatnonzero(owned[home, t]) for t in range(lived.n_types)]
    free = np.ones(len(rows), dtype=bool)
    for typed, times in zip(*np.unique(wanted, return_counts=True), strict=True):
        types = cat.trigger_type[typed], cat.action_type[typed]
        rarer, other = sorted(types, key=lambda t: len(owners[t]))
        fits = owners[rarer][owned[home[owners[rarer]], other] & free[owners[rarer]]][:ENOUGH]
        fits = fits[~np.isin(home[fits], draft.home[rule == typed])]
        chosen = fits[np.sort(np.unique(home[fits], return_index=True)[1])][:times]  # one to a home
        if len(chosen) < times:
            raise DataError(_no_host(wirer, typed, int(times), len(chosen)))
        free[chosen] = False
        key = home[chosen] * lived.n_types
        at = rows[chosen]
        trigger[at], action[at] = (any_of(type_start[key + t], type_start[key + t + 1], rng) for t in types)
        if types[0] == types[1] and cat.alone[typed]:
            action[at] = trigger[at]
        rule[at] = typed
    return replace(draft, trigger=trigger, action=action, rule=rule)


def _no_host(wirer: Wirer, typed: int, times: int, hosts: int) -> str:
    cat = wirer.catalogue
    state, action = cat.relations[cat.relation[typed]]
    rule = f"{cat.types[cat.trigger_type[typed]]}, {state} -> {action}, {cat.types[cat.action_type[typed]]}"
    return (
        f"wyze-synthetic: <{rule}> must occur {times} more times and only {hosts} homes can take it in; "
        "choose another seed, or another number of homes, for which no counts are promised"
    )
