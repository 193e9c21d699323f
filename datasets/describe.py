"""What homes hold, as named numbers that can be laid beside published ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from datasets.homes import Array, Homes, Provenance
from datasets.published import PUBLISHED, Published

PER_HOME = ("mean", "median", "90 %", "max", "share = 2", "share <= 5", "share <= 10")


@dataclass(frozen=True, slots=True)
class Description:
    """Named statistics of homes; print it, or compare it with what was published."""

    name: str
    fingerprint: str
    statistics: dict[str, float]
    provenance: Provenance

    @property
    def published(self) -> Published:
        """What was published about this data, or about the data it imitates."""
        return PUBLISHED.get(self.provenance.published, PUBLISHED[""])

    def beside(self) -> pd.DataFrame:
        """Ours, the published and the difference in per cent; blank where nothing was published."""
        table = pd.DataFrame({"ours": pd.Series(self.statistics, dtype=float)})
        table["published"] = table.index.map(self.published.statistics).astype(float)
        table["difference %"] = 100 * (table["ours"] / table["published"] - 1)
        return table

    def __str__(self) -> str:
        width = max(len(name) for name in self.statistics)
        lines = [f"{self.name} (fingerprint {self.fingerprint})"]
        lines += [f"  {name:<{width}}  {number(value)}" for name, value in self.statistics.items()]
        lines += [f"  read: {what} {count:,}" for what, count in self.provenance.counts.items()]
        lines += [f"  note: {note}" for note in self.provenance.notes]
        lines += [f"  skipped: {skipped}" for skipped in self.provenance.skipped]
        return "\n".join(lines)


def describe(homes: Homes) -> Description:
    """Counts over everything, and distributions over all homes and over those with at least two rules."""
    return Description(homes.name, homes.fingerprint, statistics(homes), homes.provenance)


def statistics(homes: Homes) -> dict[str, float]:
    """Statistics by name; a share of nothing is 0."""
    devices, rules = np.diff(homes.device_start), np.diff(homes.rule_start)
    some = rules >= 2
    trigger_type, relation, action_type = homes.typed()
    by_relation = np.sort(np.bincount(relation, minlength=len(homes.relations)))[::-1]
    result: dict[str, float] = {
        "homes": homes.n_homes,
        "devices": homes.n_devices,
        "rules": homes.n_rules,
        "entity types": len(homes.types),
        "trigger states": len({r.trigger for r in homes.relations}),
        "actions": len({r.action for r in homes.relations}),
        "relations": len(homes.relations),
        "relations seen >= 20 times": int((by_relation >= 20).sum()),
        "distinct rules": len(np.unique(typed_rule(homes))),
        "rules of a device with itself": int((homes.rules.trigger == homes.rules.action).sum()),
        "homes with several devices of one type": homes_with_twins(homes),
        "homes with >= 2 rules": int(some.sum()),
        "rules per home, mean": _mean(rules),
        "devices per home, mean": _mean(devices),
    }
    for what, values in (("devices", devices[some]), ("rules", rules[some])):
        result |= {f"{what} per home with >= 2 rules, {k}": v for k, v in per_home(values).items()}
    result |= {
        "rules of the commonest relation": int(by_relation[:1].sum()),
        "share of rules in the top 10 relations": share(by_relation[:10].sum(), homes.n_rules),
        "share of rules in the top half of relations": share(
            by_relation[: (len(by_relation) + 1) // 2].sum(), homes.n_rules
        ),
    }
    if homes.rules.group is not None:
        groups = np.unique(np.stack([homes.rules.home, homes.rules.group]), axis=1)
        result["automations (groups of rules)"] = groups.shape[1]
    if "Cloud" in homes.types:
        cloud = homes.types.index("Cloud")
        touching = (trigger_type == cloud) | (action_type == cloud)
        result["share of rules that touch Cloud"] = share(touching.sum(), homes.n_rules)
    return result


def per_home(values: Array) -> dict[str, float]:
    """Mean, quantiles and shares of a count per home, under the names in PER_HOME."""
    if len(values) == 0:
        return dict.fromkeys(PER_HOME, 0.0)
    median, ninety = np.quantile(values, [0.5, 0.9]).tolist()
    shares = [share(hits.sum(), len(values)) for hits in (values == 2, values <= 5, values <= 10)]
    return dict(zip(PER_HOME, [_mean(values), median, ninety, int(values.max()), *shares], strict=True))


def number(value: float) -> str:
    """A count with thousands marks, anything else with four digits."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.4g}"


def typed_rule(homes: Homes) -> Array:
    """[n_rules]: one number per rule, equal for equal (trigger type, relation, action type)."""
    trigger, relation, action = homes.typed()
    return (trigger * max(len(homes.relations), 1) + relation) * max(len(homes.types), 1) + action


def home_and_type(homes: Homes) -> Array:
    """[n_devices]: one number per device, equal for devices of one type in one home."""
    return homes.device_home * max(len(homes.types), 1) + homes.device_type


def homes_with_twins(homes: Homes) -> int:
    """How many homes have several devices of one type."""
    key = np.sort(home_and_type(homes))
    return len(distinct(key[1:][np.diff(key) == 0] // max(len(homes.types), 1)))


def distinct(values: Array) -> Array:
    """Sorted, each once; for many distinct numbers sorting is faster than the hashing of np.unique."""
    values = np.sort(values)
    return values[np.concatenate([[True], np.diff(values) > 0])] if len(values) else values


def share(part: np.integer | int, whole: int) -> float:
    """A part of a whole; a share of nothing is 0."""
    return float(part) / whole if whole else 0.0


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0
