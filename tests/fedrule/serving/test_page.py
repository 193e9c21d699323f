"""The page of the service in a real browser, before the real service: Chromium without a window."""

from __future__ import annotations

import dataclasses
import json
import urllib.request

import pytest

from tests.support.browser import chromium, needs_chromium, sized
from tests.support.served import PATIENCE, served
from tests.support.small_model import saved_model, small_model

pytest.importorskip("selenium.webdriver", reason="the extra browser is not installed")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

pytestmark = needs_chromium
WIDE, PHONE = 1280, 360
TOKEN = "sesame"
EVIL = "<img src=x onerror=\"window.hacked = 'yes'\">"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two, which rank differently."""
    folder = tmp_path_factory.mktemp("models")
    return [saved_model(folder / f"{name}.safetensors", seed=seed) for seed, name in enumerate(("first", "second"))]


@pytest.fixture(scope="module")
def url(models):
    with served(models) as service:
        yield f"{service.url}/"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def opened(browser, address, width=WIDE, example="house"):
    """The page in a window of this width, freshly loaded, with an example home."""
    sized(browser, width, mobile=width == PHONE)
    browser.get("about:blank")  # an address that differs after its # only would not be loaded anew
    browser.get(address)
    if example:
        settled(browser)
        one(browser, f"[data-example={example}]").click()
        settled(browser)
    return browser


def settled(page):
    """Once the service has answered for the home that the page shows; changes wait for a while before it is asked."""
    done = """
        const shown = document.querySelectorAll(".list[aria-busy]");
        return shown.length && ![...shown].some(list => list.ariaBusy === "true");"""
    page.execute_async_script("setTimeout(arguments[0], 250)")
    WebDriverWait(page, PATIENCE, poll_frequency=0.05).until(lambda page: page.execute_script(done))


def one(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def texts(page, selector):
    return [each.text for each in page.find_elements(By.CSS_SELECTOR, selector)]


def lists(page):
    """The sentences of both columns."""
    return [
        [each.text for each in section.find_elements(By.CSS_SELECTOR, ".text")]
        for section in page.find_elements(By.CSS_SELECTOR, ".list")
    ]


def home(page):
    """As the page writes it."""
    return json.loads(one(page, "#json").get_property("value"))


def use(page, text):
    """Paste JSON."""
    page.execute_script("document.getElementById('json').value = arguments[0]", text)
    page.execute_script("document.getElementById('json-use').click()")


def add_device(page, kind, name):
    Select(one(page, "#device-type")).select_by_value(kind)
    one(page, "#device-name").send_keys(name, Keys.ENTER)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_it_opens_with_a_home_and_without_a_complaint_or_scrolling_sideways(browser, url, width, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page = opened(browser, url, width)
    assert page.get_log("browser") == []  # nor of the policy for scripts and styles
    wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= window == width
    assert len(texts(page, "#devices li")) == 9
    assert [len(each) for each in lists(page)] == [10, 10]
    entries = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in entries if not name.startswith(url)] == []


def test_the_graph_has_every_device_and_every_rule(browser, url):
    page = opened(browser, url)
    assert set(texts(page, ".node .name")) == {device["name"] for device in home(page)["devices"]}
    pairs = {(rule["trigger"], rule["action_device"]) for rule in home(page)["rules"]}
    assert len(page.find_elements(By.CSS_SELECTOR, ".arrow:not(.hint)")) == len(pairs) > 0


def test_both_lists_are_what_the_service_answers(browser, url):
    page = opened(browser, url)
    for name, said in zip(("first", "second"), lists(page), strict=True):
        body = json.dumps({**home(page), "model": name, "max_similar": 3}).encode()
        asked = urllib.request.Request(f"{url}v1/recommend", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(asked) as response:
            answer = json.load(response)
        assert said == [rule["text"].replace("*", "") for rule in answer["recommendations"]]


def test_each_line_says_where_the_other_list_has_it(browser, url):
    page = opened(browser, url)
    left, right = lists(page)
    assert set(left) != set(right)
    marks = texts(page, ".list:first-child .mark")
    assert marks == [f"no. {right.index(text) + 1} in second" if text in right else "only here" for text in left]


def test_a_recommendation_is_drawn_dashed_while_pointed_at_or_focused(browser, url):
    page = opened(browser, url)
    assert page.find_elements(By.CSS_SELECTOR, ".arrow.hint") == []
    ActionChains(page).move_to_element(one(page, ".list .text")).perform()
    assert len(page.find_elements(By.CSS_SELECTOR, ".arrow.hint")) == 1
    ActionChains(page).move_to_element(one(page, "h1")).perform()
    assert page.find_elements(By.CSS_SELECTOR, ".arrow.hint") == []
    page.execute_script("arguments[0].focus({preventScroll: true})", one(page, ".list li button"))
    assert len(page.find_elements(By.CSS_SELECTOR, ".arrow.hint")) == 1


def test_adding_a_recommendation_makes_it_a_rule_and_asks_again(browser, url):
    page = opened(browser, url)
    before, said = home(page)["rules"], lists(page)[0][0]
    one(page, ".list li button").send_keys(Keys.ENTER)
    settled(page)
    assert home(page)["rules"][:-1] == before
    assert said not in lists(page)[0] + lists(page)[1]
    assert page.switch_to.active_element.text == "Add"  # of the line that stands there now
    at = page.current_url
    shown = home(page), lists(page)
    opened(browser, at, example=None)
    settled(page)
    assert (home(page), lists(page)) == shown


def test_devices_and_rules_are_added_renamed_and_removed(browser, url):
    page = opened(browser, url, example="empty")
    assert texts(page, ".list .nothing") == ["Add a device to begin."] * 2
    add_device(page, "ContactSensor", "Front door")
    add_device(page, "Light", "Lamp")
    add_device(page, "Light", "")
    assert [device["name"] for device in home(page)["devices"]] == ["Front door", "Lamp", "Light"]
    Select(one(page, "#rule-device")).select_by_visible_text("Lamp")
    states = [option.text for option in Select(one(page, "#rule-state")).options]
    assert states == ["Open", "Closed"]  # from a contact sensor to a light, in tests/support/small_model.py
    one(page, "#rule-add").click()
    rule = {"trigger": "front-door", "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}
    assert home(page)["rules"] == [rule]
    assert not one(page, "#rule-add").is_enabled()  # the home has it
    one(page, "#devices li:nth-child(2) input").send_keys(" of brass")
    settled(page)
    assert texts(page, "#rules li span") == ["Front door Open → Power On Lamp of brass"]
    assert any("Lamp of brass" in said for said in lists(page)[0])
    one(page, "#devices li:nth-child(2) .drop").send_keys(Keys.ENTER)
    assert home(page)["rules"] == []
    assert page.switch_to.active_element.get_attribute("aria-label") == "Remove Light"


def test_a_name_never_becomes_an_element(browser, url):
    page = opened(browser, url, example="empty")
    add_device(page, "ContactSensor", EVIL)
    add_device(page, "Light", f"*{EVIL}")
    settled(page)
    assert EVIL in lists(page)[0][0]
    opened(browser, page.current_url, example=None)
    settled(page)
    assert EVIL in one(page, "svg").get_property("textContent")
    assert page.find_elements(By.TAG_NAME, "img") == []
    assert page.execute_script("return window.hacked") is None
    assert page.get_log("browser") == []


def test_a_file_is_brought_and_each_column_can_show_another_model(browser, url, tmp_path):
    page = opened(browser, url)
    left, right = lists(page)
    file = tmp_path / "home.json"
    file.write_text(json.dumps({**home(page), "user": 5}))
    one(page, "[data-example=empty]").click()
    one(page, "#json-file").send_keys(str(file))
    settled(page)
    assert home(page)["user"] == 5
    assert lists(page) == [left, right]
    Select(one(page, ".list:first-child select")).select_by_value("second")
    settled(page)
    assert lists(page) == [right, right]
    assert one(page, "#comparison").text == "Both methods list the same 10 rules."
    opened(browser, page.current_url, example=None)
    settled(page)
    assert lists(page) == [right, right]


def test_text_that_is_no_home_is_refused_in_words_and_changes_nothing(browser, url):
    page = opened(browser, url)
    before = home(page)
    for text, words in (
        ("{", "Invalid JSON"),
        ("[]", 'Expected an object with a list "devices".'),
        ('{"devices": [{"id": 1.5, "type": "Light"}]}', "devices[0] needs"),
        ('{"devices": [], "rules": [{}]}', "rules[0] needs"),
    ):
        use(page, text)
        assert words in one(page, "#json-problem").text
        assert len(texts(page, "#devices li")) == len(before["devices"])


def test_what_the_service_refuses_is_told_at_the_device_and_can_be_left_out(browser, url):
    page = opened(browser, url)
    known = home(page)["devices"]
    strange = {"id": 7, "type": "Teapot", "name": "Brown Betty"}
    use(page, json.dumps({"devices": [*known, strange], "rules": []}))
    settled(page)
    told = one(page, f"#devices li:nth-child({len(known) + 1}) .wrong").text
    assert [line.partition(":")[0] for line in told.splitlines()] == ["first", "second"]
    assert "Teapot" in told
    assert ["Brown Betty" in text for text in texts(page, ".list > .wrong")] == [True, True]
    one(page, ".list > .wrong button").click()
    settled(page)
    assert [len(each) for each in lists(page)] == [10, 0]
    assert len(texts(page, ".list:first-child .ignored li")) == 1


def test_an_address_that_was_cut_off_is_told_and_an_example_is_shown(browser, url):
    page = opened(browser, f"{url}#home=eyJkZXZ", example=None)
    settled(page)
    assert one(page, "#problem").is_displayed()
    assert len(texts(page, "#devices li")) == 4


def test_a_token_is_asked_for_only_when_the_service_wants_one(browser, url, models):
    assert not one(opened(browser, url), "#token").is_displayed()
    with served(models[:1], token=TOKEN) as service:
        page = opened(browser, service.url, example=None)
        field = WebDriverWait(page, PATIENCE).until(lambda page: one(page, "#token-text"))
        WebDriverWait(page, PATIENCE).until(lambda _: field.is_displayed())
        field.send_keys("guess", Keys.ENTER)
        WebDriverWait(page, PATIENCE).until(lambda page: "Wrong token" in one(page, "#problem").text)
        field.send_keys(TOKEN, Keys.ENTER)
        settled(page)
        assert not field.is_displayed()
        assert len(lists(page)[0]) > 0
        assert TOKEN not in page.current_url
        assert "python -m fedrule serve" in one(page, ".list.lone").text  # how to serve a second model
        assert page.get_log("browser")  # 401 is told by the browser itself


def test_models_that_were_read_again_are_described_anew(browser, tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with served([path]) as service:
        page = opened(browser, f"{service.url}/")
        assert "trained on 100 homes of toy" in one(page, ".list header .hint").text
        saved = small_model(seed=1)
        training = dataclasses.replace(saved.card.trainings[0], homes=5_000)
        dataclasses.replace(saved, card=dataclasses.replace(saved.card, trainings=(training,))).save(path)
        headers = {"Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{service.url}/v1/model/reload", b"{}", headers)).close()
        one(page, "[data-example=flat]").click()
        WebDriverWait(page, PATIENCE).until(lambda _: "5,000 homes" in one(page, ".list header .hint").text)
        assert page.get_log("browser") == []
