# SPDX-License-Identifier: Apache-2.0
"""The page and what it asks: one set of addresses, whoever serves them. Reads only; nothing is changed by any of them.

Documents that take much to make are worked out by a short-lived child when somebody asks, and kept packed: never made when nobody
asks, and made again no sooner than its share of a core allows. Who asks often cannot make the host work. An agent serves it beside
its metrics; alone it has the one server in a loop of its own, on an address or a path that only its owner can open.
"""

import json
import selectors
import sys
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zombiescope import web
from zombiescope.errors import ObservationError, ZombiescopeError, reason_of
from zombiescope.host.children import Tended
from zombiescope.presenters.document import Json
from zombiescope.web.guards import guards_for, open_listening, remove_path
from zombiescope.web.http import Request, Response, etag_of, load_h11, packed
from zombiescope.web.server import Apart, Server, apart

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

VIEWS = ("now", "zombies", "time", "cores", "profiles", "services", "remedies")
HEAVY = ("zombies", "tree", "services", "remedies", "window")
_API = "/api/v1/"
_JSON = "application/json; charset=utf-8"
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PREFIX = "/static/"


class Source(Protocol):
    """Whom a page is about, and what is known of it without a long look."""

    shelf: "Shelf"

    def pulse(self) -> Json:
        """Mode, host, clock, severity: what the smallest document says."""
        ...

    def now(self) -> "Kept | Apart | None":
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

    def _kept(self, found: "Kept | None") -> Response:
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


def answer_static(path: str) -> Response | None:
    """None: there is no such file."""
    from importlib.resources import files  # noqa: PLC0415 (packers and temporary files, for an agent whose page somebody opens)

    name = "index.html" if path == "/" else path.removeprefix(_PREFIX) if path.startswith(_PREFIX) else ""
    kind = _KINDS.get(name.rpartition(".")[2])
    found = _file(files("zombiescope.web").joinpath("static"), name) if kind else None
    if found is None:
        return None
    content = found.read_bytes()
    return Response(200, f"{kind}; charset=utf-8", packed(content), etag=etag_of(content), is_packed=True)


def _file(root: "Traversable", name: str) -> "Traversable | None":
    """Only names that a folder lists: no dots, no escapes, no links to elsewhere."""
    place = root
    for part in name.split("/"):
        found = next((entry for entry in place.iterdir() if entry.name == part), None) if place.is_dir() else None
        if found is None:
            return None
        place = found
    return place if place.is_file() else None


def _save() -> Response:

    text = web.one_file.one_file().encode()
    return Response(200, "text/html; charset=utf-8", text, etag=etag_of(text))


def json_response(document: Json) -> Response:
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(200, _JSON, body, etag=etag_of(body))


def error_response(status: int, what: str, why: str, hint: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": what, "why": why, "hint": hint}).encode())


_MOST_BYTES = 16 << 20
_MOST_SECONDS = 180.0
_STORIES = "stories"


class Kept(NamedTuple):
    body: bytes
    """JSON, packed."""
    etag: str


class Pace(NamedTuple):
    least_seconds: float
    """Between two, at the least."""
    share: float
    """Of one core, that all of them may take."""


NOTHING = Pace(1e9, 1.0)
"""For a page that has none of these documents."""


class Shelf:
    def __init__(
        self, selector: selectors.BaseSelector, make: Callable[[], bytes], pace: Pace, expected: float | None = None
    ) -> None:
        """`make` runs in the child, and says what `laid_out` made."""
        self._selector, self._make, self._pace = selector, make, pace
        self._kept: dict[str, Kept] = {}
        self._stories: list[tuple[int, bytes]] = []
        self._child: Tended | None = None
        self._next = self._began = 0.0
        self.about: dict[str, Any] = {}
        """Of what is kept: when it was made, what it cost, and what its maker added."""
        self.expected_seconds = expected
        self.why = ""
        """Why the last one failed; empty where it did not."""

    @property
    def is_making(self) -> bool:
        return self._child is not None

    def want(self) -> None:
        """Somebody asks: one is begun unless one is being made, or the last is too young."""
        now = time.monotonic()
        if self._child is not None or now < self._next:
            return
        try:
            self._child = Tended(self._selector, self._make, now + _MOST_SECONDS, self._ended, most=_MOST_BYTES)
        except OSError as error:
            self._failed(f"no process could be started: {reason_of(error)}")
            return
        self._began = now

    def get(self, name: str) -> Kept | None:
        return self._kept.get(name)

    def story(self, number: int) -> dict[str, Any] | None:
        """One of many: only those beside it are unpacked."""
        place = bisect_right(self._stories, number, key=lambda each: each[0]) - 1
        if place < 0:
            return None
        found = json.loads(zlib.decompress(self._stories[place][1], 31))
        return next((each for each in found if each["id"] == number), None)

    def drop_late(self, now: float) -> None:
        if self._child is not None:
            self._child.drop_late(now)

    def close(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _ended(self, said: bytearray | None, _: float, is_late: bool) -> None:
        self._child = None
        took = time.monotonic() - self._began
        if said is None:
            self._failed(
                f"it took longer than {_MOST_SECONDS:.0f} s" if is_late else "the process that looked ended early"
            )
            return
        self._lay_down(said)
        self.expected_seconds = took
        cost = float(self.about.get("cpu_seconds") or 0.0)
        self._next = time.monotonic() + max(self._pace.least_seconds, cost / self._pace.share)

    def _failed(self, why: str) -> None:
        self.why = why
        self._next = time.monotonic() + self._pace.least_seconds

    def _lay_down(self, said: bytearray) -> None:
        """Part after part from its end, each gone from there before the next is taken: an agent has no room for it twice."""
        about = json.loads(said[: said.index(b"\n")])
        self.why = str(about.pop("why", ""))
        if self.why:
            return
        self._kept, self._stories = {}, []
        for name, length, etag in reversed(about.pop("parts")):
            body = bytes(memoryview(said)[len(said) - length :])
            del said[len(said) - length :]
            if name == _STORIES:
                self._stories.append((int(etag), body))
            else:
                self._kept[name] = Kept(body, etag)
        self._stories.reverse()
        self.about = about


def laid_out(
    documents: Mapping[str, object], stories: Iterable[tuple[int, list[dict[str, Any]]]], about: Mapping[str, object]
) -> bytes:
    """What a child says: a line about it, then every document packed."""
    parts: list[tuple[str, int, str]] = []
    bodies: list[bytes] = []
    for name, document in documents.items():
        text = json.dumps(document, separators=(",", ":")).encode()
        bodies.append(packed(text))
        parts.append((name, len(bodies[-1]), etag_of(text)))
    for first, some in stories:
        bodies.append(packed(json.dumps(some, separators=(",", ":")).encode()))
        parts.append((_STORIES, len(bodies[-1]), str(first)))
    return b"\n".join(
        [json.dumps({**about, "cpu_seconds": time.process_time(), "parts": parts}).encode(), b"".join(bodies)]
    )


def failed(error: ZombiescopeError) -> bytes:
    return json.dumps({"why": f"{error.what}: {error.why}"}).encode() + b"\n"


Where = tuple[str, int] | str
"""An address and a port, of which 0 takes any; or a path."""


class PageLooks(Protocol):
    def answer(self, request: Request) -> Response | Apart | None: ...
    def drop_late(self, now: float) -> None: ...
    def close(self) -> None: ...


class PageServer:
    """`serve` until an exception, such as that of Ctrl-C."""

    def __init__(
        self, where: Where, open_site: Callable[[selectors.BaseSelector], PageLooks], *, token: str = ""
    ) -> None:
        """`open_site` is given the loop that its children's answers come through. `token`: who does not show it gets no answer."""
        load_h11("cannot serve a page", "agent")
        try:
            listening = open_listening(where)
        except OSError as error:
            why = reason_of(error)
            told = where if isinstance(where, str) else f"port {where[1]}"
            raise ObservationError(f"cannot serve on {told}", why, "choose another with --listen") from error
        self._where = where
        self._selector = selectors.DefaultSelector()
        self._site = open_site(self._selector)
        address = "" if isinstance(where, str) else where[0]
        self._server = Server(listening, self._selector, self._answer, guards_for(address, (), token))
        self._told = 0

    @property
    def address(self) -> str:
        if isinstance(self._where, str):
            return f"unix:{self._where}"
        name = f"[{self._where[0]}]" if ":" in self._where[0] else self._where[0]
        return f"http://{name}:{self._server.port}/"

    def serve(self) -> None:
        try:
            while True:
                self.turn()
        finally:
            self.close()

    def turn(self) -> None:
        """Answers whoever asks within a second."""
        for key, _ in self._selector.select(1.0):
            key.data(time.monotonic())
        now = time.monotonic()
        self._server.drop_late(now)
        self._site.drop_late(now)
        self._tell_failures()

    def close(self) -> None:
        self._site.close()
        self._server.close()
        if isinstance(self._where, str):
            remove_path(self._where)
        self._selector.close()

    def _answer(self, request: Request) -> Response | Apart:
        return self._site.answer(request) or error_response(404, "there is no such page", "", "/")

    def _tell_failures(self) -> None:
        """A page that was closed while it was answered is nobody's mistake; this is one of ours."""
        if self._server.failed > self._told:
            self._told = self._server.failed
            sys.stderr.write(f"zombiescope: an answer failed, which is a bug: {self._server.last_failure}\n")
