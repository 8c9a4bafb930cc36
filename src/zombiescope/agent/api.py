# SPDX-License-Identifier: Apache-2.0
"""What is answered over HTTP. Only what the agent already knows: no request starts a probe, and none changes anything."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zombiescope import pipeline, presenters
from zombiescope.agent.state import State
from zombiescope.analysis.scan import derive_reclaim_pass
from zombiescope.config import Config, listen_address
from zombiescope.diagnosis.case import Observation
from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.metric_names import MetricKind
from zombiescope.host.own_folder import guarded_folder
from zombiescope.host.whole_file import write_whole_in
from zombiescope.presenters.metrics import Family, render_families
from zombiescope.web.guards import Guards, guards_for, open_listening, read_token, remove_path
from zombiescope.web.http import Request, Response, load_h11, plain
from zombiescope.web.server import Answering, Apart, Server, apart
from zombiescope.web.site import Site


def open_door(config: Config, selector: selectors.BaseSelector, answer: Answering) -> Server | None:
    """None where it is to serve nowhere."""
    if (address := listen_address(config.text("listen"))) is None:
        return None
    load_h11("cannot serve metrics")
    guards = guards_of(config)
    try:
        listening = open_listening(address)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {config.text('listen')}", reason_of(error), "--listen 127.0.0.1:0 takes any free port"
        ) from error
    return Server(listening, selector, answer, guards)


def close_door(config: Config, server: Server) -> None:
    server.close()
    if isinstance(address := listen_address(config.text("listen")), str):
        remove_path(address)


def guards_of(config: Config) -> Guards:
    """Raises UsageError where the token cannot be read."""
    address, token = listen_address(config.text("listen")), config.text("token_file")
    where = address[0] if isinstance(address, tuple) else ""
    return guards_for(where, config.words("hosts"), read_token(token) if token else "")


class Notifier:
    def __init__(self, address: str | None) -> None:
        self._address = "\0" + address[1:] if address and address.startswith("@") else address

    def say(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as speaking:
            speaking.sendto("\n".join(lines).encode(), self._address)


if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as ClientMetric


class Exposition:
    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        try:
            from prometheus_client import CollectorRegistry  # noqa: PLC0415 (an extra)
        except ImportError as error:
            raise UsageError(
                "cannot serve metrics",
                "the package prometheus-client is not installed",
                "pip install 'zombiescope[agent]'",
            ) from error
        self._families = families
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def collect(self) -> Iterator[ClientMetric]:
        return map(client_metric, self._families())

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """The content type and the body."""
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

        encode, content_type = choose_encoder(known_format(accept))
        return content_type, encode(self._registry)


_FORMATS = (("application/openmetrics-text", ""), ("application/openmetrics-text", "1.0.0"), ("text/plain", "1.0.0"))


def known_format(accept: str) -> str:
    """The first format in a header Accept that is ours, in our words: the library repeats in its answer what it was given."""
    for wanted in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in wanted.split(";"))
        version = next((each.removeprefix("version=") for each in parameters if each.startswith("version=")), "")
        if (kind, version) in _FORMATS:
            return f"{kind}; version=1.0.0"
    return ""


def client_metric(family: Family) -> ClientMetric:
    from prometheus_client import metrics_core  # noqa: PLC0415

    metric = family.metric
    kinds: dict[MetricKind, Any] = {
        MetricKind.GAUGE: metrics_core.GaugeMetricFamily,
        MetricKind.COUNTER: metrics_core.CounterMetricFamily,
        MetricKind.HISTOGRAM: metrics_core.HistogramMetricFamily,
    }
    found: ClientMetric = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
    for labels, value in family.samples:
        found.add_metric(labels, value)  # type: ignore[attr-defined]
    for each in family.histograms:
        buckets = [*zip(map(str, each.bounds), each.at_most, strict=True), ("+Inf", float(each.all))]
        found.add_metric(each.labels, buckets, each.seconds)  # type: ignore[attr-defined]
    return found


_MODE = 0o644
"""node_exporter is somebody else; the agent's own umask must not keep it out."""


def write_textfile(path: str, body: bytes) -> str | None:
    """Why it could not be written, or None. It is written anew at every look: no disk is waited for."""
    where, name = os.path.split(path)
    try:
        with guarded_folder(where) as folder:
            write_whole_in(folder, name, [body], mode=_MODE, sync=False)
    except OSError as error:
        return reason_of(error)
    return None


_MOST_HISTORY_SECONDS, _USUAL_HISTORY_SECONDS = 86_400.0, 3_600.0


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
            self._exposition = Exposition(lambda: render_families(*self._state.judge()[:4]))
        return self._exposition

    def answer(self, request: Request) -> Response | Apart:
        if request.path == "/metrics":
            return Response(200, *self.exposition.render(request.headers.get("accept", "")))
        if request.path == "/healthz":
            # It looks and serves: what it lacks is no reason to restart it.
            lacks = [f"{probe}: {gap.reason}" for probe, gap in self._state.failing().items()]
            why = self._is_well()
            return plain(503, why) if why else plain(200, "\n".join(["ok", *lacks]))
        if request.path == "/api/v1/history":
            return self._history(request)
        if route := self._routes.get(request.path):
            return _json(route())
        return self._site.answer(request) or plain(404, "there is no such page")

    def _scan(self) -> dict[str, Any]:
        judged = self._state.judge()
        snapshot = judged.moment.snapshot
        return presenters.scan_json.render_scan(
            Observation(snapshot, judged.scan),
            judged.diagnosis,
            judged.growth,
            derive_reclaim_pass(judged.case.reclaim, snapshot.taken_at),
        )

    def _doctor(self) -> dict[str, Any]:
        judged = self._state.judge()
        return presenters.doctor_report.render_report(presenters.doctor_report.Report(judged.case, judged.diagnosis))

    def _ledger(self) -> dict[str, Any]:
        return presenters.history_json.render_ledger(
            self._state.moment(), self._state.accounts.list(), self._state.accounts.is_backlog_known
        )

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
        try:
            found = pipeline.recall.recall_briefly(
                self._state.host, os.fsencode(folder), seconds, self._state.thresholds
            )
        except ObservationError as error:
            return plain(503, f"{error.what}: {error.why}")
        return _json(
            presenters.history_json.render_history(
                found.snapshot, found.recall, found.happenings, found.moment, found.gaps
            )
        )

    def _show_config(self) -> dict[str, Any]:
        config = self._config()
        thresholds = config.thresholds._asdict()
        return {
            "schema": "zombiescope.config/1",
            "agent": {name: {"value": value, "origin": config.origins[name]} for name, value in config.values.items()},
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
