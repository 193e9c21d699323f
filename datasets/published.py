"""Numbers that others have published about these data sets, under the names that `describe` uses.

Facts only, each with where it stands; the data itself is not ours to pass on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """What a source says about its data."""

    source: str
    statistics: dict[str, float]
    data: str = ""  # the data set here that these numbers were counted in; empty where it is not to be had


PUBLISHED = {
    "": Published("nothing published", {}),
    "wyze-paper": Published(
        "Yao et al., FedRule: Federated Rule Recommendation System with Graph Neural Networks, section 4.1",
        {
            "homes": 76_218,
            "rules": 201_940,
            "entity types": 11,
            "relations": 163,
            "distinct rules": 1_207,
            "rules per home, mean": 2.65,
        },
    ),
    "wyze-public": Published(
        "the public Wyze Rule Recommendation data, training part",
        {
            "homes": 272_664,
            "devices": 1_354_098,
            "rules": 852_072,
            "entity types": 16,
            "trigger states": 45,
            "actions": 47,
            "relations": 791,
            "relations seen >= 20 times": 552,
            "homes with >= 2 rules": 149_558,
            "devices per home with >= 2 rules, mean": 6.19,
            "devices per home with >= 2 rules, median": 3,
            "devices per home with >= 2 rules, max": 154,
            "devices per home with >= 2 rules, share <= 5": 0.705,
            "devices per home with >= 2 rules, share <= 10": 0.835,
            "rules per home with >= 2 rules, mean": 4.86,
            "rules per home with >= 2 rules, median": 3,
            "rules per home with >= 2 rules, max": 446,
            "rules per home with >= 2 rules, share = 2": 0.371,
            "rules per home with >= 2 rules, share <= 5": 0.777,
            "rules per home with >= 2 rules, share <= 10": 0.925,
            "rules of the commonest relation": 65_218,
            "share of rules in the top 10 relations": 0.498,
            "share of rules in the top half of relations": 0.985,
            "share of rules that touch Cloud": 0.126,
        },
        data="wyze",
    ),
    "ifttt-paper": Published(
        "Yao et al., FedRule, section 4.1, after Corno et al., RecRules",
        {"homes": 144, "rules": 8_729, "entity types": 53, "relations": 132, "distinct rules": 3_020},
    ),
}
