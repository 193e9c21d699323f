"""A home as JSON: errors have a code, a place and a remedy, and so does what the model does not know."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets import DataError
from fedrule.inference import BadHome, HomeRequest, Recommender, RequestDevice, RequestRule
from fedrule.inference.encode import HomeEncoder
from fedrule.inference.request import HomeLimits, display_names
from tests.support.small_model import small_model

DOOR, LAMP = {"id": "door", "type": "ContactSensor"}, {"id": "lamp", "type": "Light"}
RULE = {"trigger": "door", "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}
HOME = {"devices": [DOOR, LAMP], "rules": [RULE]}


@pytest.fixture(scope="module")
def recommender():
    return Recommender(small_model())


def without(table, name):
    return {key: value for key, value in table.items() if key != name}


def encoded(home, unknown="refuse"):
    return HomeEncoder(small_model().card).encode(home, unknown)


def rules_of(graph):
    return list(zip(*(column.tolist() for column in (graph.trigger, graph.action, graph.relation)), strict=True))


def test_a_home_is_read_as_it_is_written():
    home = HomeRequest.from_json({"user": "ann", "devices": [{**DOOR, "name": "Front door"}, LAMP], "rules": [RULE]})
    assert home.devices == [RequestDevice("door", "ContactSensor", "Front door"), RequestDevice("lamp", "Light")]
    assert home.rules == [RequestRule("door", "Open", "Power On", "lamp")]
    assert [device.display_name for device in home.devices] == ["Front door", "lamp"]


def test_rules_may_be_left_out():
    assert HomeRequest.from_json({"devices": [DOOR]}) == HomeRequest([RequestDevice("door", "ContactSensor")], [])


def test_a_home_of_homes_is_the_same_in_words(two):
    ann = HomeRequest.from_home(two.home(0))
    assert ann.devices == [RequestDevice(7, "Lamp"), RequestDevice(8, "Lamp"), RequestDevice(9, "Sensor")]
    assert ann.rules == [
        RequestRule(9, "Open", "On", 7),
        RequestRule(9, "Open", "On", 8),
        RequestRule(7, "On", "Off", 8),
    ]


LARGEST = HomeLimits(devices=2, rules=1, text=13)
NO_TEXT = [5, 0.5, None, True, ["a"], {"a": 1}, ""]
NO_ID = [0.5, None, True, False, ["a"], {"a": 1}, ""]
MALFORMED = [
    *(
        (content, "wrong_kind", "", "expected an object with devices")
        for content in (None, 5, "home", [], [HOME], True)
    ),
    ({}, "missing", "devices", "devices is missing"),
    (without(HOME, "devices"), "missing", "devices", "devices is missing"),
    ({**HOME, "rooms": []}, "unexpected", "rooms", "unknown field; known: devices, rules, user"),
    *(({"devices": rows}, "wrong_kind", "devices", "expected a list") for rows in (None, 5, "door", DOOR, True)),
    *(({**HOME, "rules": rows}, "wrong_kind", "rules", "expected a list") for rows in (None, 5, "rule", RULE, False)),
    *(
        ({"devices": [LAMP, row]}, "wrong_kind", "devices[1]", "expected an object with id, type")
        for row in (None, 5, "door", [], [DOOR])
    ),
    ({"devices": [LAMP, without(DOOR, "id")]}, "missing", "devices[1].id", "id is missing"),
    ({"devices": [{}]}, "missing", "devices[0].id", "id is missing"),
    (
        {"devices": [{**DOOR, "floor": 1}]},
        "unexpected",
        "devices[0].floor",
        "unknown field; known: id, type, name, room",
    ),
    ({"devices": [{**DOOR, "room": 1}]}, "wrong_kind", "devices[0].room", "expected a string"),
    *(
        ({"devices": [{**DOOR, "id": id_}]}, "wrong_kind", "devices[0].id", "expected a non-empty string or a 64-bit")
        for id_ in NO_ID
    ),
    *(
        ({"devices": [{**DOOR, "type": word}]}, "wrong_kind", "devices[0].type", "expected a non-empty string")
        for word in NO_TEXT
    ),
    *(
        ({"devices": [{**DOOR, "name": word}]}, "wrong_kind", "devices[0].name", "expected a string")
        for word in NO_TEXT[:-1]
    ),
    *(
        ({**HOME, "rules": [RULE, row]}, "wrong_kind", "rules[1]", "expected an object with trigger, trigger_state")
        for row in (None, 5, "rule", [], ["door", "Open", "Power On", "lamp"])
    ),
    *(({**HOME, "rules": [without(RULE, name)]}, "missing", f"rules[0].{name}", f"{name} is missing") for name in RULE),
    ({**HOME, "rules": [{**RULE, "delay": 5}]}, "unexpected", "rules[0].delay", "unknown field"),
    *(
        (
            {**HOME, "rules": [{**RULE, end: id_}]},
            "wrong_kind",
            f"rules[0].{end}",
            "expected a non-empty string or a 64-bit",
        )
        for end in ("trigger", "action_device")
        for id_ in NO_ID
    ),
    *(
        ({**HOME, "rules": [{**RULE, part: word}]}, "wrong_kind", f"rules[0].{part}", "expected a non-empty string")
        for part in ("trigger_state", "action")
        for word in NO_TEXT
    ),
]


@pytest.mark.parametrize(("content", "code", "where", "message"), MALFORMED)
def test_malformed_json_has_a_code_and_a_place(tmp_path, content, code, where, message):
    with pytest.raises(BadHome) as caught:
        HomeRequest.from_json(content)
    assert (caught.value.code, caught.value.where) == (code, where)
    assert message in caught.value.message
    path = tmp_path / "home.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadHome) as caught:
        HomeRequest.read(path)
    assert str(caught.value).startswith(f"{path} {where}".strip() + ": ")
    assert caught.value.code == code


def test_a_home_within_the_limits_is_read_with_its_user_and_fields_of_others_are_left_alone():
    content = {**HOME, "user": 7, "k": object()}
    home = HomeRequest.from_json(content, limits=LARGEST, options=("k",))
    assert home == HomeRequest.from_json(HOME)._replace(user=7)


@pytest.mark.parametrize(
    ("change", "code", "where", "message"),
    [
        ({"devices": [DOOR, LAMP, DOOR]}, "too_many_devices", "devices", "at most 2 devices per home, got 3"),
        ({"rules": [RULE, RULE]}, "too_many_rules", "rules", "at most 1 rules per home, got 2"),
        ({"user": "u" * 14}, "too_long", "user", "at most 13 characters, got 14"),
        ({"devices": [{**DOOR, "name": "n" * 14}]}, "too_long", "devices[0].name", "at most 13 characters, got 14"),
        ({"devices": [{**DOOR, "room": "r" * 14}]}, "too_long", "devices[0].room", "at most 13 characters, got 14"),
        ({"devices": [{**DOOR, "id": "i" * 14}]}, "too_long", "devices[0].id", "at most 13 characters, got 14"),
        ({"rules": [{**RULE, "action": "a" * 14}]}, "too_long", "rules[0].action", "at most 13 characters, got 14"),
        ({"user": 1.5}, "wrong_kind", "user", "expected a non-empty string or a 64-bit integer"),
        ({"user": 2**63}, "wrong_kind", "user", "expected a non-empty string or a 64-bit integer"),
    ],
)
def test_a_home_beyond_the_limits_is_refused_at_its_place(change, code, where, message):
    with pytest.raises(BadHome) as caught:
        HomeRequest.from_json({**HOME, **change}, limits=LARGEST)
    assert (caught.value.code, caught.value.where, caught.value.message) == (code, where, message)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["devices", "rules", "user", "id", "type", "name", "room", *RULE]), inner, max_size=4
        )
    ),
)


@given(ANYTHING | st.fixed_dictionaries({"devices": ANYTHING, "rules": ANYTHING}))
def test_any_json_is_a_home_or_refused(content):
    try:
        home = HomeRequest.from_json(content)
    except BadHome as error:
        told = error.code
    else:
        told = ""
        assert len(home.devices) == len(content["devices"])
        assert len(home.rules) == len(content.get("rules", []))
    assert told in ("", "wrong_kind", "missing", "unexpected")


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"", "bad_json", ": empty; expected a JSON object"),
        (b"{", "bad_json", " line 1 column 2: not JSON: Expecting property name"),
        (b"\xff\xfe", "bad_json", ": byte 0 is not UTF-8"),
        (b"[" * 100_000, "bad_json", ": lists and objects are nested too deeply"),
        (b'{"devices": ' + b"1" * 5000 + b"}", "bad_json", ": Exceeds the limit"),
        (b'{"devices": [], "devices": []}', "duplicate_key", ": an object has the key 'devices' twice"),
        (b'{"devices": NaN}', "bad_json", ": NaN is not a JSON number"),
        (
            b'{"devices": [{"id": "a\\ud800", "type": "Light"}]}',
            "bad_json",
            ": a \\u escape is half of a surrogate pair",
        ),
    ],
)
def test_a_file_without_json_is_refused_by_its_name(tmp_path, content, code, message):
    path = tmp_path / "home.json"
    path.write_bytes(content)
    with pytest.raises(BadHome) as caught:
        HomeRequest.read(path)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_whole_number_may_be_written_with_a_point(tmp_path):
    path = tmp_path / "home.json"
    path.write_text('{"devices": [{"id": 5.0, "type": "Light"}]}')
    assert HomeRequest.read(path).devices[0].id == 5


def test_a_file_that_is_not_there_is_refused_by_its_name(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.json: cannot be read"):
        HomeRequest.read(tmp_path / "nothing.json")


def test_a_home_may_come_in_by_the_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(HOME).encode())))
    assert HomeRequest.read("-") == HomeRequest.from_json(HOME)


@pytest.mark.parametrize(
    ("change", "code", "where", "message"),
    [
        ({"devices": []}, "no_devices", "devices", "at least one device"),
        ({"devices": [DOOR, LAMP, DOOR]}, "duplicate_device", "devices[2].id", "'door' is also the id of devices[0]"),
        ({"devices": [DOOR]}, "missing_device", "rules[0].action_device", "the home has no device 'lamp'"),
        ({"devices": [LAMP]}, "missing_device", "rules[0].trigger", "the home has no device 'door'"),
        ({"devices": [DOOR, {**LAMP, "id": 1}], "rules": [{**RULE, "action_device": "1"}]}, "missing_device",
         "rules[0].action_device", "the home has no device '1'"),
        ({"devices": [DOOR, {**LAMP, "type": "Lihgt"}]}, "unknown_type", "devices[1].type", "did you mean 'Light'?"),
        ({"devices": [DOOR, {**LAMP, "type": "Kettle"}]}, "unknown_type", "devices[1].type", "leave it out, or"),
        ({"rules": [RULE, {**RULE, "action": "Power Onn"}]}, "unknown_relation", "rules[1]",
         "does not know the action 'Power Onn'; did you mean 'Power On'?"),
        ({"rules": [{**RULE, "trigger_state": "Boils", "action": "Whistle"}]}, "unknown_relation", "rules[0]",
         "does not know the trigger state 'Boils'; leave it out"),
        ({"rules": [{**RULE, "action": "Power Off"}]}, "unknown_relation", "rules[0]",
         "does not know 'Open' and 'Power Off' in one rule; leave it out"),
    ],
)  # fmt: skip
def test_a_home_that_no_model_can_answer_is_refused_with_its_place(recommender, change, code, where, message):
    with pytest.raises(BadHome) as caught:
        recommender.recommend(HomeRequest.from_json({**HOME, **change}))
    assert (caught.value.code, caught.value.where) == (code, where)
    assert message in caught.value.message
    assert str(caught.value) == f"{where}: {caught.value.message}"


def test_what_no_model_can_answer_is_refused_even_where_the_unknown_is_ignored(recommender):
    for change in ({"devices": []}, {"devices": [DOOR, DOOR, LAMP]}, {"devices": [DOOR]}):
        with pytest.raises(BadHome):
            recommender.recommend(HomeRequest.from_json({**HOME, **change}), unknown="ignore")


def test_the_unknown_is_left_out_and_named_where_it_is_ignored(recommender):
    kettle = {"id": "kettle", "type": "Kettle"}
    rules = [
        {**RULE, "action_device": "kettle"},
        RULE,
        {**RULE, "trigger_state": "Boils"},
        {**RULE, "trigger": "kettle", "action": "Whistle"},
    ]
    home = HomeRequest.from_json({"devices": [kettle, DOOR, LAMP], "rules": rules})
    found = encoded(home, "ignore")
    assert [device.id for device in found.devices] == ["door", "lamp"]
    assert rules_of(found.graph) == [(0, 1, 0)]
    assert found.ignored == (
        "device kettle: unknown type 'Kettle'",
        "rule 1, 'Open' -> 'Power On': one of its devices is ignored",
        "rule 3, 'Boils' -> 'Power On': unknown relation",
        "rule 4, 'Open' -> 'Whistle': unknown relation",
    )
    answer = recommender.recommend(home, unknown="ignore")
    assert answer.rules == recommender.recommend(HomeRequest.from_json(HOME)).rules
    assert answer.ignored == found.ignored


def test_a_home_of_unknown_devices_alone_has_an_empty_list(recommender):
    answer = recommender.recommend(HomeRequest([RequestDevice(1, "Kettle")]), unknown="ignore")
    assert answer.rules == ()
    assert answer.ignored == ("device 1: unknown type 'Kettle'",)


def test_another_way_with_the_unknown_is_refused(recommender):
    with pytest.raises(DataError, match="'ignor'; did you mean 'ignore'"):
        recommender.recommend(HomeRequest.from_json(HOME), unknown="ignor")


def test_a_rule_that_stands_twice_counts_once(recommender):
    other = {**RULE, "trigger_state": "Closed", "action": "Power Off"}
    once, twice = ({**HOME, "rules": rules} for rules in ([RULE, other], [RULE, other, RULE, RULE]))
    assert rules_of(encoded(HomeRequest.from_json(twice)).graph) == [(0, 1, 0), (0, 1, 1)]
    assert recommender.recommend(HomeRequest.from_json(twice)) == recommender.recommend(HomeRequest.from_json(once))


def test_the_number_1_and_the_text_1_are_two_devices(recommender):
    devices = [RequestDevice(1, "ContactSensor"), RequestDevice("1", "Light")]
    answer = recommender.recommend(HomeRequest(devices))
    assert {(rule.trigger, rule.action_device) for rule in answer.rules} == {(1, "1")}


def test_names_in_any_script_stand_in_the_sentence(recommender):
    devices = [RequestDevice("дверь", "ContactSensor", "Входная дверь 🚪"), RequestDevice("灯", "Light")]
    answer = recommender.recommend(HomeRequest(devices))
    assert {(rule.trigger, rule.action_device) for rule in answer.rules} == {("дверь", "灯")}
    opened = next(rule for rule in answer.rules if rule.trigger_state == "Open")
    assert opened.text == "When *Входная дверь 🚪* opens, turn on *灯*"


def test_devices_of_one_name_are_told_apart_by_their_rooms_and_else_by_their_ids(recommender):
    rooms = ("hall", "kitchen", "bath", "bath", "")
    lamps = [RequestDevice(f"l{at}", "Light", "Lamp", room) for at, room in enumerate(rooms)]
    alone = RequestDevice("d", "ContactSensor", "Door", "hall")
    assert display_names([alone, *lamps]) == ["Door", "Lamp (hall)", "Lamp (kitchen)", "Lamp (l2)", "Lamp (l3)", "Lamp"]
    texts = {rule.text for rule in recommender.recommend(HomeRequest([alone, *lamps[:2]]), 1_000).rules}
    assert {f"When *Door* opens, turn on *Lamp ({room})*" for room in ("hall", "kitchen")} <= texts
