"""Clients that are slow, disconnect or send garbage: each is cut off, and the service carries on."""

from __future__ import annotations

import contextlib
import json
import re
import socket

import pytest

from fedrule.serving.limits import Limits
from fedrule.serving.routes import application
from tests.support.in_process import on_manual_clock
from tests.support.served import PATIENCE, get, post, served
from tests.support.small_model import home, saved_model
from tests.support.waiting import wait_until

BODY = json.dumps(home()).encode()
HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WHOLE = HEAD % len(BODY) + BODY
SECONDS = 4  # less than the 5 after which uvicorn closes idle connections; on a clock that the tests move by hand


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("models") / "model.safetensors")


@pytest.fixture
def app(model):
    made = application([model], limits=Limits(seconds=SECONDS))
    yield made
    made.service.close()


@pytest.fixture(scope="module")
def service(model):
    with served([model], max_connections=40) as made:
        yield made
        assert post(made, "/v1/recommend", home()).status_code == 200  # still answers


def connected(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)


def until_closed(connection):
    """All that the service sends before it closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def refused(answer, status, code):
    """Whether the last response on a connection is this error."""
    head, _, body = answer[answer.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["code"] == code


@pytest.mark.parametrize("begun", [b"", b"POST /v1/rec", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_headers_that_never_end_are_408(app, begun):
    async def act(peer):
        await peer.send(begun)
        await peer.wait(SECONDS - 1)
        assert not peer.closing
        await peer.wait(2)
        return await peer.received()

    refused(on_manual_clock(app, act), 408, "slow_headers")


def test_a_second_request_that_never_ends_is_cut_off_too(app):
    async def act(peer):
        await peer.send(WHOLE + b"POST /v1/recommend HTTP/1.1\r\nHost")
        await peer.responded()
        await peer.wait(SECONDS + 1)
        return await peer.received()

    answer = on_manual_clock(app, act)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    refused(answer, 408, "slow_headers")


def test_blank_lines_do_not_keep_a_connection_open(app):
    async def act(peer):
        await peer.send(WHOLE)
        await peer.responded()
        for _ in range(SECONDS):
            assert not peer.closing
            await peer.send(b"\r\n")
            await peer.wait(1)
        return await peer.received()

    assert on_manual_clock(app, act).startswith(b"HTTP/1.1 200 OK")


def test_headers_that_come_a_letter_at_a_time_are_408(app):
    async def act(peer):
        await peer.send(b"GET /healthz HTTP/1.1\r\nHost: ")
        for _ in range(SECONDS):
            assert not peer.closing
            await peer.send(b"X")
            await peer.wait(1)
        return await peer.received()

    refused(on_manual_clock(app, act), 408, "slow_headers")


@pytest.mark.parametrize("path", [b"/v1/recommend", b"/v1/recommend/batch"])
def test_a_body_that_never_ends_is_408(app, path):
    async def act(peer):
        await peer.send((HEAD % len(BODY)).replace(b"/v1/recommend", path) + BODY[:50])
        await peer.wait(SECONDS - 1)
        assert not peer.closing
        await peer.wait(1)
        return await peer.received()

    refused(on_manual_clock(app, act), 408, "slow_body")


def test_a_body_that_no_route_reads_does_not_hold_the_connection(app):
    async def act(peer):
        await peer.send((HEAD % len(BODY)).replace(b"/v1/recommend", b"/nothing") + BODY[:50])
        await peer.wait(SECONDS + 1)
        return await peer.received()

    assert on_manual_clock(app, act).startswith(b"HTTP/1.1 404 ")


def test_a_client_that_does_not_read_its_responses_is_cut_off(app):
    async def act(peer):
        await peer.send(b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n" * 100)  # some 3 MB of responses
        await peer.wait(SECONDS - 1)
        assert not peer.closing
        await peer.wait(1)
        assert peer.closing

    on_manual_clock(app, act)
    assert "\nfedrule_requests_in_flight 0.0\n" in app.service.metrics.text(app.service.store).decode()


def test_chunks_without_end_are_413(app):
    head = HEAD.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (500_000, b" " * 500_000)

    async def act(peer):
        await peer.send(head, *[chunk] * 9)  # 4.5 MB, and 4 times the limit of 1 MB is read
        return await peer.received()

    assert on_manual_clock(app, act).startswith(b"HTTP/1.1 413 ")


def test_headers_without_bounds_are_431(app):
    async def act(peer):
        await peer.send(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 60_000)
        assert not peer.closing
        await peer.send(b"x" * 60_000)
        return await peer.received()

    refused(on_manual_clock(app, act), 431, "headers_too_large")


def test_a_long_body_does_not_count_as_headers_of_the_next_request(app):
    body = BODY.ljust(100_000)

    async def act(peer):
        # What one read of the socket may give: the end of a body, and the beginning of the next request
        rest = body + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: "
        await peer.send(HEAD % len(body), rest, b"close\r\n\r\n")
        while not peer.closing:
            await peer.wait(0)
        return await peer.received()

    answers = on_manual_clock(app, act)
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert answers.endswith(b'{"status":"ok"}')


def test_clients_that_disconnect_leave_nothing_behind(service):
    for length in (1, len(BODY) // 2, len(BODY) - 1):
        for _ in range(10):
            with connected(service) as connection:
                connection.sendall(HEAD % len(BODY) + BODY[:length])
    wait_until(lambda: 'route="/v1/recommend",status="499"} 30.0' in get(service, "/metrics").text)
    assert "\nfedrule_requests_in_flight 1.0\n" in get(service, "/metrics").text  # this one
    assert service.log.read_text().count("\n") == 1  # its first line


def test_requests_that_no_route_has_seen_are_counted_too(service):
    def count():
        found = re.search(r'requests_total{route="other",status="400"} (\d+)', get(service, "/metrics").text)
        return int(found[1]) if found else 0

    before = count()
    with connected(service) as connection:
        connection.sendall(b"HELLO\r\n\r\n")
        refused(until_closed(connection), 400, "bad_request")
    assert count() == before + 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
    ],
)
def test_anything_but_http_is_400(service, garbage):
    with connected(service) as connection:
        connection.sendall(garbage)
        refused(until_closed(connection), 400, "bad_request")


def test_connections_beyond_the_limit_are_503(service):
    with contextlib.ExitStack() as opened:
        *_, last = [opened.enter_context(connected(service)) for _ in range(41)]
        refused(until_closed(last), 503, "too_busy")
