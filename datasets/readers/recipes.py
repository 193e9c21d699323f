"""From rows of who uses which recipe to `Homes`: an entity is a service, a relation a pair of trigger and action."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from datasets.readers.assemble import DeviceColumns, RuleColumns, assemble
from datasets.readers.filters import narrow
from datasets.homes import Homes, Provenance

RULE = ["trigger_service", "trigger", "action_service", "action"]
COLUMNS = ["user", *RULE]


@dataclass(frozen=True, slots=True)
class Recipes:
    """Good rows of one source, in its order and spelling."""

    source: str
    rows: pd.DataFrame  # COLUMNS, and whatever the layout adds
    counts: dict[str, int]  # what only this layout can count

    def all_counts(self) -> dict[str, int]:
        """What was read, before anything is left out."""
        rows = self.rows
        return {
            "rule rows": len(rows),
            "users": rows["user"].nunique(),
            "services": len(set(rows["trigger_service"]) | set(rows["action_service"])),
            "distinct pairs of user and rule": len(rows.drop_duplicates(COLUMNS)),
            "distinct rules": len(rows.drop_duplicates(RULE)),
            **self.counts,
        }


def to_homes(name: str, recipes: Recipes, *, min_pair_count: int, skipped: tuple[str, ...]) -> Homes:
    """One home per user and one device per service of its rules; the device's id is the service's name.

    Only rules whose trigger-action pair is seen at least `min_pair_count` times stay, a user's repeated rule counted
    once; services and users without a rule left go with the rest.
    """
    rows = recipes.rows
    used = [
        rows[["user", service]].set_axis(["user", "id"], axis=1) for service in ("trigger_service", "action_service")
    ]
    devices = pd.concat(used).drop_duplicates()
    user, *texts = (rows[column].to_numpy() for column in COLUMNS)
    trigger_service, trigger, action_service, action = (text.astype(object) for text in texts)
    service = devices["id"].to_numpy().astype(object)
    homes = assemble(
        name,
        DeviceColumns(user=devices["user"].to_numpy(), id=service, type=service),
        RuleColumns(user, trigger_service, trigger, action, action_service),
        Provenance(source=recipes.source, counts=recipes.all_counts(), skipped=skipped),
    )
    return narrow(homes, min_pair_count=min_pair_count, min_rules=1, only_used_devices=True)
