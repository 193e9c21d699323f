"""Synthetic IFTTT users: people who connect their apps, as many as the paper counts, without anybody's data.

Assumptions:
- 53 services have triggers and actions, in 132 pairs, named as in the paper's table of IFTTT entities and pairs and
  extended in the same manner. A rule makes sense where one service has the trigger, the other the action, and the two
  are a pair. Of all these, 3,020 are in circulation: each was set up by somebody first, and their fame is log-normal.
- A person has interests (social, reading, home, ...), wants some things more than others (share, archive, plan,
  notify, control), has an Android phone or an iPhone, and likes each single service more or less.
- People copy: lists of recommended rules, each the favourites of one curator, are followed by some, a few by many,
  mostly by people of similar taste. A follower adopts most rules of a list.
- The probability to adopt a rule is fame x liking of both services x what the person wants x lists x noise. The number
  of rules is heavy-tailed: most people have about fifty, a few have hundreds.
So the next rule depends on the services at hand and how they are already connected, which a graph sees; on rules that
occur together in lists, which a user-item matrix sees; and on popularity, which both see. The strengths were set by
comparing marginals (rules and services per user, popularity) and the hit rates of random, popularity and linear
item-item ranking with the real RecRules data; no graph model was used.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from datasets.homes import Array, Homes, Mask, Provenance
from datasets.readers.join import DeviceColumns, RuleColumns, assemble
from datasets.registry import dataset
from datasets.synthetic.draws import LARGEST_SEED, Floats, check_integer

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _expand(table: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """The lists of a table, with the members of a group in place of its @name."""
    groups = {f"@{name}": members for name, members in _TABLES["groups"].items()}
    return {key: tuple(chain.from_iterable(groups.get(name, [name]) for name in names)) for key, names in table.items()}


WIDESPREAD: tuple[str, ...] = tuple(_TABLES["widespread"])
INTERESTS, PHONES = _expand(_TABLES["interests"]), _expand(_TABLES["phones"])
TRIGGERS, PAIRS = _expand(_TABLES["triggers"]), _expand(_TABLES["pairs"])
ACTIONS = {wish: _expand(actions) for wish, actions in _TABLES["actions"].items()}

NAME = "ifttt-synthetic"
USERS, RULES, IN_CIRCULATION = 144, 8_729, 3_020  # the paper, section 4.1
MOST_HOMES = 1_000_000  # about 61 rules each, whose names are held as text while homes are put together
BLOCK = 512  # people drawn at a time; part of what a seed means

# Strengths on the scale of log-odds, each a standard deviation unless said otherwise.
FAME = 1.8
WIDE = 1.5  # more, for a service that nearly everybody has
LIKING = 1.5  # of a single service
INTEREST = 2.0
WISH = 0.7
OTHER_PHONE = 5.0  # less
ITSELF = 3.0  # less, for a service that acts on its own trigger
N_LISTS, LIST_SIZE = 20, 40
REACH, REACH_FALL = 0.5, 1.2  # the share of people who follow the best-known list, and how fast that falls with rank
FOLLOWED = 8.0  # more, for a rule on a list that the person follows

# Share of people, median number of rules, spread of its logarithm: beginners, regulars, enthusiasts.
ACTIVITY = ((0.24, 19.0, 0.4), (0.69, 56.0, 0.25), (0.07, 200.0, 0.6))
MOST = 600

SERVICES = tuple(sorted({service for services in INTERESTS.values() for service in services}))
WISHES = tuple(ACTIONS)


@dataclass(frozen=True, slots=True)
class Circulation:
    """The rules in circulation; columns [n_rules]."""

    trigger: tuple[str, ...]
    action: tuple[str, ...]
    trigger_service: Array
    action_service: Array
    wish: Array
    fame: Floats

    def take(self, which: Array) -> Circulation:
        return Circulation(
            tuple(self.trigger[i] for i in which.tolist()),
            tuple(self.action[i] for i in which.tolist()),
            self.trigger_service[which],
            self.action_service[which],
            self.wish[which],
            self.fame[which],
        )


@dataclass(frozen=True, slots=True)
class People:
    """What people like, on the scale of log-odds."""

    service: Floats  # [n_people, n_services]
    wish: Floats  # [n_people, n_wishes]

    def liking(self, rules: Circulation) -> Floats:
        """[n_people, n_rules]: the log of how likely each adopts each rule, before lists and noise."""
        return (
            rules.fame
            + self.service[:, rules.trigger_service]
            + self.service[:, rules.action_service]
            + self.wish[:, rules.wish]
        )


@dataset(NAME)
def ifttt_synthetic(*, homes: int | None = None, seed: int = 0) -> Homes:
    """Synthetic people and their apps, with the paper's counts: 144 users, 8,729 rules, 53 services, 132 pairs.

    homes: fewer than 144 draws so many of the 144 people; with more, more people adopt the same 3,020 rules
    """
    n_homes = USERS if homes is None else check_integer(NAME, "homes", homes, least=1, most=MOST_HOMES)
    n_people = max(n_homes, USERS)
    rng = np.random.default_rng(check_integer(NAME, "seed", seed, least=0, most=LARGEST_SEED))
    rules = in_circulation(rng)
    lists, reach, curators = recommended(rules, rng)
    n_rules = activity(n_people, rng)
    user, taken = [], []
    for first in range(0, n_people, BLOCK):
        size = min(BLOCK, n_people - first)
        people = draw_people(size, rng)
        follows = rng.random((size, N_LISTS)) < reach * similarity(people, curators)
        score = (
            people.liking(rules)
            + FOLLOWED * (follows.astype(float) @ lists > 0)
            + rng.gumbel(size=(size, IN_CIRCULATION))
        )
        quota = n_rules[first : first + size]
        if first == 0:
            score[originators(score, quota), np.arange(IN_CIRCULATION)] = np.inf
        who, which = np.nonzero(adopt(score, quota))
        user.append(first + who)
        taken.append(which)
    full = n_homes == USERS
    note = f"{n_homes:,} homes, not {USERS}: counts are not compared with the published ones"
    provenance = Provenance(
        source=f"generated: {NAME}, homes {n_homes}, seed {seed}",
        notes=() if full else (note,),
        published="ifttt-paper" if full else "",
    )
    chosen = rng.permutation(n_people)[:n_homes]
    return _homes(rules, np.concatenate(user), np.concatenate(taken), chosen, provenance)


def in_circulation(rng: np.random.Generator) -> Circulation:
    """The best-known 3,020 of the rules that make sense, among them one of every pair and one of every service."""
    position = {service: i for i, service in enumerate(SERVICES)}
    does = {action: (services, wish) for wish, actions in ACTIONS.items() for action, services in actions.items()}
    sensible = [
        (trigger, action, position[notices], position[acts], WISHES.index(does[action][1]))
        for trigger, actions in PAIRS.items()
        for action in actions
        for notices in TRIGGERS[trigger]
        for acts in does[action][0]
    ]
    triggers, actions, notices, acts, wish = zip(*sensible, strict=True)
    trigger_service, action_service = np.array(notices), np.array(acts)
    fame = FAME * rng.standard_normal(len(sensible)) - ITSELF * (trigger_service == action_service)
    known = fame + rng.gumbel(size=len(sensible))
    order = np.argsort(-known)
    pair = np.unique(np.array([f"{t}\t{a}" for t, a in zip(triggers, actions, strict=True)]), return_inverse=True)[1]
    firsts = [order[np.unique(key[order], return_index=True)[1]] for key in (pair, trigger_service, action_service)]
    chosen = np.unique(np.concatenate(firsts))
    others = order[~np.isin(order, chosen)]
    kept = np.sort(np.concatenate([chosen, others[: IN_CIRCULATION - len(chosen)]]))
    return Circulation(triggers, actions, trigger_service, action_service, np.array(wish), fame).take(kept)


def draw_people(size: int, rng: np.random.Generator) -> People:
    """Tastes from interests, the phone and what is left over."""
    member = np.array([[service in services for service in SERVICES] for services in INTERESTS.values()], dtype=float)
    interest = INTEREST * rng.standard_normal((size, len(INTERESTS))) @ (member / np.sqrt(member.sum(axis=0)))
    phone = rng.integers(len(PHONES), size=size)
    needs = np.array([[service in services for service in SERVICES] for services in PHONES.values()])
    other = needs.any(axis=0) & ~needs[phone]
    wide = WIDE * np.array([service in WIDESPREAD for service in SERVICES])
    service = wide + interest + LIKING * rng.standard_normal((size, len(SERVICES))) - OTHER_PHONE * other
    return People(service, WISH * rng.standard_normal((size, len(WISHES))))


def recommended(rules: Circulation, rng: np.random.Generator) -> tuple[Floats, Floats, People]:
    """Lists of rules as rows of zeros and ones, the share of people who follow each, and the curators."""
    curators = draw_people(N_LISTS, rng)
    score = curators.liking(rules) + rng.gumbel(size=(N_LISTS, IN_CIRCULATION))
    reach = REACH * np.arange(1.0, N_LISTS + 1) ** -REACH_FALL
    return adopt(score, np.full(N_LISTS, LIST_SIZE)).astype(float), reach, curators


def similarity(people: People, others: People) -> Floats:
    """[n_people, n_others]: similarity of taste between 0 and 2, 1 for unrelated tastes."""
    mine, theirs = (who.service - who.service.mean(axis=1, keepdims=True) for who in (people, others))
    size = np.linalg.norm(mine, axis=1)[:, None] * np.linalg.norm(theirs, axis=1)
    cosine: Floats = mine @ theirs.T / size
    return 1 + cosine


def activity(n_people: int, rng: np.random.Generator) -> Array:
    """How many rules each has; beginners, regulars and enthusiasts, on average exactly as many as in the paper."""
    group = rng.choice(len(ACTIVITY), size=n_people, p=[share for share, _, _ in ACTIVITY])
    median, spread = np.array([(median, spread) for _, median, spread in ACTIVITY]).T
    wanted = np.minimum(median[group] * np.exp(spread[group] * rng.standard_normal(n_people)), MOST)
    total = round(n_people * RULES / USERS)
    exact = wanted * (total - n_people) / wanted.sum()
    count: Array = np.floor(exact).astype(np.int64)
    short = total - n_people - int(count.sum())
    count[np.argsort(count - exact, kind="stable")[:short]] += 1  # the largest remainders
    return 1 + count


def adopt(score: Floats, quota: Array) -> Mask:
    """[n_people, n_rules]: each person's highest scores, as many as its quota."""
    order = np.argsort(-score, axis=1, kind="stable")
    taken = np.zeros(score.shape, dtype=bool)
    np.put_along_axis(taken, order, np.arange(score.shape[1]) < quota[:, None], axis=1)
    return taken


def originators(score: Floats, quota: Array) -> Array:
    """[n_rules]: who set up each rule first: whoever is closest to adopting it, or would anyway.

    Nobody originates more rules than their quota: of too many they keep the likeliest, the others go to the next best.
    """
    last = np.take_along_axis(-np.sort(-score, axis=1), quota[:, None] - 1, axis=1)
    margin = score - last
    rule = np.arange(score.shape[1])
    while True:
        who: Array = margin.argmax(axis=0)
        order = np.lexsort((-margin[who, rule], who))
        place = np.arange(len(rule)) - np.searchsorted(who[order], who[order])
        refused = order[place >= quota[who[order]]]
        if len(refused) == 0:
            return who
        margin[who[refused], refused] = -np.inf


def _homes(rules: Circulation, user: Array, taken: Array, chosen: Array, provenance: Provenance) -> Homes:
    keep = np.isin(user, chosen)
    user, taken = user[keep], taken[keep]
    names, triggers, actions = (np.array(texts, dtype=object) for texts in (SERVICES, rules.trigger, rules.action))
    trigger_service, action_service = rules.trigger_service[taken], rules.action_service[taken]
    used = np.unique(np.concatenate([user, user]) * len(SERVICES) + np.concatenate([trigger_service, action_service]))
    service = names[used % len(SERVICES)]
    return assemble(
        NAME,
        DeviceColumns(user=used // len(SERVICES), id=service, type=service),
        RuleColumns(user, names[trigger_service], triggers[taken], actions[taken], names[action_service]),
        provenance,
    )
