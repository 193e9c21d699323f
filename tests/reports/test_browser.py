"""The page in a real browser: Chromium, without a window, from disk."""

from __future__ import annotations

import re

import pytest

from reports.figures import leaderboard as leaderboards
from reports.figures import ranking as hit_rates
from reports.inputs import Inputs
from reports.outputs import About, Cell, Missing, Output, Table
from reports.site import site
from reports.tables.results import leaderboard
from tests.support.browser import chromium, needs_chromium, sized
from tests.support.made_runs import small_results

pytest.importorskip("selenium.webdriver", reason="the extra browser is not installed")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = needs_chromium
WIDE, PHONE = 1280, 390
LONG = 40  # rows of a table that is folded


def long_table(_):
    rows = tuple((Cell(f"row {n}"), Cell(str(n), n)) for n in range(LONG))
    return Table(("name", "a very long heading that does not fit " * 3), rows, About("Long.", (), "run"))


def nothing(_):
    raise Missing("nothing of the kind", "python -m benchmarks run " + "x" * 200)


OUTPUTS = (
    Output("leaderboard", "Leaderboard", "The list", "table", leaderboard),
    Output("leaderboard-intervals", "Intervals", "The list", "figure", leaderboards.intervals),
    Output("hit-rate", "Hit rate", "The list", "figure", hit_rates.formulations),
    Output("long", "A long table", "The rest", "table", long_table),
    Output("lost", "Lost", "The rest", "table", nothing),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of the page, on disk."""
    folder = tmp_path_factory.mktemp("report")
    inputs = Inputs.read(small_results(tmp_path_factory.mktemp("results")))
    for path, content in site(OUTPUTS, inputs).files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    return (folder / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def opened(browser, address, width=WIDE):
    """The page in a window of this width, freshly loaded."""
    sized(browser, width, mobile=width == PHONE)
    browser.get(address)
    return browser


def head(browser, name):
    """The button in the leaderboard's head of a column."""
    heads = browser.find_elements(By.CSS_SELECTOR, "#leaderboard th button")
    return next(each for each in heads if each.text.strip() == name)


def shown(browser, column):
    """What stands in a column of the leaderboard's rows that can be seen, from top to bottom."""
    names = [each.text.strip() for each in browser.find_elements(By.CSS_SELECTOR, "#leaderboard th")]
    rows = browser.find_elements(By.CSS_SELECTOR, "#leaderboard tbody tr")
    place = names.index(column) + 1
    return [row.find_element(By.CSS_SELECTOR, f"td:nth-child({place})") for row in rows if row.is_displayed()]


def values(browser, column):
    return [float(cell.get_attribute("data-value")) for cell in shown(browser, column)]


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_it_opens_without_a_complaint_and_without_scrolling_sideways(browser, address, width):
    page = opened(browser, address, width)
    assert page.get_log("browser") == []
    page.execute_script("console.error('heard')")
    assert ["heard" in each["message"] for each in page.get_log("browser")] == [True]  # complaints do get here
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window == width


@pytest.mark.parametrize(("width", "kind"), [(WIDE, "src"), (PHONE, "srcset")])
def test_every_figure_is_drawn_in_the_layout_of_the_window(browser, address, width, kind):
    page = opened(browser, address, width)
    images = page.find_elements(By.TAG_NAME, "img")
    assert len(images) == 2  # leaderboard-intervals, hit-rate
    for image in images:
        page.execute_script("arguments[0].scrollIntoView()", image)  # figures are loaded when they come into view
        loaded = page.execute_script(
            "return arguments[0].decode().then(() => [arguments[0].complete, arguments[0].naturalWidth > 0])", image
        )
        assert loaded == [True, True]
        of = image if kind == "src" else image.find_element(By.XPATH, "../source")
        assert page.execute_script("return arguments[0].currentSrc", image).endswith(of.get_attribute(kind))
        assert image.size["width"] <= width


def test_nothing_is_fetched_but_the_page_and_its_figures(browser, address):
    page = opened(browser, address)
    entries = page.execute_script("return performance.getEntries().map(e => [e.entryType, e.name])")
    fetched = [name for kind, name in entries if kind in ("navigation", "resource")]
    folder = address.removesuffix("index.html")
    assert all(name.startswith(("data:", f"{folder}figures/")) for name in fetched if name != address)
    assert not re.search(r"""(?:src|srcset|href)=["']?(?:https?:)?//""", page.page_source)


def choose(page, data):
    """The lists of this data set, or of all."""
    page.find_element(By.CSS_SELECTOR, f"#leaderboard option[value='{data}']").click()


def test_one_list_is_shown_first_since_methods_on_different_data_are_not_to_be_compared(browser, address):
    page = opened(browser, address)
    assert len(values(page, "MRR")) < 8
    data = page.find_element(By.CSS_SELECTOR, "#leaderboard thead th")
    assert not data.is_displayed()  # the choice says it
    choose(page, "")
    assert data.is_displayed()
    assert len(values(page, "MRR")) == 8


def test_a_head_sorts_by_numbers_downwards_first_and_then_upwards(browser, address):
    page = opened(browser, address)
    choose(page, "")
    before = values(page, "MRR")
    # By hand, the means of `small_results`: 5 methods on smart homes and 3 on recipes.
    means = [0.30, 0.27, 0.25, 0.20, 0.15, 0.35, 0.28, 0.31]
    assert sorted(before) == pytest.approx(sorted(means))
    assert before != sorted(before, reverse=True)  # list by list
    head(page, "MRR").click()
    assert values(page, "MRR") == sorted(before, reverse=True)
    sorted_by = page.find_elements(By.CSS_SELECTOR, "#leaderboard th[aria-sort]")
    assert [each.get_attribute("aria-sort") for each in sorted_by] == ["descending"]
    head(page, "MRR").click()
    assert values(page, "MRR") == sorted(before)


def test_a_head_can_be_used_by_keyboard_and_sorts_texts_from_a_to_z(browser, address):
    page = opened(browser, address)
    before = [cell.text for cell in shown(page, "method")]
    head(page, "method").send_keys(Keys.ENTER)
    assert [cell.text for cell in shown(page, "method")] == sorted(before)
    head(page, "method").send_keys(Keys.SPACE)
    assert [cell.text for cell in shown(page, "method")] == sorted(before, reverse=True)


def test_rows_are_filtered_by_words_and_by_data(browser, address):
    page = opened(browser, address)
    choose(page, "")
    text = page.find_element(By.CSS_SELECTOR, "#leaderboard input")
    text.send_keys("ease")
    assert [cell.text for cell in shown(page, "method")] == ["ease", "ease"]  # on both data sets
    text.send_keys(" ifttt")
    assert values(page, "MRR") == pytest.approx([0.35])
    text.clear()
    text.send_keys("no such thing")
    assert shown(page, "method") == []
    assert page.find_element(By.CSS_SELECTOR, "#leaderboard output").text == "no row matches"
    text.clear()
    text.send_keys(" ")
    page.find_element(By.CSS_SELECTOR, "#leaderboard option[value^=ifttt]").click()
    assert sorted(values(page, "MRR")) == pytest.approx([0.28, 0.31, 0.35])


def test_a_long_table_is_folded_until_asked(browser, address):
    page = opened(browser, address)
    rows = page.find_elements(By.CSS_SELECTOR, "#long tbody tr")
    assert [row.is_displayed() for row in rows] == [True] * 20 + [False] * (LONG - 20)
    page.execute_script("arguments[0].click()", page.find_element(By.CSS_SELECTOR, "#long .more"))
    assert all(row.is_displayed() for row in rows)


def test_without_javascript_everything_is_still_there(browser, address):
    with_it = opened(browser, address).find_element(By.ID, "page-summary").text
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = opened(browser, address)
        assert page.find_element(By.ID, "page-summary").text == with_it
        assert page.find_elements(By.CSS_SELECTOR, "#leaderboard button") == []
        assert len(shown(page, "MRR")) == 8
        rows = page.find_elements(By.CSS_SELECTOR, "#long tbody tr")
        assert [row.is_displayed() for row in rows] == [True] * LONG
        assert all(image.size["height"] > 100 for image in page.find_elements(By.TAG_NAME, "img"))
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
