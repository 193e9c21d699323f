"""The HTTP service as clients see it: lists, batches, models, the reference, counters, the token."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedrule.inference import HomeRequest, Recommender
from fedrule.serving.routes import application
from tests.support.in_process import Client
from tests.support.small_model import RELATIONS, TYPED, TYPES, home, saved_model

TOKEN = "a-long-word"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return [saved_model(folder / "first.safetensors"), saved_model(folder / "second.safetensors", seed=1)]


@pytest.fixture
def client(models):
    with Client(application(models)) as made:
        yield made


def test_a_list_is_what_the_recommender_says(client, models):
    asked = home(6, rules=2)
    answer = client.post("/v1/recommend", json={**asked, "k": 4})
    assert answer.status_code == 200
    told = answer.json()
    recommender = Recommender.load(models[0])
    expected = recommender.recommend(HomeRequest.from_json(asked), k=4)
    assert told["model"] == {"name": "first", "method": "graphrule", "digest": recommender.digest}
    assert told["ignored"] == []
    assert len(told["recommendations"]) == 4
    assert told["recommendations"] == expected.as_json()["recommendations"]


def test_another_model_is_asked_by_its_name(client, models):
    told = client.post("/v1/recommend", json={**home(), "model": "second"}).json()
    assert told["model"]["digest"] == Recommender.load(models[1]).digest


def test_a_list_may_be_kept_varied(client):
    lamps = [{"id": at, "type": "Light"} for at in range(6)]
    asked = {"devices": [{"id": "m", "type": "MotionSensor"}, *lamps], "k": 10}
    plain, varied = (client.post("/v1/recommend", json=asked | more).json() for more in ({}, {"max_similar": 2}))
    kinds = [
        [(rule["trigger_state"], rule["action"]) for rule in answer["recommendations"]] for answer in (plain, varied)
    ]
    # Two relations are valid from a motion sensor to a lamp, and there are six lamps.
    assert sorted(Counter(kinds[0]).values()) == [4, 6]
    assert sorted(Counter(kinds[1]).values()) == [2, 2]


def test_ids_may_be_whole_numbers(client):
    devices = [{"id": 2**62, "type": "ContactSensor"}, {"id": -5, "type": "Light"}]
    told = client.post("/v1/recommend", json={"devices": devices, "user": 7}).json()
    assert {(line["trigger"], line["action_device"]) for line in told["recommendations"]} == {(2**62, -5)}


def test_what_the_model_does_not_know_is_left_out_when_asked_for(client):
    asked = home()
    asked["devices"] = [*asked["devices"], {"id": "oven", "type": "Oven"}]
    told = client.post("/v1/recommend", json={**asked, "unknown": "ignore"}).json()
    assert len(told["ignored"]) == 1
    assert "Oven" in told["ignored"][0]
    assert told["recommendations"] == client.post("/v1/recommend", json=home()).json()["recommendations"]


def test_a_batch_answers_each_home_and_a_bad_one_does_not_spoil_the_others(client):
    strange = {"user": "cy", "devices": [{"id": 1, "type": "Oven"}]}
    homes = [{"user": "ann", **home()}, strange, {"user": 9}, {"user": 4, **home(8)}, "no home"]
    told = client.post("/v1/recommend/batch", json={"homes": homes, "k": 3}).json()
    alone = client.post("/v1/recommend", json={**home(), "k": 3}).json()
    assert told["model"] == alone["model"]
    first, second, third, fourth, fifth = told["results"]
    assert first == {"user": "ann", "recommendations": alone["recommendations"], "ignored": []}
    assert second["user"] == "cy"
    assert (second["error"]["code"], second["error"]["where"]) == ("unknown_type", "devices[0].type")
    assert (third["user"], third["error"]["code"], third["error"]["where"]) == (9, "missing", "devices")
    assert (fifth["user"], fifth["error"]["code"]) == (None, "wrong_kind")
    assert (fourth["user"], len(fourth["recommendations"])) == (4, 3)
    assert client.post("/v1/recommend/batch", json={"homes": []}).json()["results"] == []


def test_the_model_says_what_it_knows_and_what_may_be_asked(client):
    told = client.get("/v1/model").json()
    assert (told["name"], told["method"], told["valid_rules"]) == ("first", "graphrule", len(TYPED))
    assert told["types"] == list(TYPES)
    assert told["relations"][0] == {"trigger_state": "Open", "action": "Power On"}
    assert told["models"] == ["first", "second"]
    assert told["limits"]["devices"] == 500
    assert told["options"]["encoder"] == "sage"
    assert told["trainings"][0]["homes"] == 100
    assert client.get("/v1/model?name=second").json()["name"] == "second"
    missing = client.get("/v1/model?name=third")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_model")


def test_valid_rules_are_told_commonest_first(client):
    rules = client.get("/v1/model/rules").json()["rules"]
    # of TYPED: 55 homes have motion -> light, the most; 3 have person -> lock, the fewest
    assert rules[0] == {
        "trigger_type": "MotionSensor",
        "trigger_state": "Motion Detected",
        "action": "Power On",
        "action_type": "Light",
        "homes": 55,
    }
    assert [rule["homes"] for rule in rules] == sorted((homes for *_, homes in TYPED), reverse=True)
    typed = {(a, *RELATIONS[r], b) for a, r, b, _ in TYPED}
    assert {(r["trigger_type"], r["trigger_state"], r["action"], r["action_type"]) for r in rules} == typed


def test_the_reference_and_the_page_load_nothing_from_elsewhere(client):
    page = client.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", page.text) == ["docs.css", "./", "openapi.json"]
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in page.text
    assert client.get("/docs.css").headers["content-type"] == "text/css; charset=utf-8"
    page = client.get("/").text
    assert re.findall(r"(?:src|href)=\"(?!#)([^\"]*)\"", page) == [
        "page/icon.svg",
        "page/style.css",
        "page/main.js",
        "docs",
        "metrics",
    ]
    assert client.get("/page/main.js").headers["content-type"] == "text/javascript; charset=utf-8"


def test_counters_are_read_by_prometheus_and_their_labels_are_few(client):
    for path in ("/a", "/b", "/c"):
        assert client.get(path).status_code == 404
    for _ in range(3):
        assert client.post("/v1/recommend", json={**home(), "k": 2}).status_code == 200
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["fedrule_requests_total", "/v1/recommend", "200"] == 3
    assert samples["fedrule_requests_total", "404", "other"] == 3
    assert samples["fedrule_request_seconds_count", "/v1/recommend"] == 3
    assert samples["fedrule_homes_total",] == 3
    assert samples["fedrule_recommendations_total",] == 6
    assert samples["fedrule_requests_in_flight",] == 1  # this one
    assert samples["process_resident_memory_bytes",] > 1e6
    digests = {key for key in samples if key[0] == "fedrule_model_info"}
    assert len(digests) == 2


def test_with_a_token_only_those_who_have_it_are_answered(models):
    with Client(application(models[:1], token=TOKEN)) as client:
        for path in ("/healthz", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200
        for given in ({}, {"Authorization": "Bearer another"}, {"Authorization": TOKEN}, {"Authorization": "Bearer é"}):
            headers = {name: value.encode() for name, value in given.items()}
            for answer in (client.get("/metrics", headers=headers), client.post("/v1/recommend", headers=headers)):
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert answer.json()["error"]["code"] == "unauthorized"
        headers = {"Authorization": f"bearer {TOKEN}"}
        assert client.get("/metrics", headers=headers).status_code == 200
        assert client.post("/v1/recommend", json=home(), headers=headers).status_code == 200
        described = client.get("/openapi.json").json()
        assert "401" in described["paths"]["/v1/model"]["get"]["responses"]


def test_models_are_read_again_and_a_bad_file_changes_nothing(tmp_path):
    path = saved_model(tmp_path / "model.safetensors")
    with Client(application([path])) as client:
        before = client.get("/v1/model").json()["digest"]
        saved_model(path, seed=5)
        assert client.get("/v1/model").json()["digest"] == before
        told = client.post("/v1/model/reload", headers=JSON).json()["models"]
        assert told[0]["digest"] == Recommender.load(path).digest != before
        path.write_bytes(path.read_bytes()[:1000])
        refused = client.post("/v1/model/reload", headers=JSON)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "bad_model")
        assert str(tmp_path) not in refused.text
        assert client.post("/v1/recommend", json=home()).json()["model"] == told[0]
        counters = client.get("/metrics").text
        assert 'fedrule_reloads_total{result="ok"} 1.0' in counters
        assert 'fedrule_reloads_total{result="failed"} 1.0' in counters


def test_a_foreign_page_cannot_have_the_models_read_again(models):
    # What a browser sends for a page of another origin without asking: a form's content types, and no token.
    with Client(application(models)) as client:
        for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
            refused = client.post("/v1/model/reload", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (415, "content_type")
        assert client.post("/v1/model/reload", headers=JSON).status_code == 200
    with Client(application(models, token=TOKEN)) as client:
        assert client.post("/v1/model/reload", headers=JSON).status_code == 401
        assert client.post("/v1/model/reload", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_what_fails_inside_is_logged_with_a_number_and_not_told(models, caplog):
    broken = application(models[:1])
    broken.service.store = None
    with Client(broken) as client:
        answer = client.post("/v1/recommend", json=home())
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal_error"
    assert "NoneType" not in answer.text
    number = error["message"].rpartition(" ")[2]
    assert number in caplog.text
    assert "AttributeError" in caplog.text
    assert json.dumps(home())[:40] not in caplog.text
