"""Small files in the three layouts of IFTTT data, written by hand in tests."""

from __future__ import annotations

import json
from pathlib import Path

RULES = [
    "1\ttrigger_weather_sunset;action_philips_hue_turn_on_lights",
    "2\ttrigger_facebook_pages_new_link_post_on_page;action_email_digest_add_to_daily_digest",
    "3\ttrigger_gmail_new_starred_email_in_inbox;action_wemo_switch_turn_on-lights",
    "4\ttrigger_gmail_new_starred_email_in_inbox;action_wemo_switch_turn_on-radio",
]
PARTS = {
    "trainset": ["7\t1\t5.0", "7\t2\t1.0", "10\t1\t2.0"],
    "testset": ["7\t3\t4.0"],
    "validationset": ["7\t4\t4.0", "11\t2\t3.0"],
}


def write(path: Path, lines: list[str], *, end: str = "\n") -> Path:
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    return path


def ur_line(user: str = "ann", trigger: str = "Any new photo by you", number: int = 1) -> str:
    fields = [str(number), "Keep my photos", user, "May 1, 2014", "520"]
    return "\t".join([*fields, "Instagram", trigger, "fires ...", "Dropbox", "Add file from URL", "will ..."])


def mi_line(**changed: object) -> str:
    recipe = {
        "creatorName": "ann",
        "triggerChannelTitle": "Instagram",
        "triggerTitle": "Any new photo by you",
        "actionChannelTitle": "Dropbox",
        "actionTitle": "Add file from URL",
        "addCount": "12",
    }
    return json.dumps(recipe | changed)


def write_recrules(folder: Path) -> Path:
    """The four RecRules files."""
    write(folder / "rules", RULES)
    for name, lines in PARTS.items():
        write(folder / name, lines)
    return folder
