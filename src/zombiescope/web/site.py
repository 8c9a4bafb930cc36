# SPDX-License-Identifier: Apache-2.0
"""The page and what it asks: one set of addresses, whoever serves them. Reads only; nothing is changed by any of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from zombiescope.errors import ZombiescopeError
from zombiescope.web.http import Request, Response
from zombiescope.web.one_file import answer_static
from zombiescope.web.server import Apart, apart
from zombiescope.web.shelf import Kept, Shelf, etag_of

Json = dict[str, Any]
VIEWS = ("now", "zombies", "time", "cores", "profiles", "services", "remedies")
HEAVY = ("zombies", "tree", "services", "remedies", "window")
_API = "/api/v1/"
_JSON = "application/json; charset=utf-8"


class Source(Protocol):
    """Whom a page is about, and what is known of it without a long look."""

    shelf: Shelf

    def pulse(self) -> Json:
        """Mode, host, clock, severity: what the smallest document says."""
        ...

    def now(self) -> Kept | Apart | None:
        """The first view; None while it is being made."""
        ...

    def asked(self, path: str) -> Callable[[Mapping[str, str]], Json] | None:
        """What takes time or memory, by the last parts of its address, to be worked out apart; None: there is no such thing."""
        ...

    def memory(self, path: str) -> int:
        """How much more memory its answer may take."""
        ...


class Site:
    def __init__(self, source: Source, heavy: tuple[str, ...] = HEAVY) -> None:
        """`heavy`: the documents on its shelf."""
        self._source, self._heavy = source, heavy

    def drop_late(self, now: float) -> None:
        self._source.shelf.drop_late(now)

    def close(self) -> None:
        self._source.shelf.close()

    def answer(self, request: Request) -> Response | Apart | None:
        """None: there is no such page here."""
        path = request.path
        if path == "/save.html":
            return apart(request, _save)
        if not path.startswith(_API):
            return answer_static(path)
        name = path.removeprefix(_API)
        if name == "page":
            return json_response(self._pulse())
        if name == "now":
            found = self._source.now()
            return found if isinstance(found, Apart) else self._kept(found)
        if name in self._heavy:
            self._source.shelf.want()
            return self._kept(self._source.shelf.get(name))
        if name == "zombie":
            return self._story(request.query.get("id", ""))
        return self._apart(request, name)

    def _apart(self, request: Request, name: str) -> Apart | None:
        question = self._source.asked(name)
        if question is None:
            return None

        def work() -> Response:
            try:
                return json_response(question(request.query))
            except ZombiescopeError as error:
                return error_response(400, error.what, error.why, error.hint)

        return apart(request, work, self._source.memory(name))

    def _kept(self, found: Kept | None) -> Response:
        if found is not None:
            return Response(200, _JSON, found.body, etag=found.etag, is_packed=True)
        shelf = self._source.shelf
        if shelf.why and not shelf.is_making:
            return error_response(503, "this could not be looked at", shelf.why, "try again in a minute")
        making = {"status": "making", "expected_seconds": shelf.expected_seconds, "what": "looking at this host"}
        return Response(202, _JSON, json.dumps(making).encode())

    def _story(self, wanted: str) -> Response:
        if not (wanted.isascii() and wanted.isdecimal() and len(wanted) <= 20):
            return error_response(400, "cannot look for this zombie", "its id is no number", "id=6245670")
        shelf = self._source.shelf
        shelf.want()
        if shelf.get("zombies") is None:
            return self._kept(None)
        story = shelf.story(int(wanted))
        if story is None:
            why = "it is not among those that were seen last: it was released, or it died later"
            return error_response(404, f"zombie {int(wanted)} is not here", why, "zombiescope autopsy --limit 0")
        return json_response(story)

    def _pulse(self) -> Json:
        shelf = self._source.shelf
        status = "making" if shelf.is_making else "refused" if shelf.why else "idle"
        heavy = {}
        for name in self._heavy:
            kept = shelf.get(name)
            state = "ready" if kept and status != "making" else status
            heavy[name] = {
                "version": kept.etag if kept else None,
                "status": state,
                "made_at": shelf.about.get("at"),
                "why": shelf.why,
            }
        pulse = self._source.pulse()
        return {**pulse, "documents": {**heavy, **pulse.get("documents", {})}}


def _save() -> Response:
    from zombiescope.web.one_file import one_file  # noqa: PLC0415 (few ask for it)

    text = one_file().encode()
    return Response(200, "text/html; charset=utf-8", text, etag=etag_of(text))


def json_response(document: Json) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(200, _JSON, body, etag=etag_of(body))


def error_response(status: int, what: str, why: str, hint: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": what, "why": why, "hint": hint}).encode())
