# SPDX-License-Identifier: Apache-2.0
"""Metric families in the text formats of Prometheus, by its own client library: classic, or OpenMetrics when asked for; on
demand, or as a text file for node_exporter's collector, written beside and renamed, so that nobody reads half of it.

No process, platform or interpreter collectors: a registry of our own. The file is written by descriptor, in a folder that no
stranger can swap: whatever link lies there, nothing outside of that folder is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from zombiescope.errors import UsageError
from zombiescope.facts.metric_names import MetricKind
from zombiescope.host.own_folder import guarded_folder
from zombiescope.host.whole_file import write_whole_in
from zombiescope.presenters.metrics import Family

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


def known_format(accept: str) -> str:
    """The first format in a header Accept that is ours, in our words: the library repeats in its answer what it was given."""
    for wanted in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in wanted.split(";"))
        version = next((each.removeprefix("version=") for each in parameters if each.startswith("version=")), "")
        if (kind, version) in (("application/openmetrics-text", ""), ("application/openmetrics-text", "1.0.0")):
            return "application/openmetrics-text; version=1.0.0"
        if (kind, version) == ("text/plain", "1.0.0"):
            return "text/plain; version=1.0.0"
    return ""


def client_metric(family: Family) -> ClientMetric:
    from prometheus_client import metrics_core  # noqa: PLC0415

    metric = family.metric
    if family.histograms:
        return _histogram(family)
    if metric.kind is MetricKind.COUNTER:
        found: ClientMetric = metrics_core.CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    else:
        found = metrics_core.GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in family.samples:
        found.add_metric(labels, value)  # type: ignore[attr-defined]
    return found


def _histogram(family: Family) -> ClientMetric:
    from prometheus_client import metrics_core  # noqa: PLC0415

    metric = family.metric
    found = metrics_core.HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for each in family.histograms:
        buckets = [(str(bound), count) for bound, count in zip(each.bounds, each.at_most, strict=True)]
        found.add_metric(each.labels, [*buckets, ("+Inf", float(each.all))], each.seconds)
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
        return (error.strerror or str(error)).lower()
    return None
