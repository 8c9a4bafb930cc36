# SPDX-License-Identifier: Apache-2.0
"""One exchange of HTTP/1.1 without any I/O: bytes become a request or a refusal, a response becomes bytes. The parsing is h11's.

Nothing of a request ever becomes part of a response. GET and HEAD, no body, one exchange a connection.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from hashlib import sha256
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from zombiescope.errors import UsageError

MOST_HEAD = 8192
MOST_TARGET = 4096
_MOST_FIELDS = 20
PACK_FROM = 20_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Connection", "close"),
)
_WORDS = {
    200: "OK",
    202: "Accepted",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    413: "Content Too Large",
    414: "URI Too Long",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class Request(NamedTuple):
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """By name in lower case. Any bytes: to be compared with what we know, never to be repeated."""

    @property
    def takes_gzip(self) -> bool:
        return "gzip" in self.headers.get("accept-encoding", "")


class Response(NamedTuple):
    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    etag: str = ""
    """Of this very content: who has it already is told so. Without one nobody may keep the answer."""
    is_packed: bool = False
    """The body is gzip already."""


class RefusedError(Exception):
    """It is no request for us: the answer says why, and the connection ends."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def plain(status: int, text: str, *headers: tuple[str, str]) -> Response:
    return Response(status, "text/plain; charset=utf-8", text.encode() + b"\n", headers)


def load_h11(what: str = "cannot serve", extra: str = "agent") -> ModuleType:
    try:
        import h11  # noqa: PLC0415 (an extra, and only who serves pays for it)
    except ImportError as error:
        raise UsageError(what, "the package h11 is not installed", f"pip install 'zombiescope[{extra}]'") from error
    return h11


class Exchange:
    def __init__(self) -> None:
        self._h11: Any = load_h11()
        self._wire = self._h11.Connection(self._h11.SERVER, max_incomplete_event_size=MOST_HEAD)
        self._packs = False
        self._is_head = False
        self._known = ""

    def take(self, received: bytes) -> Request | None:
        """The request once it is whole; None before. Raises RefusedError, EOFError where the client left before."""
        try:
            self._wire.receive_data(received)
            event = self._wire.next_event()
        except self._h11.RemoteProtocolError as error:
            if not received:
                raise EOFError from error
            is_long = error.error_status_hint == 431
            raise RefusedError(plain(431, "the head is too long") if is_long else _BAD) from error
        if event is self._h11.NEED_DATA:
            return None
        if isinstance(event, self._h11.Request):
            return self._understood(event)
        raise EOFError

    @property
    def is_all_read(self) -> bool:
        """Nothing of the request is left unread here, as far as is known: the connection can end without a reset."""
        event = self._h11.EndOfMessage
        try:
            return isinstance(self._wire.next_event(), event) and self._wire.trailing_data[0] == b""
        except self._h11.RemoteProtocolError:
            return False

    def encode(self, response: Response) -> bytes:
        if response.etag and response.status == 200 and f'"{response.etag}"' in self._known:
            return self._sent(304, [*_HEADERS, *_kept(response)], b"")
        if response.is_packed and not self._packs:
            response = _unpacked(response)
        body = response.body
        headers = [*_HEADERS, *_kept(response), *response.headers, ("Content-Type", response.content_type)]
        if response.is_packed:
            headers.append(("Content-Encoding", "gzip"))
        elif self._packs and len(body) >= PACK_FROM:
            body = packed(body, 1)
            headers.append(("Content-Encoding", "gzip"))
        headers.append(("Content-Length", str(len(body))))
        return self._sent(response.status, headers, body)

    def _sent(self, status: int, headers: list[tuple[str, str]], body: bytes) -> bytes:
        parts = [self._wire.send(self._h11.Response(status_code=status, reason=_WORDS[status], headers=headers))]
        if not self._is_head:
            if body:
                parts.append(self._wire.send(self._h11.Data(data=body)))
            parts.append(self._wire.send(self._h11.EndOfMessage()))
        return b"".join(parts)

    def _understood(self, event: Any) -> Request:
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in event.headers}
        self._packs = "gzip" in headers.get("accept-encoding", "")
        self._is_head = event.method == b"HEAD"
        self._known = headers.get("if-none-match", "")
        if event.method not in (b"GET", b"HEAD"):
            raise RefusedError(plain(405, "this only reads: GET and HEAD", ("Allow", "GET, HEAD")))
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            raise RefusedError(plain(413, "a question has no body here"))
        if len(event.target) > MOST_TARGET:
            raise RefusedError(plain(414, "the address is too long"))
        path, _, query = event.target.decode("ascii").partition("?")
        if not path.startswith("/"):
            raise RefusedError(_BAD)
        try:
            return Request(path, dict(parse_qsl(query, max_num_fields=_MOST_FIELDS)), headers)
        except ValueError as error:
            raise RefusedError(_BAD) from error


_BAD = plain(400, "this is no request that is understood here")


_MOST_UNPACKED = 1 << 20


def packed(body: bytes, level: int = 6) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def etag_of(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _unpacked(response: Response) -> Response:
    """For the few that do not take gzip; what is long they do not get: it would take more memory than the agent has."""
    unpacker = zlib.decompressobj(31)
    body = unpacker.decompress(response.body, _MOST_UNPACKED)
    if unpacker.unconsumed_tail:
        return plain(406, "this is long and given packed only: ask with Accept-Encoding: gzip")
    return response._replace(body=body, is_packed=False)


def _kept(response: Response) -> list[tuple[str, str]]:
    if not response.etag:
        return [("Cache-Control", "no-store")]
    return [("Cache-Control", "private, no-cache"), ("ETag", f'"{response.etag}"'), ("Vary", "Accept-Encoding")]
