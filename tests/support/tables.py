"""Small tables in the Wyze layout, written by hand in tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DEVICE_HEADER = "user_id,device_id,device_model"
RULE_HEADER = (
    "user_id,trigger_device,trigger_device_id,trigger_state,trigger_state_id,"
    "action,action_id,action_device,action_device_id,rule"
)


def write_pair(folder: Path, *, devices: Sequence[str], rules: Sequence[str]) -> None:
    """Write train_device.csv and train_rule.csv with these lines below their headers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train_device.csv").write_text("\n".join([DEVICE_HEADER, *devices]) + "\n")
    (folder / "train_rule.csv").write_text("\n".join([RULE_HEADER, *rules]) + "\n")
