# SPDX-License-Identifier: Apache-2.0
"""What is answered over HTTP. Only what the agent already knows: no request starts a probe, and none changes anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from zombiescope.agent.exposition import Exposition
from zombiescope.agent.state import Judged, State
from zombiescope.config import Config
from zombiescope.presenters.metrics import render_families
from zombiescope.web.http import Request, Response, plain
from zombiescope.web.server import Apart, apart
from zombiescope.web.site import Site

_MOST_HISTORY_SECONDS = 86_400.0
_USUAL_HISTORY_SECONDS = 3_600.0


class Api:
    """`is_well` says why the agent is not well, or nothing. `site`: the page, which has all other addresses."""

    def __init__(self, state: State, config: Callable[[], Config], is_well: Callable[[], str], site: Site) -> None:
        self._state, self._config, self._is_well, self._site = state, config, is_well, site
        self._exposition: Exposition | None = None
        self._routes: dict[str, Callable[[], dict[str, Any]]] = {
            "/api/v1/scan": self._scan,
            "/api/v1/doctor": self._doctor,
            "/api/v1/ledger": self._ledger,
            "/api/v1/config": self._show_config,
        }

    @property
    def exposition(self) -> Exposition:
        """Made when it is first needed: an agent that only keeps a history does without the client library."""
        if self._exposition is None:
            self._exposition = Exposition(lambda: render_families(*_in_order(self._state.judge())))
        return self._exposition

    def answer(self, request: Request) -> Response | Apart:
        if request.path == "/metrics":
            return Response(200, *self.exposition.render(request.headers.get("accept", "")))
        if request.path == "/healthz":
            why = self._is_well()
            return plain(503, why) if why else plain(200, "\n".join(["ok", *self._gaps()]))
        if request.path == "/api/v1/history":
            return self._history(request)
        route = self._routes.get(request.path)
        if route is None:
            return self._site.answer(request) or plain(404, "there is no such page")
        return _json(route())

    def _gaps(self) -> list[str]:
        """It looks and serves: what it lacks is no reason to restart it."""
        return [f"{probe}: {gap.reason}" for probe, gap in self._state.failing().items()]

    def _scan(self) -> dict[str, Any]:
        from zombiescope.analysis.scan import derive_reclaim_pass  # noqa: PLC0415
        from zombiescope.diagnosis.case import Observation  # noqa: PLC0415 (only when asked)
        from zombiescope.presenters.scan_json import render_scan  # noqa: PLC0415

        judged = self._state.judge()
        snapshot = judged.moment.snapshot
        return render_scan(
            Observation(snapshot, judged.scan),
            judged.diagnosis,
            judged.growth,
            derive_reclaim_pass(judged.case.reclaim, snapshot.taken_at),
        )

    def _doctor(self) -> dict[str, Any]:
        from zombiescope.presenters.doctor_json import render_doctor  # noqa: PLC0415

        judged = self._state.judge()
        return render_doctor(judged.case, judged.diagnosis)

    def _ledger(self) -> dict[str, Any]:
        from zombiescope.presenters.ledger_json import render_ledger  # noqa: PLC0415

        return render_ledger(self._state.moment(), self._state.accounts.list(), self._state.accounts.is_backlog_known)

    def _history(self, request: Request) -> Response | Apart:
        """The store is read by a child: a day of it takes more memory than the agent has."""
        seconds = parse_seconds(request.query.get("seconds", ""))
        folder = self._config().text("state")
        if seconds is None:
            return plain(400, f"seconds must be a number from 1 to {_MOST_HISTORY_SECONDS:.0f}")
        if not folder:
            return plain(404, "no history is kept: no state folder is configured")
        return apart(request, lambda: self._recalled(folder, seconds))

    def _recalled(self, folder: str, seconds: float) -> Response:
        from zombiescope.errors import ObservationError  # noqa: PLC0415
        from zombiescope.pipeline.recall import recall_briefly  # noqa: PLC0415
        from zombiescope.presenters.history_json import render_history  # noqa: PLC0415

        try:
            found = recall_briefly(self._state.host, os.fsencode(folder), seconds, self._state.thresholds)
        except ObservationError as error:
            return plain(503, f"{error.what}: {error.why}")
        return _json(render_history(found.snapshot, found.recall, found.happenings, found.moment, found.gaps))

    def _show_config(self) -> dict[str, Any]:
        config = self._config()
        values = {name: {"value": value, "origin": config.origins[name]} for name, value in config.values.items()}
        thresholds = config.thresholds._asdict()
        return {
            "schema": "zombiescope.config/1",
            "agent": values,
            "thresholds": thresholds,
            "threshold_origins": {name: config.origins.get(f"thresholds.{name}", "default") for name in thresholds},
        }


def parse_seconds(text: str) -> float | None:
    if not text:
        return _USUAL_HISTORY_SECONDS
    seconds = int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else 0
    return float(seconds) if 1 <= seconds <= _MOST_HISTORY_SECONDS else None


def _json(document: dict[str, Any]) -> Response:
    return Response(200, "application/json", json.dumps(document, indent=1).encode() + b"\n")


def _in_order(judged: Judged) -> tuple[Any, Any, Any, Any]:
    return judged.moment, judged.scan, judged.diagnosis, judged.growth
