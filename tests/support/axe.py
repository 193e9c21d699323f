"""axe-core, which finds barriers for people who see little, use a keyboard or have a page read out.

It is JavaScript from the npm registry and no package of ours; tests take the file from the environment variable AXE.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

FILE = Path(os.environ.get("AXE", ""))
needs_axe = pytest.mark.skipif(
    not FILE.is_file(), reason="AXE is not the path of axe.min.js (npm install axe-core; see CONTRIBUTING.md)"
)
GRAVE = ("serious", "critical")
RUN = """
const done = arguments[arguments.length - 1];
const options = {resultTypes: ["violations"]};
axe.run(document, options).then((found) => done(found.violations), (error) => done(String(error)));
"""


class Barrier(NamedTuple):
    """A rule that a page breaks, and the first element that does."""

    impact: str
    rule: str
    element: str


def grave_barriers(driver) -> list[Barrier]:
    """What is serious or critical on the page that is open, with all of its details opened."""
    driver.execute_script("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    driver.execute_script(FILE.read_text("utf-8"))
    found = driver.execute_async_script(RUN)
    assert isinstance(found, list), found
    every = [Barrier(each["impact"], each["id"], each["nodes"][0]["html"][:200]) for each in found]
    return [barrier for barrier in every if barrier.impact in GRAVE]
