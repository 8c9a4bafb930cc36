# SPDX-License-Identifier: Apache-2.0
"""The page of an agent: what it knows at each tick, and what a look adds that a child takes when somebody asks for it.

A look is taken no more often than a thousandth of a core allows. It tells the page alone: metrics and history stay what the
agent itself has seen, whether anybody looks or not.
"""

import json
import os
import selectors
from collections.abc import Callable, Mapping

from zombiescope import __version__, pipeline, presenters, web
from zombiescope.agent.keep import Keeper
from zombiescope.agent.state import State
from zombiescope.config import Config
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import diagnose
from zombiescope.facts.gap import Gap
from zombiescope.facts.plain import of_plain
from zombiescope.facts.units import ServicesSeen
from zombiescope.facts.zombies import Remains
from zombiescope.presenters.document import Json, render_gaps, render_page_host
from zombiescope.web.http import Response, etag_of, packed
from zombiescope.web.server import Apart
from zombiescope.web.site import VIEWS, Kept, Pace, Shelf

PACE = Pace(60.0, 0.001)
_LOOK_SECONDS, _POLL_SECONDS = 1.0, 5
_NOT_LOOKED = Gap("remedy", "no plan was made yet: a look is being taken", "look again in some seconds")


class AgentPage:
    def __init__(
        self, state: State, config: Callable[[], Config], keeper: Keeper, selector: selectors.BaseSelector
    ) -> None:
        self._state, self._config, self._keeper = state, config, keeper
        self.shelf = Shelf(selector, self._look, PACE, _LOOK_SECONDS + 8.0)
        self._tick: float | None = None
        self._of_look: object = None
        self._now: Kept | None = None
        self._severity: str | None = None
        self._has_day = not self._folder()

    def pulse(self) -> Json:
        state, now = self._state, self._state.host.wall_clock()
        snapshot = state.moment().snapshot
        kept = self._now if self._is_fresh() else None
        return {
            "schema": "zombiescope.page/1",
            "mode": "agent",
            "version": __version__,
            "label": state.host.label,
            "host": render_page_host(snapshot.identity, snapshot.hierarchy, snapshot.shape),
            "at": snapshot.taken_at,
            "now": now,
            "is_live": True,
            "poll_seconds": _POLL_SECONDS,
            "views": list(VIEWS),
            "severity": self._severity,
            "history": {"interval_seconds": self._config().number("interval_seconds")} if self._folder() else None,
            "documents": {
                "now": {
                    "version": kept.etag if kept else f"at {snapshot.taken_at}",
                    "made_at": snapshot.taken_at,
                }
            },
            "gaps": render_gaps(gap.about(name) for name, gap in state.failing().items()),
        }

    def now(self) -> Kept | Apart | None:
        self.shelf.want()
        return self._told() if self._has_day else Apart(self._read_day, self._take_day)

    def asked(self, path: str) -> Callable[[Mapping[str, str]], Json] | None:
        state = self._folder()
        captures = os.path.join(state, b"captures") if state else None
        return web.standing.question(web.standing.Remembered(state, captures, self._state.thresholds), path)

    def memory(self, path: str) -> int:
        return web.standing.memory_of(path)

    def _folder(self) -> bytes | None:
        return os.fsencode(self._config().text("state")) or None

    def _is_fresh(self) -> bool:
        return self._tick == self._state.taken_at and self._of_look is self.shelf.about

    def _told(self) -> Kept:
        """Worked out once for each tick, and only when somebody asks."""
        if self._now is None or not self._is_fresh():
            self._tick, self._of_look = self._state.taken_at, self.shelf.about
            body = json.dumps(self._rendered(), separators=(",", ":")).encode()
            self._now = Kept(packed(body, 1), etag_of(body))
        return self._now

    def _rendered(self) -> Json:
        judged = self._state.judge()
        case, diagnosis = self._joined(judged.case), judged.diagnosis
        if case is not judged.case:
            diagnosis = diagnose(case)
        about = self.shelf.about
        found = presenters.now_json.render_now(
            presenters.now_json.Now(case, diagnosis, _NOT_LOOKED, self._keeper.day, str(about.get("how", "")))
        )
        if about:
            found["remedy"] = about.get("remedy")
            found["gaps"] = [gap for gap in found["gaps"] if gap["fact"] != "remedy"] + about.get("remedy_gaps", [])
        self._severity = diagnosis.worst
        return found

    def _joined(self, case: Case) -> Case:
        """With what the last look saw one by one, which no tick can."""
        about = self.shelf.about
        if not about.get("remains"):
            return case
        services = of_plain(about["services"], ServicesSeen) if about.get("services") else case.services
        return case._replace(remains=of_plain(about["remains"], Remains), services=services)

    def _look(self) -> bytes:
        """In a child."""
        host = self._state.host
        root = getattr(host, "root", b"") or None
        subject = pipeline.page_look.Subject(host, root, self._state.thresholds, self._folder(), _LOOK_SECONDS)
        return web.standing.look_and_lay_out(subject)

    def _read_day(self) -> bytes:
        """In a child: the small pictures of the first view show a day that this agent may not have seen."""
        found = pipeline.page_look.read_day(self._folder() or b"", self._state.host.wall_clock())
        return json.dumps(None if isinstance(found, Gap) else found.to_plain()).encode()

    def _take_day(self, said: bytes) -> Response:
        if (known := json.loads(said)) is not None:
            self._keeper.day.join(known)
        self._has_day = True
        found = self._told()
        return Response(200, "application/json; charset=utf-8", found.body, etag=found.etag, is_packed=True)
