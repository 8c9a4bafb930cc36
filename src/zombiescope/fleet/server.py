# SPDX-License-Identifier: Apache-2.0
"""Any server with Prometheus' HTTP API (Prometheus, VictoriaMetrics, Mimir, Thanos): instant and range queries, and nothing else.

It only asks. Whatever is not an answer of this API is an error that says so.
"""

from __future__ import annotations

import http.client
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet
from zombiescope.host.web_server import Access, NoReplyError, WebServer

MOST_BYTES = 512 << 20
_MOST_SHOWN = 200
_HINT = "curl -s URL/api/v1/query?query=up shows what it answers"


class Point(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Line(NamedTuple):
    labels: Mapping[str, str]
    points: list[tuple[float, float]]


class MetricsServer:
    def __init__(self, url: str, access: Access = Access(), timeout_seconds: float = 60.0) -> None:  # noqa: B008 (frozen)
        self._server = WebServer(url, access, timeout_seconds, example="--prometheus http://127.0.0.1:9090")
        self.name = self._server.name
        self.gaps: list[Gap] = []
        """What the server said of its own answers: that they are partial, or cut."""

    def ask(self, query: str, at: float) -> list[Point]:
        """An instant query. A value that is no number (NaN, infinite) is left out: the server has nothing to say there."""
        found = []
        for entry in self._result("query", {"query": query, "time": f"{at:.3f}"}, "vector"):
            value = _number(entry.get("value"))
            if value is not None and math.isfinite(value):
                found.append(Point(_labels(entry), value))
        return found

    def ask_range(self, query: str, begin: float, end: float, step: float) -> list[Line]:
        asked = {"query": query, "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.0f}"}
        found = []
        for entry in self._result("query_range", asked, "matrix"):
            pairs = entry.get("values")
            points = (
                [(float(pair[0]), value) for pair in pairs if (value := _number(pair)) is not None] if pairs else []
            )
            found.append(Line(_labels(entry), [each for each in points if math.isfinite(each[1])]))
        return found

    def _result(self, verb: str, asked: Mapping[str, str], wanted: str) -> list[Any]:
        answer = self._answer(verb, asked)
        data = answer.get("data")
        if answer.get("status") != "success" or not isinstance(data, dict):
            raise self._error(f"it answers {quiet(str(answer.get('error') or answer)[:_MOST_SHOWN])}")
        if data.get("resultType") != wanted or not isinstance(data.get("result"), list):
            raise self._error(f"it answers with a {quiet(str(data.get('resultType'))[:40])}, not with a {wanted}")
        if answer.get("isPartial") or answer.get("warnings"):
            why = quiet(str(answer.get("warnings") or "some of its storage did not answer")[:_MOST_SHOWN])
            self.gaps.append(Gap("nodes", f"the server answered in part: {why}", "ask again when it is whole"))
        return list(data["result"])

    def _answer(self, verb: str, asked: Mapping[str, str]) -> dict[str, Any]:
        status, body = self._exchange(verb, asked)
        try:
            answer = json.loads(body)
        except ValueError as error:
            is_page = body.lstrip()[:1] == b"<"
            what = "a web page" if is_page else "something that is not JSON"
            raise self._error(f"it answers with {what} (status {status})", status) from error
        if not isinstance(answer, dict):
            raise self._error("it answers with JSON of another API", status)
        if status != http.client.OK and answer.get("status") != "error":
            raise self._error(f"it answers with status {status}", status)
        return answer

    def _exchange(self, verb: str, asked: Mapping[str, str]) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        try:
            reply = self._server.post(f"/api/v1/{verb}", urlencode(asked), headers, MOST_BYTES)
        except NoReplyError as error:
            raise self._error(str(error)) from error
        if reply.leads_to:
            raise self._error(f"it sends us on to {reply.leads_to}, and a redirect is not followed", reply.status)
        return reply.status, reply.body

    def _error(self, why: str, status: int | None = None) -> ObservationError:
        hints = {
            401: "give a token: --token-file FILE",
            403: "the token may not ask this server: --token-file FILE",
            404: "is the path right? Mimir answers below /prometheus, VictoriaMetrics' cluster below /select/0/prometheus",
        }
        hint = hints.get(status or 0, _HINT.replace("URL", self.name))
        return ObservationError(f"cannot ask {self.name}", why, hint)


def _labels(entry: object) -> dict[str, str]:
    metric = entry.get("metric") if isinstance(entry, dict) else None
    return {str(name): str(value) for name, value in metric.items()} if isinstance(metric, dict) else {}


def _number(pair: object) -> float | None:
    try:
        return float(pair[1]) if isinstance(pair, list) else None
    except (ValueError, TypeError, IndexError):
        return None
