# SPDX-License-Identifier: Apache-2.0
"""The page: its files, its questions, and that only mistakes of ours are said on the terminal."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from zombiescope.errors import ObservationError
from zombiescope.web.http import Request, Response
from zombiescope.web.site import PageServer, answer_static


class Pages:
    def answer(self, request: Request) -> Response | None:
        if request.path == "/bug":
            raise ValueError("a bug")
        return answer_static(request.path)

    def drop_late(self, now: float) -> None:
        pass

    def close(self) -> None:
        pass


def opened(where: tuple[str, int] = ("127.0.0.1", 0)) -> PageServer:
    return PageServer(where, lambda _: Pages())


@pytest.fixture
def server() -> Iterator[PageServer]:
    each = opened()
    ending = threading.Event()

    def serve() -> None:
        while not ending.is_set():
            each.turn()
        each.close()

    serving = threading.Thread(target=serve)
    serving.start()
    yield each
    ending.set()
    serving.join(30)
    assert not serving.is_alive()


def test_files_and_what_is_none() -> None:
    page = answer_static("/")
    assert page is not None
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert page.etag
    for path in ("/static/../server.py", "/static/", "/static/vendor", "/static//etc/passwd", "/static/..", "/other"):
        assert answer_static(path) is None, path


def test_a_mistake_of_ours_is_said_and_a_client_that_left_is_not(
    server: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    port = int(server.address.rstrip("/").rpartition(":")[2])
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(sent)
    with urllib.request.urlopen(server.address, timeout=30) as answer:
        assert answer.read().startswith(b"<!doctype html>")
    assert capsys.readouterr().err == ""
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(server.address + "bug", timeout=30)
    said, end = "", time.monotonic() + 60
    while "ValueError: a bug" not in said and time.monotonic() < end:  # it is said after it was answered
        said += capsys.readouterr().err
        time.sleep(0.01)
    assert "ValueError: a bug" in said


def test_a_port_that_is_taken_is_said(server: PageServer) -> None:
    port = int(server.address.rstrip("/").rpartition(":")[2])
    with pytest.raises(ObservationError, match="address already in use"):
        opened(("127.0.0.1", port))
