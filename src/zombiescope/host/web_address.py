# SPDX-License-Identifier: Apache-2.0
"""A JSON answer from an address that a person gave: no other scheme than HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from zombiescope.errors import ObservationError, UsageError
from zombiescope.host.web_server import Access, NoReplyError, WebServer

_MOST_BYTES = 64 << 20
_MOST_SECONDS = 30.0
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
