# SPDX-License-Identifier: Apache-2.0
"""What the page costs: bytes on the wire, how long a zoom takes, and an agent with one viewer beside one that nobody looks at.

Sizes and zooms are of a recording with 20,000 simulated zombies (65,000 for the table) and 30 days of history at ten seconds. The
agents watch this host, with so many real zombies as the second argument says. Targets: first view at most 250 KB, a zoom answered
in 100 ms, with a viewer at most 6 MB and 0.2 % of a core more. Needs root for the agents. One run prints all.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.bench_agent import TICKS, compile_modules
from tests.browser import worlds
from tests.kernel.zombie_maker import Maker
from tests.server.running import free_port

from zombiescope.agent.page import PACE as AGENT_PACE

DAY = 86_400.0
SPANS = (("30 days", 30 * DAY), ("7 days", 7 * DAY), ("1 day", DAY), ("1 hour", 3600.0), ("1 minute", 60.0))
REPEATS = 7
POLL_SECONDS = 5.0
START_SECONDS = 20.0
SHARE_OF_LOOKS = AGENT_PACE.share


def get(address: str, etag: str = "") -> tuple[int, bytes, str, int]:
    """Status, body, tag, and bytes on the wire without the head."""
    headers = {"Accept-Encoding": "gzip", **({"If-None-Match": etag} if etag else {})}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=120) as answer:
            body = answer.read()
            plain = gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body
            return answer.status, plain, answer.headers.get("ETag", ""), len(body)
    except urllib.error.HTTPError as error:
        return error.code, error.read(), "", 0


@contextmanager
def served(root: str) -> Iterator[str]:
    command = [sys.executable, "-m", "zombiescope", "serve", "--root", root, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().rstrip("/")
        try:
            while get(address + "/api/v1/zombies")[0] == 202:
                time.sleep(0.2)
            yield address
        finally:
            process.terminate()


def first_view(address: str) -> int:
    """The page, every file that it loads, and the documents of its first view."""
    _, page, _, total = get(address + "/")
    names = re.findall(rb'(?:href|src)="(/static/[^"]+)"', page)
    seen = {name.decode() for name in names}
    waiting = list(seen)
    while waiting:
        name = waiting.pop()
        _, text, _, size = get(address + name)
        total += size
        for found in re.findall(rb'from\s*"(\.[^"]+)"', text) if name.endswith(".js") else ():
            path = os.path.normpath(os.path.join(os.path.dirname(name), found.decode()))
            if path not in seen:
                seen.add(path)
                waiting.append(path)
    return total + sum(get(f"{address}/api/v1/{name}")[3] for name in ("page", "now"))


def sizes_and_zooms(folder: str) -> None:
    for zombies in (20_000, 65_000):
        root = worlds.big(
            os.path.join(folder, str(zombies)), zombies, days=30.0 if zombies == 20_000 else 0.2, coarse=10.0
        )
        with served(root) as address:
            if zombies == 20_000:
                print(f"first view     {first_view(address) / 1000:7.1f} KB on the wire (at most 250)")
                zooms(address)
            for name in ("zombies", "tree"):
                status, text, _, size = get(f"{address}/api/v1/{name}")
                assert status == 200
                print(f"{name:<10} {zombies:>7,} {size / 1000:7.1f} KB on the wire, {len(text) / 1000:9.1f} KB of JSON")


def zooms(address: str) -> None:
    for name, span in SPANS:
        took = []
        for number in range(REPEATS):
            end = worlds.NOW - number * span / 50
            begun = time.monotonic()
            status, text, _, _ = get(f"{address}/api/v1/range?from={end - span}&to={end}&points=600")
            took.append(1000 * (time.monotonic() - begun))
            assert (status, bool(json.loads(text)["series"])) == (200, True)
        print(f"zoom {name:<9} {statistics.median(took):7.0f} ms, the median of {REPEATS} (at most 100)")


class Agent:
    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.address = name, f"http://127.0.0.1:{free_port()}"
        state = folder / name
        worlds.history(str(state), 2_000, days=30.0, now=time.time(), coarse=60.0)
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "zombiescope", "agent", "--listen", self.address.removeprefix("http://")]
        self.process = subprocess.Popen([*command, "--state", str(state)], stderr=subprocess.DEVNULL, env=environment)

    def cpu(self) -> tuple[float, float]:
        """Its own seconds, and those of its children that ended."""
        fields = list(map(int, Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        return (fields[0] + fields[1]) / TICKS, (fields[2] + fields[3]) / TICKS

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class Viewer:
    """As the page asks: the pulse every five seconds, then what changed of the view that is open."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._tags: dict[str, str] = {}

    def poll(self, view: str) -> None:
        for name in ("page", "now", view):
            status, _, etag, _ = get(f"{self._address}/api/v1/{name}", self._tags.get(name, ""))
            if status == 200:
                self._tags[name] = etag


def agents(folder: Path, seconds: float, zombies: int) -> None:
    compile_modules(folder)
    with Maker(f"zombiescope-bench-{os.getpid()}") as maker:
        maker.many(zombies)
        both = [Agent(folder, "alone"), Agent(folder, "viewed")]
        try:
            time.sleep(START_SECONDS)
            viewer = Viewer(both[1].address)
            begun, before = time.monotonic(), [each.cpu() for each in both]
            while time.monotonic() - begun < seconds:
                viewer.poll("zombies" if time.monotonic() - begun > seconds / 2 else "tree")
                time.sleep(POLL_SECONDS)
            took = time.monotonic() - begun
            tell(both, before, took, zombies)
        finally:
            for each in both:
                each.end()


def tell(both: list[Agent], before: list[tuple[float, float]], took: float, zombies: int) -> None:
    rows: list[Any] = []
    for each, (own, children) in zip(both, before, strict=True):
        now = each.cpu()
        rows.append((each.megabytes(), 100 * (now[0] - own) / took, 100 * (now[1] - children) / took))
        print(
            f"agent {each.name:<8} peak {rows[-1][0]:5.1f} MB  itself {rows[-1][1]:.3f} %  children {rows[-1][2]:.3f} %"
        )
    more = [viewed - alone for alone, viewed in zip(*rows, strict=True)]
    looks = (more[2] / 100 * took) / SHARE_OF_LOOKS
    print(f"one viewer, {zombies:,} zombies, {took:.0f} s: {more[0]:+.1f} MB (at most 6)")
    print(
        f"               {more[1]:+.3f} % of a core by the agent itself, {more[2] / 100 * took:.2f} s by looks of its child"
    )
    print(f"               {more[1] + 100 * SHARE_OF_LOOKS:+.3f} % with looks as often as may be (at most 0.2):")
    print(f"               the next one may be taken after {looks:.0f} s")


def main(seconds: float, zombies: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        sizes_and_zooms(name)
        if os.geteuid() == 0 and seconds:
            agents(Path(name), seconds, zombies)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 120.0, int(sys.argv[2]) if len(sys.argv) > 2 else 20_000)
