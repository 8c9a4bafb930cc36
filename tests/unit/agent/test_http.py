# SPDX-License-Identifier: Apache-2.0
"""The agent's small server: what it answers, and that nothing a client sends breaks or holds it."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.agent.http import Apart, Request, Response, Server, parse_request, plain


def failing() -> Response:
    raise KeyError("bug")


def slow() -> Response:
    time.sleep(60)
    return plain(200, "late")


class Running:
    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.server = Server(("127.0.0.1", 0), self.selector, self.answer)
        self.seen: list[Request] = []

    def answer(self, request: Request) -> Response | Apart:
        self.seen.append(request)
        if request.path == "/apart":
            return Apart(lambda: plain(200, "from a child" + "#" * 300_000))
        if request.path == "/apart-bug":
            return Apart(failing)
        if request.path == "/apart-slow":
            return Apart(slow)
        if request.path == "/bug":
            raise KeyError("bug")
        return plain(200, "x" * 300_000 if request.path == "/large" else "hello")

    def turn(self, seconds: float = 0.5) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for key, _ in self.selector.select(0.02):
                key.data(time.monotonic())

    def until(self, is_so: Callable[[], bool], seconds: float = 30.0) -> bool:
        """On a busy machine everything takes its time."""
        end = time.monotonic() + seconds
        while not is_so() and time.monotonic() < end:
            self.turn(0.02)
            self.server.drop_late(0.0)
        return is_so()

    def ask(self, text: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(text)
            client.settimeout(0.05)
            received = b""
            for _ in range(100):
                self.turn(0.02)
                try:
                    part = client.recv(1 << 20)
                except TimeoutError:
                    continue
                except ConnectionResetError:
                    break
                if not part:
                    break
                received += part
            return received


@pytest.fixture
def running() -> Iterator[Running]:
    each = Running()
    yield each
    each.server.close()


def test_get_head_and_the_rest(running: Running) -> None:
    answer = running.ask(b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nhello\n")
    assert running.seen == [Request("/a", {"b": "1"}, "text/plain")]
    assert running.ask(b"HEAD / HTTP/1.1\r\n\r\n").endswith(b"close\r\n\r\n")
    assert b" 405 " in running.ask(b"POST / HTTP/1.1\r\n\r\n")
    assert b" 400 " in running.ask(b"nonsense\r\n\r\n")
    assert len(running.ask(b"GET /large HTTP/1.1\r\n\r\n")) > 300_000


def test_a_page_that_fails_ends_nobody(running: Running) -> None:
    assert b" 500 " in running.ask(b"GET /bug HTTP/1.1\r\n\r\n")
    assert list(running.server.failures) == ["/bug: KeyError: 'bug'"]
    assert b"hello" in running.ask(b"GET / HTTP/1.1\r\n\r\n")


def test_an_answer_of_a_child_arrives_whole_and_leaves_nothing(running: Running) -> None:
    answer = running.ask(b"GET /apart HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"#") == 300_000
    assert b" 500 " in running.ask(b"GET /apart-bug HTTP/1.1\r\n\r\n")
    assert running.until(lambda: not running.server._apart), "they have ended"
    with (
        socket.create_connection(("127.0.0.1", running.server.port)) as one,
        socket.create_connection(("127.0.0.1", running.server.port)) as two,
    ):
        for each in (one, two):
            each.sendall(b"GET /apart-slow HTTP/1.1\r\n\r\n")
        assert running.until(lambda: len(running.server._apart) == 2)
        assert b" 503 " in running.ask(b"GET /apart HTTP/1.1\r\n\r\n")
        running.server.drop_late(time.monotonic() + 60)
    assert not running.server._apart, "a child that takes too long is ended"


def test_a_request_without_end_and_a_silent_client_are_dropped(running: Running) -> None:
    assert running.ask(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000) == b""
    with socket.create_connection(("127.0.0.1", running.server.port)):
        assert running.until(lambda: len(running.server._connections) == 1)
        running.server.drop_late(time.monotonic() + 60)
        assert not running.server._connections


def test_more_clients_than_allowed_are_turned_away(running: Running) -> None:
    clients = [socket.create_connection(("127.0.0.1", running.server.port)) for _ in range(40)]
    assert running.until(lambda: len(running.server._connections) == 32)
    assert not running.until(lambda: len(running.server._connections) > 32, 0.3)
    for client in clients:
        client.close()
    assert running.until(lambda: not running.server._connections)
    assert b"hello" in running.ask(b"GET / HTTP/1.0\r\n\r\n")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_request_or_none(received: bytes) -> None:
    parse_request(received)
    parse_request(b"GET /" + received + b" HTTP/1.1\r\n\r\n")
