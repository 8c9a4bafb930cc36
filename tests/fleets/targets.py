# SPDX-License-Identifier: Apache-2.0
"""Many agents to scrape, behind one port: what each exports, at a path of its own."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zombiescope.facts import metric_names as ours
from zombiescope.facts.fleet import FleetNode

_OF_THE_AGENT = ("kernel", "image", "hierarchy")


def exported(node: FleetNode) -> str:
    told = {"kernel": "", "hierarchy": "v1", "image": "", **node.labels}
    own = ",".join(f'{key}="{told[key]}"' for key in _OF_THE_AGENT)
    lines = [f"{ours.NODE.name}{{{own}}} 1", f'{ours.BUILD.name}{{version="1"}} 1']
    numbers = {
        ours.ZOMBIES.name: node.zombies,
        ours.LIVE.name: node.live,
        ours.COUNTED.name: node.counted,
        ours.GROWTH.name: None if node.growth_per_hour is None else node.growth_per_hour / 3600,
    }
    lines += [f"{name} {value:g}" for name, value in numbers.items() if value is not None]
    lines += [f'{ours.FINDING.name}{{id="{name}",severity="{how}"}} 1' for name, how in node.findings.items()]
    return "\n".join(lines) + "\n"


@contextmanager
def targets(nodes: Sequence[FleetNode]) -> Iterator[str]:
    """Scrape configurations of a server: every node an instance of its own name, with its other labels as the scrape adds them."""
    texts = {f"/{node.name}": exported(node).encode() for node in nodes}

    class Agent(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = texts.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # whoever asks may have given up
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Agent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        found = [
            {
                "targets": [address],
                "labels": {
                    "__metrics_path__": f"/{node.name}",
                    "instance": f"{node.name}:9478",
                    **{key: value for key, value in node.labels.items() if key not in _OF_THE_AGENT},
                },
            }
            for node in nodes
        ]
        yield json.dumps([{"job_name": "zombiescope", "static_configs": found}])
        server.shutdown()
