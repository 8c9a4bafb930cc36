# SPDX-License-Identifier: Apache-2.0
"""A JSON answer from an address that a person gave: bounded in bytes and in time, no other scheme than HTTP, no redirects."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from zombiescope.errors import ObservationError, UsageError

_MOST_BYTES = 64 << 20
_MOST_SECONDS = 30.0
_CHUNK = 1 << 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an error: it would lead where nobody asked to go."""


def is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def fetch_json(address: str) -> Any:
    what = f"cannot read {address.split('?', maxsplit=1)[0]}"
    if not is_address(address):
        raise UsageError(what, "only addresses of http and https can be read", "http://127.0.0.1:8265")
    opener = urllib.request.build_opener(_NoRedirects)
    ends, content = time.monotonic() + _MOST_SECONDS, bytearray()
    try:
        with opener.open(address, timeout=_MOST_SECONDS) as answer:
            while len(content) <= _MOST_BYTES and (part := answer.read1(_CHUNK)):
                content += part
                if time.monotonic() > ends:  # the time limit above is that of each piece
                    raise TimeoutError("it did not answer in full in time")
    except urllib.error.HTTPError as error:
        raise ObservationError(what, f"it answered {error.code}", "is the address right?") from error
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise ObservationError(what, str(getattr(error, "reason", error)), "is the address right?") from error
    if len(content) > _MOST_BYTES:
        raise ObservationError(
            what, "its answer is longer than 64 MiB", "ask for less: a shorter time, or fewer series"
        )
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ObservationError(what, "its answer is no JSON", "is the address right?") from None
