# SPDX-License-Identifier: Apache-2.0
"""A world in a real server: Prometheus, filled with `promtool tsdb create-blocks-from`, or VictoriaMetrics, by its import."""

from __future__ import annotations

import http.client
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fleets.worlds import World, history
from tests.server.running import ended, fetch, free_port, wait_for

from zombiescope.facts import metric_names as ours
from zombiescope.facts.fleet import FleetNode

_OF_THE_AGENT = ("kernel", "image")


def text_of(one: World, now: float, seconds: float, step: float, scale: int = 1) -> Iterator[str]:
    """Lines of the text format with times; what our agent exports, with the labels of a scrape. `scale`: units per second."""
    names = (ours.ZOMBIES.name, ours.LIVE.name, ours.COUNTED.name, ours.GROWTH.name, ours.NODE.name)
    for name in names:
        yield f"# TYPE {name} gauge"
        for node, points in history(one, now, seconds, step):
            labels = _labels(node, name)
            for at, zombies in points if name == ours.ZOMBIES.name else points[-2:]:
                stamp = f"{at:.0f}" if scale == 1 else f"{at * scale:.0f}"
                yield f"{name}{{{labels}}} {_value(node, name, zombies)} {stamp}"


def _labels(node: FleetNode, name: str) -> str:
    labels = {"instance": f"{node.name}:9478", "job": "zombiescope"}
    if name == ours.NODE.name:
        labels |= {"hierarchy": "v1", **{key: node.labels[key] for key in _OF_THE_AGENT}}
    else:
        labels |= {key: value for key, value in node.labels.items() if key not in _OF_THE_AGENT}
    return ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _value(node: FleetNode, name: str, zombies: float) -> float:
    live = node.live or 0
    return {
        ours.ZOMBIES.name: zombies,
        ours.LIVE.name: float(live),
        ours.COUNTED.name: zombies + live,
        ours.GROWTH.name: (node.growth_per_hour or 0.0) / 3600,
    }.get(name, 1.0)


@contextmanager
def prometheus_with(folder: Path, lines: Iterable[str]) -> Iterator[str]:
    text = folder / "world.om"
    with open(text, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.write("# EOF\n")
    data = folder / "data"
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(data)]
    subprocess.run(made, check=True, capture_output=True)
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n", encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    flags = [f"--config.file={config}", f"--storage.tsdb.path={data}", f"--web.listen-address={address}"]
    with open(folder / "prometheus.err", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(["prometheus", *flags], stderr=errors, text=True)
    with ended(process):
        assert wait_for(lambda: fetch(f"http://{address}/-/ready")), (folder / "prometheus.err").read_text()[-2000:]
        yield f"http://{address}"


@contextmanager
def victoria_with(folder: Path, lines: Iterable[str]) -> Iterator[str]:
    """`lines` with milliseconds."""
    address = f"127.0.0.1:{free_port()}"
    flags = [
        f"-storageDataPath={folder / 'victoria'}",
        f"-httpListenAddr={address}",
        "-retentionPeriod=12",
        "-search.latencyOffset=0s",
    ]
    with open(folder / "victoria.err", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(["victoria-metrics", *flags], stderr=errors, text=True)
    with ended(process):
        assert wait_for(lambda: fetch(f"http://{address}/health")), (folder / "victoria.err").read_text()[-2000:]
        connection = http.client.HTTPConnection(address)
        body = "".join(f"{line}\n" for line in lines if not line.startswith("#")).encode()
        connection.request("POST", "/api/v1/import/prometheus", body)
        assert connection.getresponse().status == 204
        connection.close()
        assert fetch(f"http://{address}/internal/force_flush")
        yield f"http://{address}"
