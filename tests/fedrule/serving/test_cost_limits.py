"""How much work the service takes on: refused beforehand, ended in time, left out when nobody waits for it."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from fastapi import Request

from fedrule.inference import Recommender
from fedrule.serving.errors import ClientGone, Refused
from fedrule.serving.limits import Bodies, Limits
from fedrule.serving.model_store import Effort
from fedrule.serving.routes import application
from fedrule.serving.service import Errand, Workers
from tests.support.in_process import Client
from tests.support.small_model import TYPED, home, saved_model, slow_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("models") / "model.safetensors")


def request(*messages):
    """Of a client that sends these and then waits for its answer."""
    left = list(messages)

    async def receive():
        return left.pop(0) if left else await asyncio.Event().wait()

    return Request({"type": "http", "headers": [(b"content-type", b"application/json")]}, receive)


def test_the_candidates_of_a_home_are_counted_and_cost_what_was_measured(model):
    effort = Effort.of(Recommender.load(model))
    # One contact sensor, two lights, one camera: of TYPED the sensor has 2 rules with each light, and the camera 1
    types = ["ContactSensor", "Light", "Light", "Camera"]
    assert len([1 for trigger, _, action, _ in TYPED if {trigger, action} <= set(types)]) == 3
    assert effort.candidates(types) == 2 * 2 + 1 * 2
    assert effort.candidates([*types, "Oven"]) == 6
    assert effort.candidates([]) == 0
    assert effort.most(10) == pytest.approx(10 / effort.per_candidate, abs=1)
    assert effort.per_home > 0


def test_more_work_than_fits_into_the_time_is_refused_before_it_is_done(tmp_path):
    path = slow_model(tmp_path / "slow.safetensors")
    with Client(application([path], limits=Limits(work_seconds=1))) as client:
        most = client.get("/v1/model").json()["limits"]["candidates"]
        # 500 devices, 1,000 valid relations between any two: 500 x 500 x 1,000 = 250,000,000
        answer = client.post("/v1/recommend", json=home(500, rules=0))
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["where"]) == (422, "too_much_work", "devices")
        assert f"250,000,000 rules are possible between these devices, and {most:,}" in error["message"]
        # 20 homes of 100 devices: 20 x 100 x 100 x 1,000
        answer = client.post("/v1/recommend/batch", json={"homes": [home(100, rules=0)] * 20})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["where"]) == (422, "too_much_work", "homes")
        assert "200,000,000 rules" in error["message"]
        assert client.post("/v1/recommend", json=home(10, rules=0)).status_code == 200


def test_homes_of_a_batch_behind_the_deadline_have_an_error(model):
    body = json.dumps({"homes": [{"user": "ann", **home()}, {"user": 2, **home()}]}).encode()
    service = application([model]).service
    late = json.loads(service.many(body, Errand(-1.0)))["results"]
    assert [(result["user"], result["error"]["code"]) for result in late] == [("ann", "deadline"), (2, "deadline")]
    stopped = Errand(60.0)
    stopped.stopped = True
    assert json.loads(service.many(body, stopped))["results"][0]["error"]["code"] == "ending"
    assert all(result["recommendations"] for result in json.loads(service.many(body, Errand(60.0)))["results"])


def test_work_that_has_waited_too_long_is_not_begun():
    with pytest.raises(Refused, match="try again") as refused:
        Errand(-1.0).run(lambda _: b"")
    assert (refused.value.status, refused.value.code) == (503, "too_busy")


def test_a_single_home_does_not_wait_for_batches_and_a_client_that_has_gone_is_not_worked_for():
    done, begun = threading.Event(), []

    def long(_):
        done.wait(60)
        return b"long"

    async def ask():
        workers = Workers(Limits())
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
        workers, goes = Workers(Limits(in_flight=1)), asyncio.Event()

        async def receive():
            await goes.wait()
            return {"type": "http.disconnect"}

        def until_over(errand):
            while errand.over() is None:
                looked.set()
            return b""

        asked = asyncio.ensure_future(workers.run(until_over, Request({"type": "http"}, receive), batch=True))
        await asyncio.to_thread(looked.wait)
        with pytest.raises(Refused):
            workers.refuse_too_many()
        goes.set()
        with pytest.raises(ClientGone):
            await asked
        workers.refuse_too_many()
        workers.close()

    asyncio.run(ask())


def test_at_the_end_clients_are_told_though_a_thread_goes_on():
    done, begun = threading.Event(), threading.Event()

    def long(_):
        begun.set()
        done.wait(60)
        return b""

    async def ask():
        workers = Workers(Limits())
        asked = asyncio.ensure_future(workers.run(long, request()))
        await asyncio.to_thread(begun.wait)
        workers.stop()
        workers.give_up()
        with pytest.raises(Refused, match="the service is ending"):
            await asked
        assert workers.busy
        done.set()
        workers.close()

    asyncio.run(ask())


def test_a_body_is_held_until_its_request_is_answered():
    sent = request({"type": "http.request", "body": b"12", "more_body": True}, {"type": "http.request", "body": b"345"})

    async def ask():
        bodies = Bodies(Limits(held_bytes=7))
        async with bodies.read(sent, limit=10) as body:
            assert (body, bodies.held) == (b"12345", 5)
            with pytest.raises(Refused, match="too many large requests"):
                async with bodies.read(request({"type": "http.request", "body": b"678"}), limit=10):
                    pass
            assert bodies.held == 5
        assert bodies.held == 0

    asyncio.run(ask())


def test_however_many_ask_for_the_models_to_be_read_again_one_is_under_way_and_one_to_come(model):
    service = application([model]).service

    async def ask():
        first = asyncio.ensure_future(service.reloads.reload())
        while not service.reloads.busy:
            await asyncio.sleep(0)
        answers = await asyncio.gather(first, *(service.reloads.reload() for _ in range(20)))
        assert len({*answers}) == 1

    asyncio.run(ask())
    service.close()
    assert 'fedrule_reloads_total{result="ok"} 2.0' in service.measured.text(service.shelf).decode()
