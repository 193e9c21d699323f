"""Bad input over HTTP: each is answered with a 4xx that says what is wrong, and the service goes on."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from functools import partial

import pytest

from fedrule.inference.request import BadHome, HomeRequest
from fedrule.serving.errors import ApiError
from fedrule.serving.limits import Limits
from fedrule.serving.requests import BatchEnvelope, parse_home, parse_options
from fedrule.serving.routes import application
from tests.support.in_process import Client
from tests.support.small_model import home, saved_model

JSON = {"Content-Type": "application/json"}
LIMITS = Limits(devices=50, rules=60, homes=3, batch_devices=70, k=20, text=30, body_bytes=20_000)
DOOR, LAMP = {"id": "door", "type": "ContactSensor"}, {"id": "lamp", "type": "Light"}
OPENS = {"trigger": "door", "trigger_state": "Open", "action": "Power On", "action_device": "lamp"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    path = saved_model(tmp_path_factory.mktemp("models") / "model.safetensors")
    with Client(application([path], limits=LIMITS)) as made:
        yield made
        assert made.post("/v1/recommend", json=home()).status_code == 200  # still answers after all of this


def refused(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error.keys() == {"code", "where", "message"}
    assert error["code"] == code
    assert error["message"]
    assert len(answer.text) < 1_000
    return error["where"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b'{"devices": [}', "bad_json"),
        (b'{"devices": []} more', "bad_json"),
        (b'{"k": NaN}', "bad_json"),
        (b'{"k": -Infinity}', "bad_json"),
        (b"[" * 10_000, "bad_json"),
        (b'{"a":' * 3_000 + b"1" + b"}" * 3_000, "bad_json"),
        (b'{"devices": [], "devices": []}', "duplicate_key"),
        (b'{"k": "\xff"}', "bad_json"),
        ('{"k": 1}'.encode("utf-16"), "bad_json"),
        (b'{"devices": [{"id": "\\ud800", "type": "Light"}]}', "bad_json"),
        (b'{"k": ' + b"9" * 5_000 + b"}", "bad_json"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/recommend/batch"])
def test_what_is_no_json_is_400(client, path, body, code):
    refused(client.post(path, content=body, headers=JSON), 400, code)


def test_brackets_without_end_are_400(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with Client(application([path])) as client:
        for body in (b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"homes":' * 50_000):
            refused(client.post("/v1/recommend/batch", content=body, headers=JSON), 400, "bad_json")


def test_a_pair_of_surrogates_is_a_character(client):
    body = b'{"devices": [{"id": "\\ud83d\\ude00", "type": "Light"}, {"id": 1, "type": "ContactSensor"}]}'
    told = client.post("/v1/recommend", content=body, headers=JSON).json()
    assert told["recommendations"][0]["action_device"] == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("asked", "code", "where"),
    [
        ([], "wrong_kind", ""),
        ("text", "wrong_kind", ""),
        ({}, "missing", "devices"),
        ({"devices": None}, "wrong_kind", "devices"),
        ({"devices": {}}, "wrong_kind", "devices"),
        ({"devices": [3]}, "wrong_kind", "devices[0]"),
        ({"devices": [DOOR, {"id": "x"}]}, "missing", "devices[1].type"),
        ({"devices": [DOOR, {**LAMP, "kind": 1}]}, "unexpected", "devices[1].kind"),
        ({"devices": [DOOR], "colour": 1}, "unexpected", "colour"),
        ({"devices": [DOOR], "str": 1}, "unexpected", "str"),
        ({"devices": [DOOR], "x" * 500: 1}, "unexpected", "x" * 50),
        ({"devices": [{**DOOR, "id": True}]}, "wrong_kind", "devices[0].id"),
        ({"devices": [{**DOOR, "id": 1.5}]}, "wrong_kind", "devices[0].id"),
        ({"devices": [{**DOOR, "id": ""}]}, "wrong_kind", "devices[0].id"),
        ({"devices": [{**DOOR, "id": 2**63}]}, "wrong_kind", "devices[0].id"),
        ({"devices": [{**DOOR, "type": 5}]}, "wrong_kind", "devices[0].type"),
        ({"devices": [{**DOOR, "id": "x" * 31}]}, "too_long", "devices[0].id"),
        ({"devices": [{**DOOR, "name": "x" * 31}]}, "too_long", "devices[0].name"),
        ({"devices": [DOOR], "user": "x" * 31}, "too_long", "user"),
        ({"devices": [DOOR], "user": 1.5}, "wrong_kind", "user"),
        ({"devices": [DOOR], "rules": None}, "wrong_kind", "rules"),
        ({"devices": [DOOR, LAMP], "rules": [{**OPENS, "action": ""}]}, "wrong_kind", "rules[0].action"),
        ({"devices": [DOOR], "k": 0}, "wrong_kind", "k"),
        ({"devices": [DOOR], "k": 10**4_000}, "k_too_large", "k"),
        ({"devices": [DOOR], "k": "5"}, "wrong_kind", "k"),
        ({"devices": [DOOR], "k": 21}, "k_too_large", "k"),
        ({"devices": [DOOR], "model": "another"}, "unknown_model", "model"),
        ({"devices": [DOOR], "unknown": "maybe"}, "wrong_kind", "unknown"),
        ({"devices": []}, "no_devices", "devices"),
        ({"devices": [DOOR, DOOR]}, "duplicate_device", "devices[1].id"),
        ({"devices": [{**DOOR, "type": "Oven"}]}, "unknown_type", "devices[0].type"),
        ({"devices": [DOOR], "rules": [OPENS]}, "missing_device", "rules[0].action_device"),
        ({"devices": [DOOR, LAMP], "rules": [{**OPENS, "action": "Sing"}]}, "unknown_relation", "rules[0]"),
        ({"devices": home(51)["devices"]}, "too_many_devices", "devices"),
        ({"devices": [DOOR, LAMP], "rules": [OPENS] * 61}, "too_many_rules", "rules"),
    ],
)
def test_a_home_that_cannot_be_answered_is_422_with_its_place(client, asked, code, where):
    assert refused(client.post("/v1/recommend", json=asked), 422, code) == where


@pytest.mark.parametrize(
    ("asked", "code", "where"),
    [
        ({}, "missing", "homes"),
        ({"homes": {}}, "wrong_kind", "homes"),
        ({"homes": [home()] * 4}, "too_many_homes", "homes"),
        ({"homes": [home(36), home(35)]}, "too_many_devices", "homes"),
        ({"homes": [home()], "devices": []}, "unexpected", "devices"),
        ({"homes": [home()], "k": 21}, "k_too_large", "k"),
    ],
)
def test_a_batch_that_is_none_is_422(client, asked, code, where):
    assert refused(client.post("/v1/recommend/batch", json=asked), 422, code) == where


def test_a_home_of_ten_thousand_devices_is_422(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with Client(application([path])) as client:
        assert refused(client.post("/v1/recommend", json=home(10_000)), 422, "too_many_devices") == "devices"
        told = client.post("/v1/recommend/batch", json={"homes": [home(10_000), home()]}).json()["results"]
        assert told[0]["error"]["code"] == "too_many_devices"
        assert told[1]["recommendations"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Content-Type": "text/plain"}, "content_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "content_type"),
        ({}, "content_type"),
        ({**JSON, "Content-Encoding": "gzip"}, "content_encoding"),
    ],
)
def test_another_kind_of_content_is_415(client, headers, code):
    body = json.dumps(home()).encode()
    content = gzip.compress(body) if "Content-Encoding" in headers else body
    refused(client.post("/v1/recommend", content=content, headers=headers), 415, code)


@pytest.mark.parametrize(
    ("parse", "content"),
    [
        (partial(parse_options, BatchEnvelope), {"homes": []}),
        (partial(parse_home, limits=LIMITS), {"devices": []}),
        (HomeRequest.from_json, {"devices": [DOOR, {}]}),
        (HomeRequest.from_json, {"devices": [], "rules": [{}]}),
    ],
)
def test_a_hundred_thousand_unknown_names_are_one_error_and_no_memory(parse, content):
    *_, innermost = [content, *content.get("devices", []), *content.get("rules", [])]
    innermost.update((f"name {at}", 1) for at in range(100_000))
    tracemalloc.start()
    try:
        with pytest.raises((ApiError, BadHome), match="unknown field"):
            parse(content)
        # An error for each name would take a hundred times more bytes
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_whole_numbers_may_be_written_with_a_point(client):
    told = client.post("/v1/recommend", content=json.dumps({**home(), "k": 2.0}), headers=JSON).json()
    assert len(told["recommendations"]) == 2
    infinite = json.dumps(home())[:-1] + ', "k": 1e999}'
    assert refused(client.post("/v1/recommend", content=infinite, headers=JSON), 422, "wrong_kind") == "k"


def test_a_byte_order_mark_is_passed_over_as_in_files(client):
    body = b"\xef\xbb\xbf" + json.dumps(home()).encode()
    assert client.post("/v1/recommend", content=body, headers=JSON).status_code == 200


def test_json_with_a_charset_is_json(client):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/recommend", content=json.dumps(home()), headers=headers).status_code == 200


def test_a_body_over_the_limit_is_413_whether_its_length_was_told_or_not(client):
    body = json.dumps({**home(), "user": "x" * 20_000}).encode()
    refused(client.post("/v1/recommend", content=body, headers=JSON), 413, "body_too_large")

    async def parts():
        yield body[:15_000]
        yield body[15_000:]

    refused(client.post("/v1/recommend", content=parts(), headers=JSON), 413, "body_too_large")
    exactly = json.dumps(home()).encode().ljust(20_000)
    assert client.post("/v1/recommend", content=exactly, headers=JSON).status_code == 200


def test_the_usual_length_of_a_list_is_never_more_than_agreed(tmp_path):
    with Client(application([saved_model(tmp_path / "model.safetensors")], limits=Limits(k=2))) as client:
        assert len(client.post("/v1/recommend", json=home()).json()["recommendations"]) == 2
        refused(client.post("/v1/recommend", json={**home(), "k": 3}), 422, "k_too_large")


def test_other_paths_and_methods_are_404_and_405(client):
    refused(client.get("/v1/nothing"), 404, "not_found")
    refused(client.get("/docs/"), 404, "not_found")
    refused(client.get("/../../etc/passwd"), 404, "not_found")
    answer = client.get("/v1/recommend")
    refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    refused(client.request("DELETE", "/v1/model"), 405, "method_not_allowed")
