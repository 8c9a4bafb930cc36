# SPDX-License-Identifier: Apache-2.0
"""Newly brushed ranges of a capture in headless Chromium, each with 20,000 boxes that no other range has: what the main thread of
the page does from the brush until the flame graph is painted, and its longest piece, in which nothing else can happen. Asked: 33 ms.

The witness is a range without a sample, brushed in the same browser: what is left of it is the page's own and not the boxes'.
`python bench/bench_flame_page.py [BOXES]`.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright
from tests.browser.conftest import served

from zombiescope.cli.profiles.serving import OneCapture
from zombiescope.profiler.asking import Opened
from zombiescope.profiler.formats.gathering import Gathering
from zombiescope.profiler.stacks.capture import About, Capture
from zombiescope.web.site import Site

FRAME_MS = 33.0
RANGES, DEPTH, SECONDS = 10, 10, 2.0
_BRUSH = """async ([begin, end]) => {
  const { flame, heat } = window.zombiescope, shown = flame.data, pieces = [];
  let last = performance.now(), over = false;
  const channel = new MessageChannel();
  channel.port1.onmessage = () => {
    const now = performance.now();
    pieces.push(now - last);
    last = now;
    if (!over) channel.port2.postMessage(0);
  };
  const begun = performance.now();
  channel.port2.postMessage(0);
  heat.choose([begin, end]);
  while (flame.data === shown) await new Promise((done) => setTimeout(done, 0));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  flame.context.getImageData(0, 0, 1, 1);  // until it is painted, not only ordered
  over = true;
  return { whole: performance.now() - begun, longest: Math.max(...pieces), boxes: flame.data.boxes.frame.length };
}"""
_WORK = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration", "TaskDuration")


def wide_capture(boxes: int) -> Capture:
    """Ranges of two seconds, none of whose functions are in another; and at the end one without a sample."""
    gathering = Gathering(input_bytes=RANGES * boxes)
    stacks = boxes // DEPTH
    for part in range(RANGES):
        for stack in range(stacks):
            names = [f"part_{part}_function_{stack}_{depth}" for depth in range(DEPTH)]
            frames = [(name, "/bin/wide" if depth % 2 else "[kernel]") for depth, name in enumerate(names)]
            number = gathering.stack_number("wide", frames)
            for sample in range(1 + stack % 2):
                at = (part + (stack + sample / 2) / stacks) * SECONDS
                gathering.add(number, "wide", time=round(at * 1e9), cpu=sample, thread=(1, 1))
    number = gathering.stack_number("wide", [("end", "/bin/wide")])
    gathering.add(number, "wide", time=round((RANGES + 1) * SECONDS * 1e9), cpu=0, thread=(1, 1))
    return gathering.capture(About("wide", rate_hz=1000.0))


def work(devtools: CDPSession) -> dict[str, float]:
    found: dict[str, Any] = devtools.send("Performance.getMetrics")
    return {one["name"]: 1000 * float(one["value"]) for one in found["metrics"] if one["name"] in _WORK}


def brush(page: Page, devtools: CDPSession, begin: float) -> dict[str, float]:
    before = work(devtools)
    found: dict[str, float] = page.evaluate(_BRUSH, [begin, begin + SECONDS])
    page.wait_for_selector("#app[data-ready=true]")
    return {**found, **{name: value - before[name] for name, value in work(devtools).items()}}


def tell(what: str, ours: float) -> None:
    print(f"{what:<66} {ours:>8.1f} ms   asked {FRAME_MS:.0f}   ratio {ours / FRAME_MS:.2f}")


def report(name: str, found: list[dict[str, float]]) -> None:
    print(f"{name}: {min(one['boxes'] for one in found):,.0f} boxes, {len(found)} ranges")
    longest = sorted(one["longest"] for one in found)
    tell("  longest piece of the main thread, median", statistics.median(longest))
    tell("  longest piece of the main thread, worst", longest[-1])
    middle = {key: statistics.median(one[key] for one in found) for key in (*_WORK, "whole")}
    print(f"  all of the main thread {middle['TaskDuration']:.1f} ms, of it scripts {middle['ScriptDuration']:.1f}")
    print(f"  from the brush to the picture, with the server's answer: {middle['whole']:.0f} ms")


def main() -> None:
    boxes = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    opened = Opened("wide", wide_capture(boxes))
    empty = {"marks": [], "gaps": []}
    with (
        served(lambda selector: Site(OneCapture(opened, empty, selector))) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(180_000)
        devtools = page.context.new_cdp_session(page)
        devtools.send("Performance.enable")
        page.goto(address + "#/profiles?side=both")
        page.wait_for_selector("#app[data-ready=true]")
        found: list[dict[str, float]] = []
        witness: list[dict[str, float]] = []
        for part in range(RANGES):
            found.append(brush(page, devtools, part * SECONDS))
            witness.append(brush(page, devtools, RANGES * SECONDS + 0.01 + part / 100))
        report("a new range", found[1:])  # the first one compiles
        report("the witness, an empty range", witness[1:])
        browser.close()


if __name__ == "__main__":
    main()
