"""Clients that are slow, break off or send nonsense, over real sockets: each is cut off, and the service goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import time

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from fedrule.serving.routes import application
from fedrule.serving.server import connections
from tests.support.served import served
from tests.support.small_model import home, saved_model

BODY = json.dumps(home()).encode()
HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
WHOLE = HEAD % len(BODY) + BODY
PATIENCE = 20.0  # seconds that a test waits for what the service does after one


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    path = saved_model(tmp_path_factory.mktemp("models") / "model.safetensors")
    with served([path], max_seconds=1, max_connections=40) as made:
        yield made
        assert httpx.post(f"{made.url}/v1/recommend", json=home()).status_code == 200  # still answers


def connected(service):
    return socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)


def until_closed(connection):
    """All that the service sends before it closes the connection."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def refused(answer, status, code):
    """Whether the last answer on a connection is this error."""
    head, _, body = answer[answer.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"connection: close" in head.lower()
    assert json.loads(body)["error"]["code"] == code


@pytest.mark.parametrize("begun", [b"", b"POST /v1/rec", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_headers_that_never_end_are_408(service, begun):
    with connected(service) as connection:
        connection.sendall(begun)
        refused(until_closed(connection), 408, "slow_headers")


def test_a_second_request_that_never_ends_is_cut_off_too(service):
    with connected(service) as connection:
        connection.sendall(WHOLE + b"POST /v1/recommend HTTP/1.1\r\nHost")
        answer = until_closed(connection)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        refused(answer, 408, "slow_headers")


def test_empty_lines_are_no_signs_of_life(service):
    with connected(service) as connection:
        connection.sendall(WHOLE)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        connection.settimeout(0.2)
        until, closed = time.monotonic() + PATIENCE, False
        while not closed and time.monotonic() < until:
            try:
                connection.sendall(b"\r\n")
                closed = connection.recv(65_536) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
        assert closed


def test_headers_that_come_a_letter_at_a_time_are_408(service):
    with connected(service) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        connection.settimeout(0.2)
        begin, answer = time.monotonic(), b""
        while not answer and time.monotonic() - begin < PATIENCE:
            connection.sendall(b"X")
            try:
                answer = connection.recv(65_536)
            except TimeoutError:
                continue
        refused(answer, 408, "slow_headers")


@pytest.mark.parametrize("path", [b"/v1/recommend", b"/v1/recommend/batch"])
def test_a_body_that_never_ends_is_408(service, path):
    with connected(service) as connection:
        connection.sendall((HEAD % len(BODY)).replace(b"/v1/recommend", path) + BODY[:50])
        refused(until_closed(connection), 408, "slow_body")


def test_a_body_that_no_route_reads_does_not_hold_the_connection(service):
    with connected(service) as connection:
        connection.sendall((HEAD % len(BODY)).replace(b"/v1/recommend", b"/nothing") + BODY[:50])
        answer = until_closed(connection)  # else it would time out here
        assert answer.startswith(b"HTTP/1.1 404 ")


def test_chunks_without_end_are_413(service):
    head = HEAD.partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%b\r\n" % (500_000, b" " * 500_000)
    with connected(service) as connection:
        connection.sendall(head)
        for _ in range(9):  # 4.5 MB, and 4 times the limit of 1 MB is read
            connection.sendall(chunk)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_clients_that_break_off_leave_nothing_behind(service):
    for length in (1, len(BODY) // 2, len(BODY) - 1):
        for _ in range(10):
            with connected(service) as connection:
                connection.sendall(HEAD % len(BODY) + BODY[:length])
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        told = httpx.get(f"{service.url}/metrics").text
        if 'route="/v1/recommend",status="499"} 30.0' in told:
            break
        time.sleep(0.05)
    assert 'route="/v1/recommend",status="499"} 30.0' in told
    assert "\nfedrule_requests_in_flight 1.0\n" in told  # the one for the counters
    assert service.log.read_text().count("\n") == 1  # the line that it began with


def test_headers_without_bounds_are_431(service):
    with connected(service) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 60_000)
        time.sleep(0.1)
        connection.sendall(b"x" * 60_000)
        refused(until_closed(connection), 431, "headers_too_large")


def test_a_long_body_does_not_count_as_headers_of_the_next_request(tmp_path):
    gate = application([saved_model(tmp_path / "model.safetensors")])
    config = uvicorn.Config(gate, http=connections(gate.service.limits, gate.service.measured), log_config=None)
    config.load()
    body = BODY.ljust(100_000)

    async def ask():
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        connection = config.http_protocol_class(config, ServerState(), {})
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, theirs)
        # What one look at the socket may give: the end of a body, and the beginning of what follows
        connection.data_received(HEAD % len(body))
        connection.data_received(body + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: ")
        connection.data_received(b"close\r\n\r\n")
        answers = await reader.read()
        writer.close()
        return answers

    answers = asyncio.run(ask())
    gate.service.close()
    assert answers.startswith(b"HTTP/1.1 200 OK")
    assert answers.endswith(b'{"status":"ok"}')


def test_what_no_route_has_seen_is_counted_too(service):
    def count():
        found = re.search(r'requests_total{route="other",status="400"} (\d+)', httpx.get(f"{service.url}/metrics").text)
        return int(found[1]) if found else 0

    before = count()
    with connected(service) as connection:
        connection.sendall(b"HELLO\r\n\r\n")
        refused(until_closed(connection), 400, "bad_request")
    assert count() == before + 1


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_400(service, nonsense):
    with connected(service) as connection:
        connection.sendall(nonsense)
        refused(until_closed(connection), 400, "bad_request")


def test_a_client_that_does_not_read_its_answers_is_cut_off(service):
    with connected(service) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.sendall(b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000)  # some 30 MB of answers
        until, gone = time.monotonic() + PATIENCE, False
        while not gone and time.monotonic() < until:
            time.sleep(0.2)
            gone = "\nfedrule_requests_in_flight 1.0\n" in httpx.get(f"{service.url}/metrics").text
        assert gone


def test_more_connections_than_agreed_are_503(service):
    with contextlib.ExitStack() as opened:
        *_, last = [opened.enter_context(connected(service)) for _ in range(41)]
        refused(until_closed(last), 503, "too_busy")
