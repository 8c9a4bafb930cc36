# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server inside the agent's one loop: GET and HEAD, one answer a connection, bounded in everything.

No thread and no blocking call, so that a slow reader costs nobody anything and a fork is safe at any time.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn
from urllib.parse import parse_qsl, urlsplit

_MOST_CONNECTIONS = 32
_MOST_REQUEST = 8192
_MOST_SECONDS = 10.0
_MOST_APART = 2
_WORDS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Request(NamedTuple):
    path: str
    query: dict[str, str]
    accept: str


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes


class Apart(NamedTuple):
    """An answer that takes memory or time: worked out and sent by a short-lived child."""

    work: Callable[[], Response]


Answering = Callable[[Request], Response | Apart]


class _Connection:
    def __init__(self, peer: socket.socket, deadline: float) -> None:
        self.peer = peer
        self.deadline = deadline
        self.received = b""
        self.to_send = b""


class Server:
    def __init__(self, address: tuple[str, int], selector: selectors.BaseSelector, answer: Answering) -> None:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listening.bind(address)
            self._listening.listen(64)
        except OSError:
            self._listening.close()
            raise
        self._selector, self._answer = selector, answer
        self._connections: dict[int, _Connection] = {}
        self.failures: deque[str] = deque(maxlen=10)
        self._apart: dict[int, float] = {}
        """Children that answer, and until when."""
        selector.register(self._listening, selectors.EVENT_READ, self._accept)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def close(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._look_after_children(float("inf"))
        self._selector.unregister(self._listening)
        self._listening.close()

    def drop_late(self, now: float) -> None:
        for connection in [each for each in self._connections.values() if each.deadline < now]:
            self._drop(connection)
        self._look_after_children(now)

    def _accept(self, now: float) -> None:
        with suppress(OSError):
            peer, _ = self._listening.accept()
            if len(self._connections) >= _MOST_CONNECTIONS:
                peer.close()
                return
            peer.setblocking(False)
            connection = _Connection(peer, now + _MOST_SECONDS)
            self._connections[peer.fileno()] = connection
            self._selector.register(peer, selectors.EVENT_READ, lambda _: self._serve(connection))

    def _serve(self, connection: _Connection) -> None:
        try:
            if connection.to_send:
                self._send(connection)
            else:
                self._receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)

    def _receive(self, connection: _Connection) -> None:
        part = connection.peer.recv(4096)
        connection.received += part
        if not part or len(connection.received) > _MOST_REQUEST:
            self._drop(connection)
        elif b"\r\n\r\n" in connection.received:
            request, method = parse_request(connection.received)
            answer = self._answered(request, method)
            if isinstance(answer, Apart):
                self._send_apart(connection, answer, method)
                return
            connection.to_send = encoded(answer, method)
            self._selector.modify(connection.peer, selectors.EVENT_WRITE, lambda _: self._serve(connection))
            self._send(connection)

    def _send(self, connection: _Connection) -> None:
        sent = connection.peer.send(connection.to_send)
        connection.to_send = connection.to_send[sent:]
        if not connection.to_send:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._connections.pop(connection.peer.fileno(), None)
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.peer)
        connection.peer.close()

    def _send_apart(self, connection: _Connection, answer: Apart, method: str) -> None:
        deadline = connection.deadline
        child = os.fork()
        if child == 0:
            send_and_end(connection.peer, answer, method)
        self._apart[child] = deadline
        self._drop(connection)

    def _look_after_children(self, now: float) -> None:
        for child, deadline in list(self._apart.items()):
            if deadline < now:
                os.kill(child, signal.SIGKILL)
            if os.waitpid(child, 0 if deadline < now else os.WNOHANG)[0]:
                del self._apart[child]

    def _answered(self, request: Request | None, method: str) -> Response | Apart:
        if request is None:
            return plain(400, "not an HTTP request")
        if method not in ("GET", "HEAD"):
            return plain(405, "this only reads: GET and HEAD")
        try:
            answer = self._answer(request)
        except Exception as error:  # noqa: BLE001 (a page that fails must not end the agent)
            self.failures.append(f"{request.path}: {type(error).__name__}: {error}")
            return plain(500, "this page failed: it is a bug of zombiescope")
        if isinstance(answer, Apart):
            self._look_after_children(0.0)
        if isinstance(answer, Apart) and len(self._apart) >= _MOST_APART:
            return plain(503, "others are asking for the same: try again in a moment")
        return answer


def send_and_end(peer: socket.socket, answer: Apart, method: str) -> NoReturn:
    """In the child: work it out, send it, and end without anything that the parent would do at its end."""
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        try:
            response = answer.work()
        except Exception as error:  # noqa: BLE001 (said to whoever asked)
            response = plain(500, f"this page failed: {type(error).__name__}: {error}")
        peer.settimeout(_MOST_SECONDS)
        peer.sendall(encoded(response, method))
        peer.shutdown(socket.SHUT_RDWR)
    finally:
        os._exit(0)


def encoded(response: Response, method: str) -> bytes:
    head = (
        f"HTTP/1.1 {response.status} {_WORDS[response.status]}\r\nContent-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if method == "HEAD" else response.body)


def parse_request(received: bytes) -> tuple[Request | None, str]:
    head = received.partition(b"\r\n\r\n")[0].decode("latin-1")
    first, *lines = head.split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1].startswith("/"):
        return None, parts[0]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        address = urlsplit(parts[1])
        query = dict(parse_qsl(address.query, max_num_fields=20))
    except ValueError:
        return None, parts[0]
    return Request(address.path, query, headers.get("accept", "")), parts[0]


def plain(status: int, text: str) -> Response:
    return Response(status, "text/plain; charset=utf-8", text.encode() + b"\n")
