"""Chromium without a window, for tests of pages; they are skipped where it is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="the extra browser is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402

PATIENCE = 300  # seconds, only against hanging
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium with chromedriver here (Debian: chromium, chromium-driver)"
)


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser that keeps its things in this folder and notes what pages complain about."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # The sandbox does not run as root, and shared memory is small in containers.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(executable_path=DRIVER), options=options)
    driver.set_script_timeout(PATIENCE)
    try:
        yield driver
    finally:
        driver.quit()


def sized(driver: webdriver.Chrome, width: int, *, mobile: bool) -> None:
    """A window of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
