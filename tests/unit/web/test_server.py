# SPDX-License-Identifier: Apache-2.0
"""The one server: what it answers, and that nothing a client sends or leaves out breaks or holds it."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from zombiescope.web.guards import guards_for, open_listening, remove_path
from zombiescope.web.http import Request, Response, packed, plain
from zombiescope.web.server import MOST_PER_PEER, Apart, Server, apart

END = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"


def failing() -> Response:
    raise KeyError("bug")


def slow() -> Response:
    time.sleep(60)
    return plain(200, "late")


def hungry() -> Response:
    return plain(200, str(len(b"x" * (1 << 30))))


class Running:
    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        listening = open_listening(("127.0.0.1", 0))
        self.server = Server(listening, self.selector, self.answer, guards_for("127.0.0.1"))
        self.seen: list[Request] = []

    def answer(self, request: Request) -> Response | Apart:
        self.seen.append(request)
        if request.path == "/bug":
            raise KeyError("bug")
        if request.path == "/bad-header":
            return Response(200, "text/plain\r\nEvil: \xff", b"")
        if request.path.startswith("/kept"):
            body = packed(b"x" * (3_000_000 if request.path == "/kept-long" else 1000))
            return Response(200, "text/plain", body, etag="v1", is_packed=True)
        work = {"/apart-bug": failing, "/apart-slow": slow, "/apart-hungry": hungry}.get(request.path)
        if request.path == "/apart":
            return apart(request, lambda: plain(200, "from a child" + "#" * 300_000))
        return apart(request, work) if work else plain(200, "x" * 300_000 if request.path == "/large" else "hello")

    def turn(self, seconds: float = 0.02) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for key, _ in self.selector.select(0.01):
                key.data(time.monotonic())

    def until(self, is_so: Callable[[], bool], seconds: float = 30.0) -> bool:
        """On a busy machine everything takes its time."""
        end = time.monotonic() + seconds
        while not is_so() and time.monotonic() < end:
            self.turn()
        return is_so()

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.server.port))
        client.settimeout(0.01)
        return client

    def read(self, client: socket.socket) -> bytes:
        received, end = b"", time.monotonic() + 30
        while time.monotonic() < end:
            self.turn(0.01)
            try:
                part = client.recv(1 << 20)
            except TimeoutError:
                continue
            if not part:
                break
            received += part
        return received

    def ask(self, text: bytes) -> bytes:
        with self.connect() as client:
            client.sendall(text)
            return self.read(client)


@pytest.fixture
def running() -> Iterator[Running]:
    each = Running()
    yield each
    each.server.close()
    each.selector.close()


def test_get_head_and_the_rest(running: Running) -> None:
    answer = running.ask(b"GET /a?b=1" + END)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nhello\n")
    assert running.seen == [Request("/a", {"b": "1"}, {"host": "localhost"})]
    assert running.ask(b"HEAD /" + END).endswith(b"\r\n\r\n")
    assert b" 405 " in running.ask(b"POST /" + END)
    assert b" 400 " in running.ask(b"nonsense\r\n\r\n")
    assert b" 421 " in running.ask(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert len(running.ask(b"GET /large" + END)) > 300_000
    assert running.ask(b"GET / HTTP/1.0\r\n\r\n").endswith(b"hello\n")


def test_a_page_that_fails_costs_its_connection_and_is_counted(running: Running) -> None:
    assert b" 500 " in running.ask(b"GET /bug" + END)
    assert (running.server.failed, running.server.last_failure) == (1, "KeyError: 'bug'")
    assert running.ask(b"GET /bad-header" + END) == b""
    assert running.server.failed == 2
    assert b"hello" in running.ask(b"GET /" + END)


def test_who_closed_one_half_is_answered_and_what_follows_a_question_is_not(running: Running) -> None:
    with running.connect() as client:
        client.sendall(b"GET /" + END)
        client.shutdown(socket.SHUT_WR)
        assert running.read(client).endswith(b"hello\n")
    assert running.ask(b"GET /" + END + b"GET /" + END + b"\xff" * 2000).count(b"HTTP/1.1 ") == 1


def test_a_refusal_arrives_although_the_request_goes_on(running: Running) -> None:
    assert b" 431 " in running.ask(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 30_000)
    assert running.until(lambda: not running.server._connections)


def test_an_answer_of_a_child_arrives_whole_and_leaves_nothing(running: Running) -> None:
    answer = running.ask(b"GET /apart" + END)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"#") == 300_000
    assert b" 503 " in running.ask(b"GET /apart-bug" + END)
    assert running.server.failed == 1
    assert b" 503 " in running.ask(b"GET /apart-hungry" + END), "a gigabyte is more than it may have"
    assert running.server._apart is None


def test_one_child_at_a_time_and_none_for_long(running: Running) -> None:
    with running.connect() as first, running.connect() as second, running.connect() as gone:
        first.sendall(b"GET /apart-slow" + END)
        assert running.until(lambda: running.server._apart is not None)
        child = running.server._apart
        gone.sendall(b"GET /apart-bug" + END.replace(b"\r\n\r\n", b"\r\nSec-Fetch-Mode: cors\r\n\r\n"))
        assert running.until(lambda: len(running.server._line) == 1)
        gone.close()
        second.sendall(b"GET /apart" + END)
        assert running.until(lambda: len(running.server._line) == 2)
        assert b"hello" in running.ask(b"GET /" + END), "who needs no child does not wait for one"
        assert running.server._apart is child
        running.server.drop_late(time.monotonic() + 60)
        assert b" 503 " in running.read(first)
        assert running.read(second).count(b"#") == 300_000, "who waited in line has its turn"
        assert running.server.failed == 0, "who left the line is not worked for"
        assert running.server._apart is None


def test_a_line_that_is_too_long_is_said(running: Running) -> None:
    with ExitStack() as open_ones:
        clients = [open_ones.enter_context(running.connect()) for _ in range(34)]
        for client in clients:
            client.sendall(b"GET /apart-slow" + END)
            running.turn()
        assert running.until(lambda: len(running.server._line) == 32)
        busy = running.read(clients[-1])
        assert b" 503 " in busy
        assert b"retry-after: " in busy.lower()


def test_who_has_it_already_is_told_so_and_what_is_packed_is_unpacked_for_few(running: Running) -> None:
    kept = running.ask(b"GET /kept" + END)
    assert b'\r\netag: "v1"\r\n' in kept.lower()
    assert b"no-store" not in kept
    assert kept.endswith(b"x" * 1000)
    asked = END.replace(b"\r\n\r\n", b'\r\nIf-None-Match: "v1"\r\n\r\n')
    known = running.ask(b"GET /kept" + asked)
    assert known.startswith(b"HTTP/1.1 304 ")
    assert known.endswith(b"\r\n\r\n")
    assert b" 200 " in running.ask(b"GET /kept" + asked.replace(b"v1", b"v0"))
    packing = END.replace(b"\r\n\r\n", b"\r\nAccept-Encoding: gzip\r\n\r\n")
    assert zlib.decompress(running.ask(b"GET /kept" + packing).partition(b"\r\n\r\n")[2], 31) == b"x" * 1000
    assert b" 406 " in running.ask(b"GET /kept-long" + END), "three megabytes are not unpacked here"


def test_a_child_whose_asker_left_ends(running: Running) -> None:
    with running.connect() as leaves:
        leaves.sendall(b"GET /apart-slow" + END)
        assert running.until(lambda: running.server._apart is not None)
        running.server._drop(running.server._connections[0])
        running.server.drop_late(time.monotonic() + 60)
        assert running.server._apart is None
    assert b"hello" in running.ask(b"GET /" + END)


def test_a_silent_client_is_dropped_in_time(running: Running) -> None:
    with running.connect():
        assert running.until(lambda: len(running.server._connections) == 1)
        running.server.drop_late(time.monotonic() + 60)
        assert not running.server._connections


def test_idle_clients_make_room_for_who_asks_the_oldest_first(running: Running) -> None:
    clients = [running.connect() for _ in range(MOST_PER_PEER + 20)]
    assert running.until(lambda: len(running.server._connections) == MOST_PER_PEER)
    assert b"hello" in running.ask(b"GET /" + END)
    clients[-1].sendall(b"GET /" + END)
    assert running.read(clients[-1]).endswith(b"hello\n")
    assert clients[0].recv(1) == b"", "the oldest went"
    for client in clients:
        client.close()
    assert running.until(lambda: not running.server._connections)


def test_a_socket_in_the_file_system_is_its_owners(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    first = open_listening(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(OSError, match="in use"):
        open_listening(path)
    first.close()
    second = open_listening(path)  # a dead one is taken away
    second.close()
    remove_path(path)
    assert not os.path.exists(path)
    (tmp_path / "s").write_text("a file")
    with pytest.raises(FileExistsError) as caught:
        open_listening(path)
    assert caught.value.errno == errno.EEXIST
    assert (tmp_path / "s").read_text() == "a file"
