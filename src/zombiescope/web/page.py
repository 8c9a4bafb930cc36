# SPDX-License-Identifier: Apache-2.0
"""A page by the one server in a loop of its own: on an address, or on a path that only its owner can open."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections.abc import Callable
from typing import Protocol

from zombiescope.errors import ObservationError
from zombiescope.web.guards import guards_for, open_listening, remove_path
from zombiescope.web.http import Request, Response, load_h11
from zombiescope.web.server import Apart, Server
from zombiescope.web.site import error_response

Where = tuple[str, int] | str
"""An address and a port, of which 0 takes any; or a path."""


class PageLooks(Protocol):
    def answer(self, request: Request) -> Response | Apart | None: ...
    def drop_late(self, now: float) -> None: ...
    def close(self) -> None: ...


class PageServer:
    """`serve` until `stop`, which another thread or a signal may call, or until an exception."""

    def __init__(
        self, where: Where, open_site: Callable[[selectors.BaseSelector], PageLooks], *, token: str = ""
    ) -> None:
        """`open_site` is given the loop that its children's answers come through. `token`: who does not show it gets no answer."""
        load_h11("cannot serve a page", "agent")
        try:
            listening = open_listening(where)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            told = where if isinstance(where, str) else f"port {where[1]}"
            raise ObservationError(f"cannot serve on {told}", why, "choose another with --listen") from error
        self._where = where
        self._selector = selectors.DefaultSelector()
        self._site = open_site(self._selector)
        address = "" if isinstance(where, str) else where[0]
        self._server = Server(listening, self._selector, self._answer, guards_for(address, (), token))
        self._woken, self._waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._woken, selectors.EVENT_READ, self._end)
        self._is_ending = False
        self._told = 0

    @property
    def address(self) -> str:
        if isinstance(self._where, str):
            return f"unix:{self._where}"
        name = f"[{self._where[0]}]" if ":" in self._where[0] else self._where[0]
        return f"http://{name}:{self._server.port}/"

    def serve(self) -> None:
        try:
            while not self._is_ending:
                for key, _ in self._selector.select(1.0):
                    key.data(time.monotonic())
                now = time.monotonic()
                self._server.drop_late(now)
                self._site.drop_late(now)
                self._tell_failures()
        finally:
            self._site.close()
            self._server.close()
            if isinstance(self._where, str):
                remove_path(self._where)
            self._selector.close()
            os.close(self._woken)

    def _answer(self, request: Request) -> Response | Apart:
        return self._site.answer(request) or error_response(404, "there is no such page", "", "/")

    def _tell_failures(self) -> None:
        """A page that was closed while it was answered is nobody's mistake; this is one of ours."""
        if self._server.failed > self._told:
            self._told = self._server.failed
            sys.stderr.write(f"zombiescope: an answer failed, which is a bug: {self._server.last_failure}\n")

    def stop(self) -> None:
        os.close(self._waking)

    def _end(self, _: float) -> None:
        self._is_ending = True
