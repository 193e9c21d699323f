"""Statistics of homes, compared with published ones; how close synthetic homes are to the data that they imitate."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from datasets.homes import Array, Homes, Provenance, distinct


@dataclass(frozen=True, slots=True)
class Published:
    """Facts that others have published about a data set, under the names of `statistics`."""

    source: str
    statistics: dict[str, float]
    data: str = ""  # the data set here that these numbers were counted in; empty if it is not available


PUBLISHED = {"": Published("nothing published", {})} | {
    name: Published(**facts)
    for name, facts in tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8")).items()
}
PER_HOME = ("mean", "median", "90 %", "max", "share = 2", "share <= 5", "share <= 10")
COUNT, SHARE, QUANTILE = 0.01, 0.02, 0.05  # tolerances: 1 % of a count or mean, 2 points of a share, 5 % of a quantile
MET, OFF, NOTHING = "met", "off", ""
QUANTILES = (", median", " %", ", max")  # how the names of quantiles end


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

    def compared(self) -> pd.DataFrame:
        """Ours, the published and the difference in per cent; NaN where nothing was published."""
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
        "homes with several devices of one type": homes_with_repeated_types(homes),
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
    if homes.words is not None:
        one, other = homes.rules.trigger, homes.rules.action
        shared = homes.share_word(one, other) & (one != other)
        result["share of devices with a word"] = share((np.diff(homes.word_start) > 0).sum(), homes.n_devices)
        result["share of rules between devices that share a word"] = share(shared.sum(), homes.n_rules)
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


def homes_with_repeated_types(homes: Homes) -> int:
    """How many homes have several devices of one type."""
    key = np.sort(home_and_type(homes))
    return len(distinct(key[1:][np.diff(key) == 0] // max(len(homes.types), 1)))


def share(part: np.integer | int, whole: int) -> float:
    """A part of a whole; a share of nothing is 0."""
    return float(part) / whole if whole else 0.0


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else 0.0


def fidelity(homes: Homes, real: Homes | None = None) -> pd.DataFrame:
    """One row per statistic: ours, the published (NaN if none), a verdict; then the same for `real`.

    Real data gets a verdict only if it is the data that is imitated (`Published.data`); else it is for information.
    """
    described = homes.describe()
    table = pd.DataFrame({"ours": pd.Series(described.statistics | marginals(homes), dtype=float)})
    table["published"] = table.index.map(described.published.statistics).astype(float)
    table["verdict"] = _verdicts(table, "published")
    if real is not None:
        table["real"] = table.index.map(statistics(real) | marginals(real)).astype(float)
        if is_imitated(homes, real):
            table["verdict on real"] = _verdicts(table, "real")
    return table


def is_imitated(homes: Homes, real: Homes) -> bool:
    """Whether `real` is the data that `homes` imitate."""
    key = homes.provenance.published
    return key in PUBLISHED and PUBLISHED[key].data == real.name != "" and real.provenance.published == key


def marginals(homes: Homes) -> dict[str, float]:
    """Statistics that can be compared between data of different size; a share of nothing is 0."""
    rules = np.diff(homes.rule_start)
    used = np.zeros(homes.n_devices, dtype=bool)
    used[homes.rules.trigger] = used[homes.rules.action] = True
    pairs = distinct(homes.rules.trigger * max(homes.n_devices, 1) + homes.rules.action)
    types = np.bincount(distinct(home_and_type(homes)) // max(len(homes.types), 1), minlength=homes.n_homes)
    result = {f"rules per home, {q} %": _quantile(rules, q) for q in (50, 75, 90, 99)}
    result |= {f"devices per home, {q} %": _quantile(np.diff(homes.device_start), q) for q in (50, 75, 90, 99)}
    return result | {
        "types per home, mean": per_home(types)["mean"],
        "rules per connected pair of devices, mean": share(homes.n_rules, len(pairs)),
        "share of homes with >= 2 rules": share((rules >= 2).sum(), homes.n_homes),
        "share of homes with several devices of one type": share(homes_with_repeated_types(homes), homes.n_homes),
        "share of devices that no rule uses": share((~used).sum(), homes.n_devices),
        "share of rules of a device with itself": share(
            (homes.rules.trigger == homes.rules.action).sum(), homes.n_rules
        ),
        **_popularity(homes),
    }


def report(frame: pd.DataFrame) -> str:
    """The comparison as text, with the misses named at the end."""
    shown = pd.DataFrame({"": frame.index})
    for column in frame:
        numeric = pd.api.types.is_numeric_dtype(frame[column])
        shown[column] = [("-" if pd.isna(v) else number(v)) if numeric else str(v) for v in frame[column]]
    widths = [max(len(str(column)), *(len(v) for v in shown[column]), 0) for column in shown]
    rows = [list(shown.columns), *shown.to_numpy().tolist()]
    lines = [_line(row, widths) for row in rows]
    for column in [c for c in frame if str(c).startswith("verdict")]:
        judged = frame[column] != NOTHING
        off = [str(name) for name in frame.index[frame[column] == OFF]]
        if judged.any():
            against = "real" if "real" in str(column) else "published"
            met = f"{int(judged.sum()) - len(off)} of {int(judged.sum())} {against} numbers are met"
            lines.append(f"{met}; off: {'; '.join(off)}" if off else met)
    if "real" in frame and "verdict on real" not in frame:
        lines.append("real: not the data that is imitated, shown for information only")
    if not (frame["verdict"] != NOTHING).any():
        lines.append("nothing was published about homes of this kind and number: no verdict")
    return "\n".join(lines)


def _line(row: list[str], widths: list[int]) -> str:
    """The name to the left, everything else to the right."""
    cells = [f"{v:<{w}}" if i == 0 else f"{v:>{w}}" for i, (v, w) in enumerate(zip(row, widths, strict=True))]
    return "  ".join(cells).rstrip()


def _verdicts(table: pd.DataFrame, column: str) -> list[str]:
    return [
        NOTHING if pd.isna(other) else MET if _near(str(name), ours, other) else OFF
        for name, ours, other in zip(table.index, table["ours"], table[column], strict=True)
    ]


def _near(name: str, ours: float, other: float) -> bool:
    if "share" in name:
        return abs(ours - other) <= SHARE
    return abs(ours - other) <= (QUANTILE if name.endswith(QUANTILES) else COUNT) * abs(other)


def _popularity(homes: Homes) -> dict[str, float]:
    """How unevenly typed rules are spread: over rules, and over homes."""
    _, code = np.unique(typed_rule(homes), return_inverse=True)
    count = np.sort(np.bincount(code))[::-1]
    homes_with = np.bincount(distinct(code * max(homes.n_homes, 1) + homes.rules.home) // max(homes.n_homes, 1))
    top = {q: count[: -(-len(count) * q // 100)].sum() for q in (1, 10)}
    return {
        "share of rules in the top 1 % of distinct rules": share(top[1], homes.n_rules),
        "share of rules in the top 10 % of distinct rules": share(top[10], homes.n_rules),
        "share of rules whose typed rule no other home has": share((homes_with == 1)[code].sum(), homes.n_rules),
    }


def _quantile(values: Array, per_cent: int) -> float:
    return float(np.quantile(values, per_cent / 100)) if len(values) else 0.0
