# SPDX-License-Identifier: Apache-2.0
"""The one HTTP server, of the agent and of the page: inside somebody's selector loop, in one thread, bounded in everything.

Whatever a client sends costs its own connection and nothing else. Who is idle or slow makes room for who asks: when all places
are taken, the oldest connection without a whole request goes. What takes memory or time is worked out by one child at a time;
a few wait in line for it.
"""

from __future__ import annotations

import errno
import json
import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from zombiescope.host.children import Tended
from zombiescope.web.guards import Guards
from zombiescope.web.http import PACK_FROM, Exchange, RefusedError, Request, Response, load_h11, packed, plain

MOST_CONNECTIONS = 128
MOST_PER_PEER = 64
_MOST_ACCEPTED = 64
"""In one turn of the loop, which has other work."""
ASK_SECONDS, ANSWER_SECONDS, LEAVE_SECONDS = 10.0, 20.0, 2.0
APART_SECONDS = 30.0
"""To work it out, also where everybody waits for a core."""
APART_MEMORY = 64 << 20
_MOST_IN_LINE = 32
_MOST_UNREAD = 1 << 20
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BUG = plain(500, "this page failed: it is a bug of zombiescope")
_BUSY = plain(503, "others are asking for the same: try again in a moment", ("Retry-After", "2"))
_TOO_MUCH = plain(503, "it took too much memory or time: ask for less", ("Retry-After", "60"))


class Apart(NamedTuple):
    """An answer that takes memory or time: worked out by a short-lived child."""

    work: Callable[[], bytes]
    """In the child."""
    finish: Callable[[bytes], Response]
    """Here, with what the child said."""
    memory: int = APART_MEMORY
    """Bytes of address space beyond ours."""


def apart(request: Request, work: Callable[[], Response], memory: int = APART_MEMORY) -> Apart:
    """The child makes the whole answer, and packs it for those who take it packed."""

    def answered() -> bytes:
        response = work()
        if request.takes_gzip and not response.is_packed and len(response.body) >= PACK_FROM:
            response = response._replace(body=packed(response.body, 1), is_packed=True)
        return _flat(response)

    return Apart(answered, _unflat, memory)


def _flat(response: Response) -> bytes:
    head = [response.status, response.content_type, response.headers, response.etag, response.is_packed]
    return json.dumps(head).encode() + b"\n" + response.body


def _unflat(said: bytes) -> Response:
    head, _, body = said.partition(b"\n")
    status, content_type, headers, etag, is_packed = json.loads(head)
    return Response(status, content_type, body, tuple(map(tuple, headers)), etag, is_packed)


Answering = Callable[[Request], Response | Apart]


class _Phase(IntEnum):
    """Who goes first when room is needed."""

    LEAVING = 0
    ASKING = 1
    ANSWERED = 2
    WAITING = 3


class _Connection:
    def __init__(self, client: socket.socket, peer: str, now: float) -> None:
        self.client, self.peer = client, peer
        self.since, self.deadline = now, now + ASK_SECONDS
        self.phase = _Phase.ASKING
        self.exchange = Exchange()
        self.to_send = memoryview(b"")
        self.unread = 0
        self.is_browser = False
        """It never closes one half alone: when it does, it has left."""


class Server:
    def __init__(
        self, listening: socket.socket, selector: selectors.BaseSelector, answer: Answering, guards: Guards
    ) -> None:
        load_h11()
        self._listening, self._selector, self._answer = listening, selector, answer
        self.guards = guards
        self._connections: list[_Connection] = []
        """The oldest first."""
        self._apart: Tended | None = None
        self._line: deque[tuple[_Connection, Apart]] = deque()
        """Who waits for a child; the first first."""
        self.failed, self.last_failure = 0, ""
        selector.register(listening, selectors.EVENT_READ, self._accept)

    @property
    def port(self) -> int:
        """0 for a socket in the file system."""
        name = self._listening.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    def close(self) -> None:
        self._line.clear()
        if self._apart:
            self._apart.cut_off(0.0)
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.unregister(self._listening)
        self._listening.close()

    def drop_late(self, now: float) -> None:
        if self._apart:
            self._apart.drop_late(now)
        for connection in [each for each in self._connections if each.deadline < now]:
            self._drop(connection)

    def _accept(self, now: float) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                client, address = self._listening.accept()
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR and self._connections:
                    self._drop(min(self._connections, key=_worth))
                return
            try:
                self._welcome(client, _peer(client, address), now)
            except Exception as error:  # noqa: BLE001 (as below)
                self._count(error)
                client.close()

    def _welcome(self, client: socket.socket, peer: str, now: float) -> None:
        client.setblocking(False)
        self._make_room(peer)
        connection = _Connection(client, peer, now)
        self._selector.register(client, selectors.EVENT_READ, partial(self._serve, connection))
        self._connections.append(connection)
        self._serve(connection, now)  # who asks at once is answered before anybody else needs the place

    def _make_room(self, peer: str) -> None:
        same = [each for each in self._connections if each.peer == peer]
        if len(same) >= MOST_PER_PEER:
            self._drop(min(same, key=_worth))
        elif len(self._connections) >= MOST_CONNECTIONS:
            self._drop(min(self._connections, key=_worth))

    def _serve(self, connection: _Connection, now: float) -> None:
        if connection not in self._connections:
            return  # made room for another in this very turn
        try:
            if connection.phase is _Phase.ASKING:
                self._receive(connection, now)
            elif connection.phase is _Phase.ANSWERED:
                self._send(connection, now)
            elif connection.phase is _Phase.LEAVING:
                self._let_go(connection)
        except BlockingIOError:
            return
        except (OSError, EOFError):
            self._drop(connection)
        except Exception as error:  # noqa: BLE001 (whatever a request makes happen costs that connection only)
            self._count(error)
            self._drop(connection)

    def _receive(self, connection: _Connection, now: float) -> None:
        received = connection.client.recv(4096)
        try:
            request = connection.exchange.take(received)
            if request is None:
                return
            connection.is_browser = "sec-fetch-mode" in request.headers
            answer = self._answered(request)
        except RefusedError as refused:
            answer = refused.response
        if isinstance(answer, Apart):
            connection.phase, connection.deadline = _Phase.WAITING, float("inf")
            self._selector.unregister(connection.client)
            self._line.append((connection, answer))
            self._next_in_line(now)
        else:
            self._reply(connection, answer, now)

    def _answered(self, request: Request) -> Response | Apart:
        refusal = self.guards.refusal(request)
        if refusal:
            return refusal
        try:
            answer = self._answer(request)
        except Exception as error:  # noqa: BLE001 (a page that fails must not end the agent)
            self._count(error)
            return _BUG
        return _BUSY if isinstance(answer, Apart) and len(self._line) >= _MOST_IN_LINE else answer

    def _reply(self, connection: _Connection, response: Response, now: float) -> None:
        try:
            encoded = connection.exchange.encode(response)
        except Exception as error:  # noqa: BLE001 (as above)
            self._count(error)
            self._drop(connection)
            return
        self._put(connection, encoded, now)

    def _put(self, connection: _Connection, encoded: bytes, now: float) -> None:
        was_waiting = connection.phase is _Phase.WAITING
        connection.to_send, connection.phase = memoryview(encoded), _Phase.ANSWERED
        connection.deadline = now + ANSWER_SECONDS
        change = self._selector.register if was_waiting else self._selector.modify
        change(connection.client, selectors.EVENT_WRITE, partial(self._serve, connection))
        self._serve(connection, now)

    def _send(self, connection: _Connection, now: float) -> None:
        connection.to_send = connection.to_send[connection.client.send(connection.to_send) :]
        if connection.to_send:
            return
        if connection.exchange.is_all_read:
            self._drop(connection)
            return
        # What is left unread would make the kernel reset the connection, and the answer might be lost with it.
        connection.phase, connection.deadline = _Phase.LEAVING, now + LEAVE_SECONDS
        self._selector.modify(connection.client, selectors.EVENT_READ, partial(self._serve, connection))
        connection.client.shutdown(socket.SHUT_WR)

    def _let_go(self, connection: _Connection) -> None:
        received = connection.client.recv(1 << 16)
        connection.unread += len(received)
        if not received or connection.unread > _MOST_UNREAD:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.client)
        with suppress(OSError):
            connection.client.shutdown(socket.SHUT_RDWR)  # a child may still hold it too
        connection.client.close()

    def _next_in_line(self, now: float) -> None:
        """Who has left meanwhile is not worked for."""
        while self._line and self._apart is None:
            connection, answer = self._line.popleft()
            if connection not in self._connections:
                continue
            if connection.is_browser and _has_left(connection.client):
                self._drop(connection)
                continue
            self._begin_apart(connection, answer, now)

    def _begin_apart(self, connection: _Connection, answer: Apart, now: float) -> None:
        def work() -> bytes:
            try:
                return answer.work()
            except MemoryError:
                return b""

        try:
            self._apart = Tended(
                self._selector,
                work,
                now + APART_SECONDS,
                partial(self._end_apart, connection, answer),
                memory=answer.memory,
            )
        except OSError:
            self._reply(connection, _BUSY, now)

    def _end_apart(
        self, connection: _Connection, answer: Apart, said: bytearray | None, now: float, is_late: bool
    ) -> None:
        self._apart = None
        if said is None and not is_late:
            self._count(ChildProcessError("the process that answered ended without a word"))
        if connection in self._connections:
            self._reply(connection, self._finished(answer, bytes(said or b"")), now)
        self._next_in_line(now)

    def _finished(self, answer: Apart, said: bytes) -> Response:
        if not said:
            return _TOO_MUCH
        try:
            return answer.finish(said)
        except Exception as error:  # noqa: BLE001 (as above)
            self._count(error)
            return _BUG

    def _count(self, error: Exception) -> None:
        self.failed += 1
        self.last_failure = f"{type(error).__name__}: {error}"[:200]


def _worth(connection: _Connection) -> tuple[int, float]:
    return connection.phase, connection.since


def _has_left(client: socket.socket) -> bool:
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _peer(client: socket.socket, address: object) -> str:
    """The address, or the user behind a socket in the file system."""
    if isinstance(address, tuple):
        return str(address[0])
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return f"user {struct.unpack('3i', credentials)[1]}"
