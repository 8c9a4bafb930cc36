# SPDX-License-Identifier: Apache-2.0
"""A page on this machine's own address: static files and JSON, read-only, with headers that let nothing else in.

A request whose Host is not this address is refused: a page from elsewhere could otherwise read us through a name it owns.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from zombiescope.errors import ObservationError, ZombiescopeError

Answering = Callable[[str, dict[str, str]], dict[str, Any] | None]
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_PACK_FROM = 20_000
_LONGEST_TARGET = 4096


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "zombiescope", ""
    protocol_version = "HTTP/1.1"
    timeout = 30
    answering: ClassVar[Answering]
    statics: ClassVar[dict[str, tuple[str, bytes]]]
    hosts: ClassVar[frozenset[str]]

    def do_GET(self) -> None:
        if self.headers.get("Host", "") not in self.hosts:
            self._send(421, "text/plain", b"this server answers only to its own address\n")
            return
        if len(self.path) > _LONGEST_TARGET:
            self._send(414, "text/plain", b"the address is too long\n")
            return
        target = urlsplit(self.path)
        name = "index.html" if target.path == "/" else target.path.removeprefix("/static/")
        if name in self.statics:
            self._send(200, *self.statics[name])
            return
        self._answer(target.path, dict(parse_qsl(target.query)))

    def _answer(self, path: str, query: dict[str, str]) -> None:
        try:
            document = type(self).answering(path, query)
            status = 200 if document is not None else 404
        except ZombiescopeError as error:
            document, status = {"error": error.what, "why": error.why, "hint": error.hint}, 400
        body = json.dumps(document or {"error": "there is no such page"}, separators=(",", ":")).encode()
        self._send(status, "application/json", body)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        packed = len(body) >= _PACK_FROM and "gzip" in self.headers.get("Accept-Encoding", "")
        body = gzip.compress(body, 1) if packed else body
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is http.server's)
        """Silence: the terminal belongs to the person."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed while it was answered is nobody's mistake."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def open_server(port: int, answering: Answering) -> ThreadingHTTPServer:
    """Bound to loopback; port 0 takes any. The caller serves and closes it."""
    try:
        server = _Server(("127.0.0.1", port), _Handler)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(f"cannot serve on port {port}", why, "choose another with --port") from error
    bound = server.server_address[1]

    class Handler(_Handler):
        pass

    Handler.answering = staticmethod(answering)
    Handler.statics = _statics()
    Handler.hosts = frozenset({f"127.0.0.1:{bound}", f"localhost:{bound}"})
    server.RequestHandlerClass = Handler
    server.daemon_threads = True
    return server


def _statics() -> dict[str, tuple[str, bytes]]:
    found = {}
    for entry in files("zombiescope.web").joinpath("static").iterdir():
        kind = _KINDS.get(entry.name.rpartition(".")[2])
        if kind:
            found[entry.name] = (kind, entry.read_bytes())
    return found
