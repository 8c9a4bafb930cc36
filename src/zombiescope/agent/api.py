# SPDX-License-Identifier: Apache-2.0
"""What is answered over HTTP. Only what the agent already knows: no request starts a probe, and none changes anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from zombiescope.agent.exposition import Exposition
from zombiescope.agent.http import Request, Response, plain
from zombiescope.agent.state import Judged, State
from zombiescope.config import Config
from zombiescope.presenters.metrics import render_families

_INDEX = "zombiescope agent\n/metrics\n/healthz\n/api/v1/scan\n/api/v1/doctor\n/api/v1/ledger\n/api/v1/config"


class Api:
    """`is_well` says why the agent is not well, or nothing."""

    def __init__(self, state: State, config: Callable[[], Config], is_well: Callable[[], str]) -> None:
        self._state, self._config, self._is_well = state, config, is_well
        self.exposition = Exposition(lambda: render_families(*_in_order(state.judge())))
        self._routes: dict[str, Callable[[], dict[str, Any]]] = {
            "/api/v1/scan": self._scan,
            "/api/v1/doctor": self._doctor,
            "/api/v1/ledger": self._ledger,
            "/api/v1/config": self._show_config,
        }

    def answer(self, request: Request) -> Response:
        if request.path == "/metrics":
            return Response(200, *self.exposition.render(request.accept))
        if request.path == "/healthz":
            why = self._is_well()
            return plain(503, why) if why else plain(200, "\n".join(["ok", *self._gaps()]))
        if request.path == "/":
            return plain(200, _INDEX)
        route = self._routes.get(request.path)
        if route is None:
            return plain(404, "there is no such page")
        return Response(200, "application/json", json.dumps(route(), indent=1).encode() + b"\n")

    def _gaps(self) -> list[str]:
        """It looks and serves: what it lacks is no reason to restart it."""
        return [f"{probe}: {gap.reason}" for probe, gap in self._state.failing().items()]

    def _scan(self) -> dict[str, Any]:
        from zombiescope.diagnosis.case import Observation  # noqa: PLC0415 (only when asked)
        from zombiescope.presenters.scan_json import render_scan  # noqa: PLC0415

        judged = self._state.judge()
        return render_scan(
            Observation(judged.moment.snapshot, judged.scan), judged.diagnosis, self._state.thresholds, judged.growth
        )

    def _doctor(self) -> dict[str, Any]:
        from zombiescope.presenters.doctor_json import render_doctor  # noqa: PLC0415

        judged = self._state.judge()
        return render_doctor(judged.case, judged.diagnosis)

    def _ledger(self) -> dict[str, Any]:
        from zombiescope.presenters.ledger_json import render_ledger  # noqa: PLC0415

        return render_ledger(self._state.moment(), self._state.accounts.list(), self._state.accounts.is_backlog_known)

    def _show_config(self) -> dict[str, Any]:
        config = self._config()
        values = {name: {"value": value, "origin": config.origins[name]} for name, value in config.values.items()}
        return {"schema": "zombiescope.config/1", "agent": values, "thresholds": config.thresholds._asdict()}


def _in_order(judged: Judged) -> tuple[Any, Any, Any, Any]:
    return judged.moment, judged.scan, judged.diagnosis, judged.growth
