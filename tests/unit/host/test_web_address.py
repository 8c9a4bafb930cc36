# SPDX-License-Identifier: Apache-2.0
"""An address that a person gave may belong to anybody: its answer is bounded in bytes and in time, and leads nowhere else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from zombiescope.errors import ObservationError, UsageError
from zombiescope.host import web_server
from zombiescope.host.web_server import fetch_json


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/api"
        thread.join(10)


def told(text: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(text)


@pytest.mark.parametrize(
    ("after", "asked"),
    [("", b"GET /api HTTP"), ("/jobs/", b"GET /api/jobs/ HTTP"), ("?a=b%20c", b"GET /api?a=b%20c HTTP")],
)
def test_the_path_and_the_question_are_asked_as_they_are(after: str, asked: bytes) -> None:
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n[]")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert fetch_json(f"http://127.0.0.1:{server.getsockname()[1]}/api{after}") == []
        thread.join(10)
    assert heard[0].startswith(asked)


def test_json_is_read() -> None:
    with answering(told(b"HTTP/1.0 200 OK\r\n\r\n" + b'{"jobs": [1]}')) as address:
        assert fetch_json(address) == {"jobs": [1]}


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "_MOST_SECONDS", 0.2)
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        while not ended.wait(0.01):  # always before the limit of one piece
            connection.sendall(b" ")

    with answering(drip) as address:
        with pytest.raises(ObservationError, match="did not answer within"):
            fetch_json(address)
        ended.set()


def test_an_answer_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "_MOST_BYTES", 1000)
    with (
        answering(told(b"HTTP/1.0 200 OK\r\n\r\n" + b" " * 5000)) as address,
        pytest.raises(ObservationError, match="larger"),
    ):
        fetch_json(address)


def test_a_redirect_is_not_followed() -> None:
    with (
        answering(told(b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n")) as address,
        pytest.raises(ObservationError, match="302"),
    ):
        fetch_json(address)


@pytest.mark.parametrize("address", ["file:///etc/shadow", "ftp://127.0.0.1/x", "127.0.0.1:80"])
def test_only_http_is_asked(address: str) -> None:
    with pytest.raises(UsageError):
        fetch_json(address)
