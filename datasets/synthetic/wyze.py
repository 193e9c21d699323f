"""Synthetic Wyze homes: a model of how homes come to own devices and to automate them, at published sizes.

What is assumed, in the order in which a home comes about:
- Sizes. A published set fixes how many homes, devices and rules there are and how they spread (presets.py; what the
  paper does not publish is shaped like the public set, with four devices a home). Homes with more devices tend to
  have more rules; every home has at least one. `homes` scales totals in proportion and keeps the vocabularies.
- Ownership. A home buys by a profile (cameras, security kit, lighting, ...) and now and then by a second one, which
  makes types occur together; one device in three is one more of a type that it has. The first can carry a rule by
  itself, the second is rather one that starts rules. Cloud (preset `public`) is no device but the vendor's services:
  one id for all homes, in a home only where a rule uses it, and counted among its devices.
- Zones. Devices stand in rooms or in the garden. Zones are never part of the data; they show only in its rules.
- Intents. A home wants two things (security, lighting, comfort, energy, safety, routine), the main one half the time
  suggested by its profile; a zone follows one of them, or its own. Intents are never part of the data either.
- Rules. 60 % start from a wish: a device that is much used notices something; the intent of its zone (seldom of the
  home, or none in particular) decides what is wanted; a device answers, rather one in the same zone, now and then the
  same one. The others follow from the rule before: its companion for the same two devices (Open -> Power On, then
  Close -> Power Off), or the same for one more device of the type, in either place.
- Catalogue. A rule is possible where the trigger's type has the state and the actor's type the action. How much it is
  liked depends on how well both serve the intent, on whether they start or end things alike, and on taste; out of all
  that is possible a fixed part is offered, the same for every seed.
- Popularity. Relations occur as unevenly as published, or (paper) in a similar heavy tail; else the model decides.
- Exactness. At full size under 0.5 % of rules are drawn anew or replaced, so that what was published as a count is met:
  every rule of the catalogue occurs (paper), relations occur at least 20 times or at most so often (public).

So the next rule shows in what is popular, in which rules go together over homes (intents, companions), and in which
very device is already wired to which (zones, habits, how much a device is used); none of these decides it alone. The
strengths are round numbers, set so that random order, popularity, an item-item model and plain counts of what a device
is wired to already differ clearly and none gets nearly everything right. No trained graph model was looked at.
"""

from __future__ import annotations

import numpy as np

from datasets.common.errors import unknown
from datasets.homes import Homes, Provenance, Rules
from datasets.registry import dataset
from datasets.synthetic.catalogue import Catalogue, catalogue
from datasets.synthetic.exact import every_rule_once, often_seen
from datasets.synthetic.households import Households, furnish
from datasets.synthetic.presets import PRESETS, rules_by_rank, sizes
from datasets.synthetic.room import room, roomy
from datasets.synthetic.settle import settle
from datasets.synthetic.whole import LARGEST_SEED, whole
from datasets.synthetic.wiring import Draft, Wirer, draft

NAME = "wyze-synthetic"
MOST_HOMES = 10_000_000  # beyond this, numbers that stand for (device, device, relation) would not fit 63 bits
ALONE = 5  # rules that a type must be able to have with itself to be the first device of a home


@dataset(NAME)
def wyze_synthetic(*, preset: str = "paper", homes: int | None = None, seed: int = 0) -> Homes:
    """Smart homes made up after a published set: presets `paper` and `public`; `homes` for fewer, `seed` for others."""
    if preset not in PRESETS:
        raise unknown(f"preset of {NAME}", preset, PRESETS)
    chosen = PRESETS[preset]
    n_homes = chosen.homes if homes is None else whole(NAME, "homes", homes, least=1, most=MOST_HOMES)
    rng = np.random.default_rng([whole(NAME, "seed", seed, least=0, most=LARGEST_SEED), chosen.homes])
    cat = catalogue(chosen.types, chosen.n_relations, chosen.n_typed, every_feature=chosen.seen_often > 0)

    n_rules, n_devices = sizes(chosen, n_homes, rng)
    cloud = np.flatnonzero((rng.random(n_homes) < chosen.cloud) & (n_devices >= 2))
    starters = np.bincount(cat.trigger_type[cat.alone], minlength=len(cat.types)) >= ALONE
    lived = furnish(n_devices, cat.types, starters, cloud, rng)
    n_rules = roomy(n_rules, room(lived, cat))
    wirer = Wirer(lived, cat, np.ones(len(cat.relations)), rng)
    drafted = draft(wirer, n_rules, cloud)
    wirer, settled = settle(wirer, drafted, rules_by_rank(chosen) * (n_rules.sum() / chosen.rules))
    full = n_homes == chosen.homes
    if full and chosen.every_typed:
        settled = every_rule_once(wirer, settled)
    if full and chosen.seen_often:
        settled = often_seen(wirer, settled, chosen.seen_often, chosen.most)
    note = f"{n_homes:,} homes, not {chosen.homes:,}: counts are in proportion and not laid beside the published ones"
    provenance = Provenance(
        source=f"generated: {NAME}, preset {preset}, homes {n_homes}, seed {seed}",
        notes=() if full else (note,),
        published=chosen.published if full else "",
    )
    return _homes(lived, cat, settled, provenance)


def _homes(lived: Households, cat: Catalogue, drafted: Draft, provenance: Provenance) -> Homes:
    """Homes under names: vocabularies sorted, devices numbered from 1 and Cloud 0, as one device of all homes."""
    types, relations = sorted(cat.types), sorted(cat.relations)
    type_number = np.array([types.index(t) for t in cat.types])
    relation_number = np.array([relations.index(r) for r in cat.relations])
    thing = np.array(cat.types)[lived.device_type] != "Cloud"
    return Homes(
        name=NAME,
        types=tuple(types),
        relations=tuple(relations),
        users=np.arange(1, lived.n_homes + 1),
        device_home=lived.device_home,
        device_type=type_number[lived.device_type],
        device_ids=np.where(thing, np.cumsum(thing), 0),
        rules=Rules(drafted.home, drafted.trigger, drafted.action, relation_number[cat.relation[drafted.rule]]),
        provenance=provenance,
    )
