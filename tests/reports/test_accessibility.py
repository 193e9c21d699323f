"""axe-core finds no serious barrier on the pages of the report, in light and dark, on a desktop and a phone."""

from __future__ import annotations

import pytest

from reports.inputs import Inputs
from reports.outputs import chosen_outputs
from reports.site import site
from tests.support.axe import grave_barriers, needs_axe
from tests.support.browser import chromium, needs_chromium, sized
from tests.support.made_runs import keep as keep_runs
from tests.support.made_runs import rounds, small_results

pytestmark = [needs_axe, needs_chromium]
WIDE, PHONE = 1280, 390


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The whole report on a few results, on disk."""
    results, folder = small_results(tmp_path_factory.mktemp("results")), tmp_path_factory.mktemp("report")
    keep_runs(results, "fedease", 0.24, history=rounds(3))
    for path, content in site(chosen_outputs([]), Inputs.read(results)).files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def opened(browser, path, scheme="light", width=WIDE):
    """A page in this colour scheme and window, freshly loaded."""
    sized(browser, width, mobile=width == PHONE)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(path.as_uri())
    return browser


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "methods/fedrank.html", "methods/gcmc.html"])
def test_a_page_has_no_serious_barrier(browser, report, name, scheme, width):
    assert grave_barriers(opened(browser, report / name, scheme, width)) == []


def test_a_barrier_would_be_found(browser, report):
    page = opened(browser, report / "index.html")
    page.execute_script("document.querySelector('img').removeAttribute('alt')")
    assert [barrier.rule for barrier in grave_barriers(page)] == ["image-alt"]
