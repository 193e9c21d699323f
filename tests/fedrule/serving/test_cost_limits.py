"""How much work the service accepts: refused in advance, ended at its deadline, dropped when nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import threading

import httpx
import numpy as np
import pytest
from fastapi import Request

from fedrule.inference import Recommender, SavedModel
from fedrule.inference.encode import HomeEncoder
from fedrule.inference.network import NumpyNetwork
from fedrule.serving.errors import ApiError, ClientGone
from fedrule.serving.limits import Limits
from fedrule.serving.model_store import CostModel, timed_home
from fedrule.serving.requests import BodyReader
from fedrule.serving.routes import application
from fedrule.serving.service import Job, Workers
from tests.support.in_process import Client
from tests.support.served import PATIENCE
from tests.support.small_model import TYPED, home, saved_model, slow_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("models") / "model.safetensors")


LIMITS = Limits(work_seconds=3_600)  # as long as it takes


def request(*messages):
    """Of a client that sends these and then waits for the response."""
    left = list(messages)

    async def receive():
        return left.pop(0) if left else await asyncio.Event().wait()

    return Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)


def test_the_candidates_of_a_home_are_counted_and_cost_what_was_measured(model):
    cost = CostModel.measure(Recommender.load(model))
    # One contact sensor, two lights, one camera: of TYPED the sensor has 2 rules with each light, and the camera 1
    types = ["ContactSensor", "Light", "Light", "Camera"]
    assert len([1 for trigger, _, action, _ in TYPED if {trigger, action} <= set(types)]) == 3
    assert cost.candidates(types) == 2 * 2 + 1 * 2
    assert cost.candidates([*types, "Oven"]) == 6
    assert cost.candidates([]) == 0
    assert cost.affordable(10) == pytest.approx(10 / cost.per_candidate, abs=1)
    assert cost.per_home > 0


def test_the_cost_is_that_of_a_home_whose_devices_are_not_alike(tmp_path):
    # A search takes devices with the same embedding together: without rules there would be 7 of them, one of each type.
    # Of few relations also rules are alike; that devices differ does not need more of them, which take seconds.
    saved = SavedModel.load(slow_model(tmp_path / "slow.safetensors", relations=10))
    recommender = Recommender(saved)
    graph = HomeEncoder(saved.card).encode(timed_home(recommender, 320)).graph
    assert len(np.unique(NumpyNetwork.of(saved).embed(graph).round(9), axis=0)) > 300


def test_the_cost_is_that_of_a_home_whose_devices_are_in_rooms(model):
    recommender = Recommender.load(model)
    graph = HomeEncoder(recommender.card).encode(timed_home(recommender, 40)).graph
    assert np.bincount(graph.word).tolist() == [
        10,
        10,
        10,
        10,
    ]  # devices of each room


def test_more_work_than_fits_into_the_time_is_refused_before_it_is_done(tmp_path, monkeypatch):
    def cost(recommender):
        types = {name: index for index, name in enumerate(recommender.card.types)}
        return CostModel(recommender.valid, types, per_home=0.0, per_candidate=0.001)

    monkeypatch.setattr(CostModel, "measure", cost)
    path = slow_model(tmp_path / "slow.safetensors")
    with Client(application([path], limits=LIMITS)) as client:
        assert client.get("/v1/model").json()["limits"]["candidates"] == 3_600_000  # a thousand in each second
        # 500 devices, 1,000 valid relations between any two: 500 x 500 x 1,000 = 250,000,000
        answer = client.post("/v1/recommend", json=home(500, rules=0))
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["where"]) == (422, "too_much_work", "devices")
        assert "250,000,000 candidate rules" in error["message"]
        assert "3,600,000 in 3600 seconds" in error["message"]
        # 20 homes of 100 devices: 20 x 100 x 100 x 1,000
        answer = client.post("/v1/recommend/batch", json={"homes": [home(100, rules=0)] * 20})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["where"]) == (422, "too_much_work", "homes")
        assert "200,000,000 candidate rules" in error["message"]
        assert client.post("/v1/recommend", json=home(10, rules=0)).status_code == 200


def test_homes_of_a_batch_after_the_deadline_have_an_error(model):
    body = json.dumps({"homes": [{"user": "ann", **home()}, {"user": 2, **home()}, {"user": 3, **home()}]}).encode()
    service = application([model]).service
    # The clock is read when the job is queued, twice when it begins, and before each home: 0, 0, 0; 5, 11, 12
    clock = iter([0.0, 0.0, 0.0, 5.0, 11.0, 12.0])
    late = json.loads(Job(10.0, lambda: next(clock)).run(lambda job: service.many(body, job)))["results"]
    assert late[0]["recommendations"]
    assert [(result["user"], result["error"]["code"]) for result in late[1:]] == [(2, "deadline"), (3, "deadline")]
    stopped = Job(10.0, lambda: 0.0)
    stopped.shutting_down = True
    assert json.loads(service.many(body, stopped))["results"][0]["error"]["code"] == "shutting_down"
    assert all("recommendations" in result for result in json.loads(service.many(body, Job(1, lambda: 0)))["results"])


def test_work_that_has_waited_too_long_is_not_begun():
    clock = iter([0.0, 11.0])
    with pytest.raises(ApiError, match="try again") as refused:
        Job(10.0, lambda: next(clock)).run(lambda _: b"")
    assert (refused.value.status, refused.value.code) == (503, "too_busy")


def test_while_a_batch_runs_health_is_answered_and_requests_beyond_the_limit_are_503(model, monkeypatch):
    begun, finish = threading.Event(), threading.Event()
    recommend = Recommender.recommend

    def held(*args, **options):
        begun.set()
        assert finish.wait(PATIENCE)
        return recommend(*args, **options)

    app = application([model], limits=Limits(in_flight=1, work_seconds=3_600))
    monkeypatch.setattr(Recommender, "recommend", held)

    async def ask():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            batch = asyncio.ensure_future(client.post("/v1/recommend/batch", json={"homes": [home()] * 200}))
            assert await asyncio.to_thread(begun.wait, PATIENCE)
            refused = await client.post("/v1/recommend", json=home())
            health = await client.get("/healthz")
            assert not batch.done()
            finish.set()
            return refused, health, await batch, await client.post("/v1/recommend", json=home())

    refused, health, batch, after = asyncio.run(ask())
    app.service.close()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_busy")
    assert refused.headers["retry-after"] == "1"
    assert (health.status_code, after.status_code) == (200, 200)
    assert (batch.status_code, len(batch.json()["results"])) == (200, 200)


def test_a_single_home_does_not_wait_for_batches_and_a_client_that_has_gone_is_not_worked_for():
    done, begun = threading.Event(), []

    def long(_):
        done.wait(PATIENCE)
        return b"long"

    async def ask():
        workers = Workers(LIMITS)
        first = asyncio.ensure_future(workers.run(long, request(), batch=True))
        assert await workers.run(lambda _: b"short", request()) == b"short"
        with pytest.raises(ClientGone):
            await workers.run(begun.append, request({"type": "http.disconnect"}), batch=True)
        done.set()
        assert await first == b"long"
        assert await workers.run(lambda _: b"next", request(), batch=True) == b"next"
        assert not workers.busy
        workers.close()

    asyncio.run(ask())
    assert begun == []


def test_a_batch_whose_client_goes_ends_at_the_next_home_and_holds_its_place_until_then():
    looked = threading.Event()

    async def ask():
        workers, goes = Workers(Limits(in_flight=1, work_seconds=3_600)), asyncio.Event()

        async def receive():
            await goes.wait()
            return {"type": "http.disconnect"}

        def until_over(job):
            while job.interrupted() is None:
                looked.set()
            return b""

        asked = asyncio.ensure_future(workers.run(until_over, Request({"type": "http"}, receive), batch=True))
        await asyncio.to_thread(looked.wait, PATIENCE)
        with pytest.raises(ApiError):
            workers.check_capacity()
        goes.set()
        with pytest.raises(ClientGone):
            await asked
        workers.check_capacity()
        workers.close()

    asyncio.run(ask())


def test_at_the_end_clients_are_told_though_a_thread_goes_on():
    done, begun = threading.Event(), threading.Event()

    def long(_):
        begun.set()
        done.wait(PATIENCE)
        return b""

    async def ask():
        workers = Workers(LIMITS)
        asked = asyncio.ensure_future(workers.run(long, request()))
        await asyncio.to_thread(begun.wait, PATIENCE)
        workers.stop()
        workers.abandon()
        with pytest.raises(ApiError, match="the service is shutting down"):
            await asked
        assert workers.busy
        done.set()
        workers.close()

    asyncio.run(ask())


def test_a_body_is_held_until_its_request_is_answered():
    sent = request({"type": "http.request", "body": b"12", "more_body": True}, {"type": "http.request", "body": b"345"})

    async def ask():
        bodies = BodyReader(Limits(held_bytes=7))
        async with bodies.read(sent, limit=10) as body:
            assert (body, bodies.held) == (b"12345", 5)
            with pytest.raises(ApiError, match="too many large requests"):
                async with bodies.read(request({"type": "http.request", "body": b"678"}), limit=10):
                    pass
            assert bodies.held == 5
        assert bodies.held == 0

    asyncio.run(ask())


def test_however_many_ask_for_the_models_to_be_read_again_one_is_under_way_and_one_to_come(model):
    service = application([model]).service

    async def ask():
        first = asyncio.ensure_future(service.reloader.reload())
        while not service.reloader.busy:
            await asyncio.sleep(0)
        answers = await asyncio.gather(first, *(service.reloader.reload() for _ in range(20)))
        assert len({*answers}) == 1

    asyncio.run(ask())
    service.close()
    assert 'fedrule_reloads_total{result="ok"} 2.0' in service.metrics.text(service.store).decode()
