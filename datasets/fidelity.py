"""How near made-up homes are to what they imitate: every published number, and marginals that do not grow with size.

A count or a mean is met within 1 %, a share within 2 points, a median, a quantile or a maximum within 5 %. Real data
may be laid beside it, in general for information only: it gives a verdict only if it is the very data that is imitated,
the data set that `Published.data` names.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from datasets.describe import (
    distinct,
    home_and_type,
    homes_with_twins,
    number,
    per_home,
    share,
    statistics,
    typed_rule,
)
from datasets.homes import Array, Homes
from datasets.published import PUBLISHED

COUNT, SHARE, QUANTILE = 0.01, 0.02, 0.05
MET, OFF, NOTHING = "met", "off", ""
ORDERED = (", median", " %", ", max")  # how the names of quantiles end


def fidelity(homes: Homes, real: Homes | None = None) -> pd.DataFrame:
    """One row per statistic: ours, the published (NaN if none), a verdict; then the same for `real`."""
    described = homes.describe()
    table = pd.DataFrame({"ours": pd.Series(described.statistics | marginals(homes), dtype=float)})
    table["published"] = table.index.map(described.published.statistics).astype(float)
    table["verdict"] = _verdicts(table, "published")
    if real is not None:
        table["real"] = table.index.map(statistics(real) | marginals(real)).astype(float)
        if is_imitated(homes, real):
            table["verdict beside real"] = _verdicts(table, "real")
    return table


def is_imitated(homes: Homes, real: Homes) -> bool:
    """Whether `real` is the very data that `homes` imitate; to lie beside the same published numbers is not enough."""
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
        "share of homes with several devices of one type": share(homes_with_twins(homes), homes.n_homes),
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
    if "real" in frame and "verdict beside real" not in frame:
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
    return abs(ours - other) <= (QUANTILE if name.endswith(ORDERED) else COUNT) * abs(other)


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
