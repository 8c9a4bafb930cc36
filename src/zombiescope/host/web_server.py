# SPDX-License-Identifier: Apache-2.0
"""One HTTP server that a person named, and nobody else: no proxy is asked, no redirect followed (a token would go along), and an
answer is bounded in bytes and in time, however slowly it comes."""

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.names import quiet

_MOST_SHOWN = 200
LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PASSES = (429, 502, 503, 504)
"""Answers of a server that may take it later: those that OpenTelemetry's protocol lists."""
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 30.0


class Access(NamedTuple):
    """How to get in: all of it from files or flags, none of it ever printed."""

    token: str | None = None
    tenant: str | None = None
    ca_file: str | None = None


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    kind: str = ""
    """Its Content-Type."""
    leads_to: str = ""
    """Of a redirect."""
    retry_after: float | None = None

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300


class NoReplyError(Exception):
    """Why, in words; and whether it may be otherwise at the next try."""

    def __init__(self, why: str, *, may_pass: bool = True) -> None:
        super().__init__(why)
        self.may_pass = may_pass


class WebServer:
    def __init__(self, url: str, access: Access, timeout_seconds: float, *, example: str) -> None:
        """`example`: a flag with an address that could be used."""
        what = f"cannot use the address {url!r}"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            self._port = parts.port
        except ValueError as error:
            raise UsageError(what, str(error).lower(), example) from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise UsageError(
                what, "it is not http://HOST[:PORT][/PATH]; a password does not belong in an address", example
            )
        self._host, self._is_secure = parts.hostname, parts.scheme == "https"
        self.path = parts.path.rstrip("/")
        self._access, self._timeout = access, timeout_seconds
        where = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.name = f"{parts.scheme}://{where}{f':{self._port}' if self._port else ''}{self.path}"

    @property
    def is_private(self) -> bool:
        """Whether nobody on the way can read along."""
        return self._is_secure or self._host in LOOPBACK

    def post(self, path: str, body: bytes | str, headers: Mapping[str, str], most_bytes: int) -> Reply:
        """`path`: below that of the address. Raises NoReplyError."""
        return self._exchange("POST", path, body, headers, most_bytes)

    def get(self, path: str, most_bytes: int) -> Reply:
        return self._exchange("GET", path, None, {}, most_bytes)

    def _exchange(
        self, method: str, path: str, body: bytes | str | None, headers: Mapping[str, str], most_bytes: int
    ) -> Reply:
        connection = self._connection()
        try:
            with deadline(connection, self._timeout):
                connection.request(method, self.path + path, body, {**self._own_headers(), **headers})
                answer = connection.getresponse()
                content = b"" if 300 <= answer.status < 400 else _body(answer, most_bytes)
            return Reply(
                answer.status,
                content,
                answer.getheader("Content-Type", ""),
                quiet(answer.getheader("Location", "nowhere")[:_MOST_SHOWN]) if 300 <= answer.status < 400 else "",
                seconds_of(answer.getheader("Retry-After")),
            )
        except TimeoutError as error:
            raise NoReplyError(f"it did not answer within {self._timeout:.0f} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise NoReplyError(why_failed(error), may_pass=not getattr(error, "verify_message", None)) from error
        except ValueError as error:  # it would quote what must not be shown
            raise NoReplyError(
                "the request cannot be written: a token or a tenant is not plain text", may_pass=False
            ) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if not self._is_secure:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            import ssl  # noqa: PLC0415 (only for https, and not in every build)

            context = ssl.create_default_context(cafile=self._access.ca_file)
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"cannot ask {self.name}", "this build has no TLS", "use an installed zombiescope"
            ) from error
        except OSError as error:
            raise UsageError(f"cannot read {self._access.ca_file}", reason_of(error), "--ca-file FILE") from error
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)

    def _own_headers(self) -> dict[str, str]:
        token, tenant, _ = self._access
        headers = {"Authorization": token and f"Bearer {token}", "X-Scope-OrgID": tenant}
        return {"User-Agent": "zombiescope", **{name: said for name, said in headers.items() if said is not None}}


@contextmanager
def deadline(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Connects. The socket's own limit is that of each piece: an answer that comes byte by byte ends here, with TimeoutError."""
    over = threading.Event()
    connection.connect()
    held = connection.sock  # the connection lets go of it where an answer has no length
    assert held is not None

    def end() -> None:
        over.set()
        with suppress(OSError):
            socket.socket.shutdown(held, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        if over.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
    if over.is_set():  # an answer without a length ends where it was cut off
        raise TimeoutError


def _body(answer: http.client.HTTPResponse, most_bytes: int) -> bytes:
    content = bytearray()
    while part := answer.read1(1 << 20):
        content += part
        if len(content) > most_bytes:
            raise NoReplyError(f"its answer is larger than {most_bytes >> 20} MiB", may_pass=False)
    return bytes(content)


def why_failed(error: Exception) -> str:
    """In words; of a certificate, what is wrong with it."""
    match error:
        case http.client.RemoteDisconnected():
            return "it hung up without an answer"
        case http.client.IncompleteRead():
            return "it hung up in the middle of its answer"
        case http.client.BadStatusLine():
            return "what it answers is not HTTP"
        case _:
            why = getattr(error, "verify_message", None) or reason_of(error) or type(error).__name__
            return quiet(why)[:_MOST_SHOWN].lower()


def seconds_of(text: str | None) -> float | None:
    """None: it does not say, or names a date."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else None


def patiently(ask: Callable[[], Reply], tries: int, sleep: Callable[[float], None] = time.sleep) -> Reply:
    """Again, later and later, while nobody answers or the server asks for it: at most so many times. Many that fail at once do not
    come back at once."""
    wait = _FIRST_WAIT_SECONDS
    for _ in range(tries - 1):
        told: float | None = None
        try:
            if (reply := ask()).status not in _PASSES:
                return reply
            told = reply.retry_after
        except NoReplyError as error:
            if not error.may_pass:
                raise
        sleep(min(_LONGEST_WAIT_SECONDS, told) if told is not None else wait * random.uniform(0.5, 1.0))
        wait = min(_LONGEST_WAIT_SECONDS, 2 * wait)
    return ask()


_MOST_BYTES, _MOST_SECONDS = 64 << 20, 30.0
_HINT = "is the address right?"
_EXAMPLE = "http://127.0.0.1:8265"


def is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def fetch_json(address: str) -> Any:
    base, _, query = address.partition("?")
    what = f"cannot read {base}"
    if not is_address(address):
        raise UsageError(what, "only addresses of http and https can be read", _EXAMPLE)
    server = WebServer(base, Access(), _MOST_SECONDS, example=_EXAMPLE)
    slash = "/" if base.endswith("/") or not urlsplit(base).path else ""
    try:
        reply = server.get(f"{slash}?{query}" if query else slash, _MOST_BYTES)
    except NoReplyError as error:
        raise ObservationError(what, str(error), _HINT) from error
    if not reply.is_accepted:
        raise ObservationError(what, f"it answered {reply.status}", _HINT)
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        raise ObservationError(what, "its answer is no JSON", _HINT) from None
