"""Relations fitted to the published popularity, duplicate rules drawn again, and counts matched exactly.

A rule that should occur but does not replaces a common one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Mask
from datasets.synthetic.catalogue import INTENT_USE
from datasets.synthetic.draws import Floats, any_of, flatten_runs
from datasets.synthetic.households import ANYWHERE, Draft, RuleSampler, relate

FITS = 3  # the later ones correct for what the first missed because of rules drawn again
PASSES = 3  # of a fit over all rules
PUSH = 1.5  # power of the correction of popularity: more than 1, as companions and copies react slowly
PRIOR = 2_000  # weight of the catalogue's likelihoods, in rules, relative to the rules drawn
DOUBT = 5.0  # added to target and outcome, so that rare relations are not fitted to noise
ROUNDS = 8  # of drawing duplicates again, before the remaining choices of a home are listed


def resolve_duplicates(sampler: RuleSampler, draft: Draft, by_rank: Floats) -> tuple[RuleSampler, Draft]:
    """The draft with relations, and the sampler that drew them.

    The relation that is naturally the most common is made to occur about `by_rank[0]` times, and so on. What a home
    would have twice, or what makes no sense, is drawn again.
    """
    likely = np.bincount(sampler.catalogue.relation, sampler.catalogue.likely, len(by_rank))
    rule = relate(sampler, draft)
    natural = _seen(sampler, rule[_is_valid(sampler, draft, rule)]) + PRIOR * likely / likely.sum()
    target = np.empty(len(by_rank))
    target[np.argsort(-natural, kind="stable")] = by_rank
    sampler = replace(sampler, popularity=target / target.sum() / (natural / natural.sum()))
    aim = target
    for _ in range(FITS):
        sampler = _fit_popularity(sampler, draft, aim)
        rule = relate(sampler, draft)
        resolved = redraw(sampler, replace(draft, rule=rule), np.flatnonzero(~_is_valid(sampler, draft, rule)))
        aim = aim * (target + DOUBT) / (_seen(sampler, resolved.rule) + DOUBT)
    return sampler, resolved


def _fit_popularity(sampler: RuleSampler, draft: Draft, aim: Floats) -> RuleSampler:
    """The sampler whose relations, without repeats, are in proportion to `aim`."""
    for _ in range(PASSES):
        rule = relate(sampler, draft)
        valid = _is_valid(sampler, draft, rule)
        seen = _seen(sampler, rule[valid]) * (len(rule) / max(int(valid.sum()), 1))
        sampler = replace(sampler, popularity=sampler.popularity * ((aim + DOUBT) / (seen + DOUBT)) ** PUSH)
    return sampler


def _is_valid(sampler: RuleSampler, draft: Draft, rule: Array) -> Mask:
    """[n_rules]: which rules of a draft make sense and are the first of their kind in the home."""
    return ~_repeats(sampler, draft.trigger, draft.action, rule, np.zeros(0, dtype=np.int64))


def _seen(sampler: RuleSampler, rule: Array) -> Array:
    """[n_relations]: how often each relation occurs."""
    return np.bincount(sampler.catalogue.relation[rule], minlength=len(sampler.catalogue.relations))


def redraw(sampler: RuleSampler, draft: Draft, rows: Array) -> Draft:
    """The draft with other rules in these rows: a new wish of the same home, unlike all that it has."""
    trigger, action, rule = draft.trigger.copy(), draft.action.copy(), draft.rule.copy()
    for _ in range(ROUNDS):
        if not len(rows):
            break
        others = _others(rows, len(rule))
        taken = np.sort(_keys(sampler, trigger[others], action[others], rule[others]))
        trigger[rows], action[rows], intent = sampler.pairs(draft.home[rows])
        rule[rows] = sampler.rules(trigger[rows], action[rows], intent)
        rows = rows[_repeats(sampler, trigger[rows], action[rows], rule[rows], taken)]
    drawn = replace(draft, trigger=trigger, action=action, rule=rule)
    return _list_choices(sampler, drawn, rows) if len(rows) else drawn


def _others(rows: Array, n: int) -> Mask:
    others = np.ones(n, dtype=bool)
    others[rows] = False
    return others


def _list_choices(sampler: RuleSampler, draft: Draft, rows: Array) -> Draft:
    """Fill the rows that are still open from a list of all that their homes could yet have."""
    households, cat, rng = sampler.households, sampler.catalogue, sampler.rng
    homes, needs = np.unique(draft.home[rows], return_counts=True)
    start = households.start
    chooser, trigger, _ = flatten_runs(start[homes], start[homes + 1])
    whose, action, _ = flatten_runs(start[homes][chooser], start[homes + 1][chooser])
    chooser, trigger = chooser[whose], trigger[whose]
    pair = households.device_type[trigger] * households.n_types + households.device_type[action]
    whose, rule, _ = flatten_runs(cat.pair_start[pair], cat.pair_start[pair + 1])
    chooser, trigger, action = chooser[whose], trigger[whose], action[whose]
    others = _others(rows, len(draft.home))
    taken = np.sort(_keys(sampler, draft.trigger[others], draft.action[others], draft.rule[others]))
    free = ~_repeats(sampler, trigger, action, rule, taken)
    chooser, trigger, action, rule = chooser[free], trigger[free], action[free], rule[free]
    wanted = np.array(INTENT_USE) @ cat.appeal * sampler.popularity[cat.relation]
    # The smallest of exponential times with these rates come first: a draw without putting back.
    order = np.lexsort((rng.exponential(size=len(rule)) / wanted[rule], chooser))
    first = np.searchsorted(chooser[order], np.arange(len(homes)))
    _, take, _ = flatten_runs(first, first + needs)
    new = order[take]
    rows = rows[np.argsort(draft.home[rows], kind="stable")]
    columns = {"trigger": trigger, "action": action, "rule": rule}
    filled = {name: getattr(draft, name).copy() for name in columns}
    for name, column in columns.items():
        filled[name][rows] = column[new]
    return replace(draft, **filled)


def _keys(sampler: RuleSampler, trigger: Array, action: Array, rule: Array) -> Array:
    """One number per rule, the same for the same devices and relation."""
    relation = sampler.catalogue.relation[rule]
    return (trigger * len(sampler.households.device_home) + action) * len(sampler.catalogue.relations) + relation


def _repeats(sampler: RuleSampler, trigger: Array, action: Array, rule: Array, taken: Array) -> Mask:
    """Which rules occur earlier among these or among the `taken` keys (sorted), or make no sense on one device."""
    key = _keys(sampler, trigger, action, rule)
    order = np.argsort(key, kind="stable")
    repeats: Mask = np.zeros(len(key), dtype=bool)
    repeats[order[1:]] = np.diff(key[order]) == 0
    if len(taken):
        repeats |= taken[np.minimum(np.searchsorted(taken, key), len(taken) - 1)] == key
    repeats |= (trigger == action) & ~sampler.catalogue.alone[rule]
    return repeats


COMMON = 40  # a rule may give way only if its typed rule occurs more often than this
SEEN = 20  # occurrences from which a relation counts as seen often
TRIES = 4
ENOUGH = 5_000  # rules that may give way to one typed rule; more of them need not be looked at


def every_rule_once(sampler: RuleSampler, draft: Draft) -> Draft:
    """The same number of rules, in which every typed rule of the catalogue occurs."""
    count = np.bincount(draft.rule, minlength=len(sampler.catalogue.relation))
    return _plant(sampler, draft, np.flatnonzero(count == 0))


def often_seen(sampler: RuleSampler, draft: Draft, n_often: int, most: int) -> Draft:
    """The same number of rules, in which every relation occurs, `n_often` of them SEEN times, and none over `most`."""
    cat = sampler.catalogue
    count = np.bincount(cat.relation[draft.rule], minlength=len(cat.relations))
    stay = np.bincount(cat.relation[draft.rule[~_may_go(sampler, draft)]], minlength=len(count))
    often = np.zeros(len(count), dtype=bool)
    often[np.lexsort((-count, stay < SEEN))[:n_often]] = True
    middling = (count > 50 * SEEN) & (count < 0.9 * most)
    common = replace(sampler, popularity=np.where(middling, sampler.popularity, 1e-9))
    for _ in range(TRIES):  # a home of unusual devices may get another rare relation
        draft = redraw(common, draft, _too_many(sampler, draft, np.where(often, most, SEEN - 1)))

    count = np.bincount(cat.relation[draft.rule], minlength=len(cat.relations))
    best = np.argsort(-cat.likely, kind="stable")
    usual = best[np.unique(cat.relation[best], return_index=True)[1]]  # [n_relations]  its likeliest typed rule
    missing = np.where(often, np.maximum(SEEN - count, 0), count == 0)
    return _plant(sampler, draft, np.repeat(usual, missing))


def _too_many(sampler: RuleSampler, draft: Draft, limit: Array) -> Array:
    """The rules beyond `limit` [n_relations], any of each relation but those that must stay."""
    relation = sampler.catalogue.relation[draft.rule]
    count = np.bincount(relation, minlength=len(limit))
    rows = np.flatnonzero((count > limit)[relation])
    may_go = _may_go(sampler, draft)[rows]
    order = np.lexsort((sampler.rng.random(len(rows)), may_go, relation[rows]))
    relation, may_go, rows = relation[rows][order], may_go[order], rows[order]
    place = np.arange(len(rows)) - np.searchsorted(relation, relation)
    return np.sort(rows[(place >= limit[relation]) & may_go])


def _may_go(sampler: RuleSampler, draft: Draft) -> Mask:
    """[n_rules]: all but the first rule of a home with Cloud, the one that it has Cloud for."""
    first = np.concatenate([[True], np.diff(draft.home) > 0])
    zone = sampler.households.zone
    stays: Mask = first & ((zone[draft.trigger] == ANYWHERE) | (zone[draft.action] == ANYWHERE))
    return ~stays


def _plant(sampler: RuleSampler, draft: Draft, wanted: Array) -> Draft:
    """Put each wanted typed rule into a home that owns its types and lacks it, in place of a common rule.

    Too few such homes are an error: the published counts cannot be met.
    """
    households, cat, rng = sampler.households, sampler.catalogue, sampler.rng
    trigger, action, rule = draft.trigger.copy(), draft.action.copy(), draft.rule.copy()
    common = np.bincount(rule, minlength=len(cat.relation)) > COMMON
    rows = rng.permutation(np.flatnonzero(common[rule] & _may_go(sampler, draft)))
    home = draft.home[rows]
    owned, type_start = households.owned() > 0, households.type_start
    owners = [np.flatnonzero(owned[home, t]) for t in range(households.n_types)]
    free = np.ones(len(rows), dtype=bool)
    for typed, times in zip(*np.unique(wanted, return_counts=True), strict=True):
        types = cat.trigger_type[typed], cat.action_type[typed]
        rarer, other = sorted(types, key=lambda t: len(owners[t]))
        fits = owners[rarer][owned[home[owners[rarer]], other] & free[owners[rarer]]][:ENOUGH]
        fits = fits[~np.isin(home[fits], draft.home[rule == typed])]
        chosen = fits[np.sort(np.unique(home[fits], return_index=True)[1])][:times]  # one to a home
        if len(chosen) < times:
            raise DataError(_no_host(sampler, typed, int(times), len(chosen)))
        free[chosen] = False
        key = home[chosen] * households.n_types
        at = rows[chosen]
        trigger[at], action[at] = (any_of(type_start[key + t], type_start[key + t + 1], rng) for t in types)
        if types[0] == types[1] and cat.alone[typed]:
            action[at] = trigger[at]
        rule[at] = typed
    return replace(draft, trigger=trigger, action=action, rule=rule)


def _no_host(sampler: RuleSampler, typed: int, times: int, hosts: int) -> str:
    cat = sampler.catalogue
    state, action = cat.relations[cat.relation[typed]]
    rule = f"{cat.types[cat.trigger_type[typed]]}, {state} -> {action}, {cat.types[cat.action_type[typed]]}"
    return (
        f"wyze-synthetic: <{rule}> must occur {times} more times and only {hosts} homes can have it; "
        "choose another seed, or another number of homes, for which counts are not matched"
    )
