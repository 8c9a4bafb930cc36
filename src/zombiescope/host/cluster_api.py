# SPDX-License-Identifier: Apache-2.0
"""Sends documents to the API server of this node's cluster, with the account that the pod was given. For a short-lived child:
TLS and HTTP are imported here. No redirect is followed, no proxy asked, no answer kept beyond why it refused."""

import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from zombiescope.errors import ObservationError, reason_of
from zombiescope.facts.names import quiet
from zombiescope.host.safe_open import open_regular
from zombiescope.host.web_server import LOOPBACK, deadline, seconds_of, why_failed

STRATEGIC = "application/strategic-merge-patch+json"
PLAIN = "application/json"
_SECONDS, _LIST_SECONDS = 10.0, 20.0
_MOST_TOKEN, _MOST_ANSWER, _MOST_WHY = 1 << 16, 1 << 20, 200
_MOST_LIST = 64 << 20
_PIECE, _MOST_PIECES, _MOST_PIECE = 1000, 50, 16 << 20
"""A list in pieces: objects of each, pieces, and bytes of each."""
_SKEW_SECONDS = 5.0
_NO_JSON = "its answer is no JSON that can be read: is it the API server?"


class Api(NamedTuple):
    address: str
    """Empty: that of the environment, as every pod has it."""
    account: str
    """The folder with `token` and `ca.crt`."""


class Sending(NamedTuple):
    method: str
    path: str
    media_type: str
    body: Callable[[float], Mapping[str, Any]]
    """Given the time, as the server has it."""


class ApiOutcome(NamedTuple):
    done: int
    """How many were sent and accepted, in order."""
    status: int = 0
    """Of the last answer; 0 where there was none."""
    why: str = ""
    retry_after: float = 0.0
    skew: float = 0.0
    """Seconds that the server's clock is ahead of ours."""


class _ApiError(Exception):
    pass


def send(api: Api, wanted: Sequence[Sending], wall_clock: Callable[[], float] = time.time) -> ApiOutcome:
    """One after the other until one fails. Where the server's clock differs, a patch is repeated with the server's time."""
    done, skew = 0, 0.0
    try:
        where = _where(api)
        for each in wanted:
            status, told, why, retry_after = _exchange(api, where, each, wall_clock() + skew)
            ahead = _ahead(told, wall_clock())
            if 200 <= status < 300 and each.method == "PATCH" and abs(ahead - skew) > _SKEW_SECONDS:
                skew = ahead
                status, told, why, retry_after = _exchange(api, where, each, wall_clock() + skew)
            if not 200 <= status < 300:
                return ApiOutcome(done, status, why or f"it answers with status {status}", retry_after, skew)
            done += 1
    except _ApiError as error:
        return ApiOutcome(done, 0, str(error), 0.0, skew)
    except TimeoutError:
        return ApiOutcome(done, 0, f"it did not answer within {_SECONDS:.0f} s", 0.0, skew)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return ApiOutcome(done, 0, why_failed(error), 0.0, skew)
    return ApiOutcome(done, 200, "", 0.0, skew)


_WHAT = "cannot ask the cluster's API server"
_HINT = "kubernetes_api and kubernetes_account name it and its account; its role must allow to list"


def fetch(api: Api, path: str, most: int = _MOST_LIST) -> Any:
    """What the server answers to one question, as JSON. Raises ObservationError."""
    try:
        status, _, content = _answered(api, _where(api), "GET", path, _Bounds(_LIST_SECONDS, most + 1))
    except _ApiError as error:
        raise ObservationError(_WHAT, str(error), _HINT) from error
    except TimeoutError as error:
        raise ObservationError(_WHAT, f"it did not answer within {_LIST_SECONDS:.0f} s", _HINT) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ObservationError(_WHAT, why_failed(error), _HINT) from error
    if not 200 <= status < 300:
        raise ObservationError(_WHAT, _why(status, content) or f"it answers with status {status}", _HINT)
    if len(content) > most:
        raise ObservationError(_WHAT, f"its answer is longer than {most >> 20} MiB", _HINT)
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ObservationError(_WHAT, _NO_JSON, _HINT) from None


class Listed(NamedTuple):
    items: list[Any]
    rest: str = ""
    """Why there are more than these; empty where they are all."""


def fetch_list(api: Api, path: str) -> Listed:
    """Piece by piece, as the server hands it out. Raises ObservationError where not even the first is given."""
    items: list[Any] = []
    token = ""
    for _ in range(_MOST_PIECES):
        try:
            found, token = _piece(api, path, token)
        except ObservationError as error:
            if not items:
                raise
            return Listed(items, f"only the first {len(items):,} were read: {error.why}")
        items += found
        if not token or not found:
            return Listed(items)
    return Listed(items, f"only the first {len(items):,} were read: there are more")


def _piece(api: Api, path: str, token: str) -> tuple[list[Any], str]:
    """And what to ask for the next one with."""
    query = urlencode({"limit": _PIECE, "continue": token} if token else {"limit": _PIECE})
    said = fetch(api, f"{path}{'&' if '?' in path else '?'}{query}", _MOST_PIECE)
    found = said.get("items") if isinstance(said, dict) else None
    if not isinstance(found, list):
        raise ObservationError(_WHAT, "what it answers is no list", "is the address right?")
    about = said.get("metadata")
    return found, str(about.get("continue") or "") if isinstance(about, dict) else ""


def pods_path(node: str) -> str:
    """Of all pods that the account may see; of one node where its name is known."""
    is_name = node.isascii() and node.replace("-", "").replace(".", "").isalnum()
    return f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}" if is_name else "/api/v1/pods"


def _where(api: Api) -> tuple[str, str, int]:
    if not (address := api.address):
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise _ApiError("this is no pod: KUBERNETES_SERVICE_HOST is not set")
        address = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _ApiError("its address is not https://HOST:PORT")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise _ApiError("without TLS only the loopback address is asked: a token would be readable on its way")
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _exchange(api: Api, where: tuple[str, str, int], sending: Sending, at: float) -> tuple[int, str | None, str, float]:
    said = (json.dumps(sending.body(at)), sending.media_type)
    status, answer, content = _answered(api, where, sending.method, sending.path, _Bounds(_SECONDS, _MOST_ANSWER), said)
    if 200 <= status < 300 and not content.lstrip().startswith(b"{"):
        raise _ApiError(_NO_JSON)  # who took it over would answer with the object
    return status, answer.get("Date"), _why(status, content), seconds_of(answer.get("Retry-After")) or 0.0


class _Bounds(NamedTuple):
    """Of one answer, from the question on."""

    seconds: float
    most: int
    """Bytes that are read of it."""


def _answered(
    api: Api, where: tuple[str, str, int], method: str, path: str, bounds: _Bounds, said: tuple[str, str] | None = None
) -> tuple[int, Message, bytes]:
    """The status, the headers, and what follows. `said`: a body and what it is."""
    scheme, host, port = where
    connection = (
        http.client.HTTPSConnection(host, port, timeout=bounds.seconds, context=_context(api))
        if scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=bounds.seconds)
    )
    headers = {"Accept": "application/json", "User-Agent": "zombiescope"}
    if said:
        headers["Content-Type"] = said[1]
    if token := _read(f"{api.account}/token"):
        headers["Authorization"] = f"Bearer {token}"
    try:
        with deadline(connection, bounds.seconds):
            connection.request(method, path, said[0] if said else None, headers)
            answer = connection.getresponse()
            content = answer.read(bounds.most)
        return answer.status, answer.headers, content
    finally:
        connection.close()


def _context(api: Api) -> ssl.SSLContext:
    authority = f"{api.account}/ca.crt"
    try:
        context = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise _ApiError(f"{authority} cannot be used: {reason_of(error)}") from error
    # Authorities of clusters are made by many tools, and often lack what RFC 5280 wants of them; the chain is checked all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _read(path: str) -> str:
    """Anew each time: tokens of pods are replaced within the hour."""
    try:
        with os.fdopen(open_regular(path, follow=True)[0], "rb") as file:
            token = file.read(_MOST_TOKEN).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise _ApiError(f"{path} cannot be read: {reason_of(error)}") from error
    if not token.isascii() or not token.isprintable():
        raise _ApiError(f"{path} holds no token")
    return token


def _why(status: int, body: bytes) -> str:
    if 200 <= status < 300:
        return ""
    try:
        return quiet(str(json.loads(body)["message"]))[:_MOST_WHY]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _ahead(date: str | None, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now if date else 0.0
    except (TypeError, ValueError, OverflowError):
        return 0.0
