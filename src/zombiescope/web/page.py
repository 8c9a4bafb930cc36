# SPDX-License-Identifier: Apache-2.0
"""A page on this machine's own address: static files and questions answered as JSON, by the one server in a loop of its own."""

from __future__ import annotations

import json
import os
import selectors
import sys
import time
from collections.abc import Callable, Mapping
from importlib.resources.abc import Traversable
from typing import Any

from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.web.guards import guards_for
from zombiescope.web.http import Request, Response, load_h11
from zombiescope.web.listening import open_listening, remove_path
from zombiescope.web.server import Server

Questions = Callable[[str, Mapping[str, str]], dict[str, Any] | None]
"""The path and the query. None: there is no such question."""
_ADDRESS = "127.0.0.1"
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Page:
    def __init__(self, questions: Questions, static: Traversable) -> None:
        """`static`: the folder with its files."""
        self._questions = questions
        self._statics = _statics(static)

    def answer(self, request: Request) -> Response:
        name = "index.html" if request.path == "/" else request.path.removeprefix("/static/")
        if name in self._statics:
            return self._statics[name]
        try:
            document = self._questions(request.path, request.query)
        except ZombiescopeError as error:
            return _json(400, {"error": error.what, "why": error.why, "hint": error.hint})
        return _json(404, {"error": "there is no such page"}) if document is None else _json(200, document)


class PageServer:
    """Bound to loopback, or to a path that only its owner can open. `serve` until `stop`, which another thread or a signal may
    call, or until an exception."""

    def __init__(
        self, port: int, questions: Questions, static: Traversable, *, path: str = "", token: str = ""
    ) -> None:
        """Port 0 takes any. `token`: who does not show it gets no answer."""
        load_h11("cannot serve a page", "profile")
        try:
            listening = open_listening(path or (_ADDRESS, port))
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            what, hint = (
                (f"on {path}", "choose another path") if path else (f"on port {port}", "choose another with --port")
            )
            raise ObservationError(f"cannot serve {what}", why, hint) from error
        self._selector = selectors.DefaultSelector()
        self._server = Server(
            listening, self._selector, Page(questions, static).answer, guards_for("" if path else _ADDRESS, (), token)
        )
        self._path = path
        self._woken, self._waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._woken, selectors.EVENT_READ, self._end)
        self._is_ending = False
        self._told = 0

    @property
    def address(self) -> str:
        return f"unix:{self._path}" if self._path else f"http://{_ADDRESS}:{self._server.port}/"

    def serve(self) -> None:
        try:
            while not self._is_ending:
                for key, _ in self._selector.select(1.0):
                    key.data(time.monotonic())
                self._server.drop_late(time.monotonic())
                self._tell_failures()
        finally:
            self._server.close()
            if self._path:
                remove_path(self._path)
            self._selector.close()
            os.close(self._woken)

    def _tell_failures(self) -> None:
        """A page that was closed while it was answered is nobody's mistake; this is one of ours."""
        if self._server.failed > self._told:
            self._told = self._server.failed
            sys.stderr.write(f"zombiescope: an answer failed, which is a bug: {self._server.last_failure}\n")

    def stop(self) -> None:
        os.close(self._waking)

    def _end(self, _: float) -> None:
        self._is_ending = True


def _json(status: int, document: dict[str, Any]) -> Response:
    return Response(status, "application/json; charset=utf-8", json.dumps(document, separators=(",", ":")).encode())


def _statics(folder: Traversable) -> dict[str, Response]:
    found = {}
    for entry in folder.iterdir():
        kind = _KINDS.get(entry.name.rpartition(".")[2])
        if kind:
            found[entry.name] = Response(200, f"{kind}; charset=utf-8", entry.read_bytes())
    return found
