# SPDX-License-Identifier: Apache-2.0
"""Newly brushed ranges of a capture in headless Chromium, each with 20,000 boxes that no other range has: what the main thread of
the page does from the brush until the flame graph is painted, and its longest piece, in which nothing else can happen; in its own
time on a core, as Chromium traces it. Asked: 33 ms.

The witness is a range without a sample, brushed in the same browser: what is left of it is the page's own and not the boxes'.
`python bench/bench_flame_page.py [BOXES]`.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys

from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.conftest import served

from zombiescope.cli.profiles.serving import OneCapture
from zombiescope.profiler.asking import Opened
from zombiescope.profiler.formats.gathering import Gathering
from zombiescope.profiler.stacks.capture import About, Capture
from zombiescope.web.site import Site

FRAME_MS = 33.0
RANGES, DEPTH, SECONDS = 10, 10, 2.0
_BRUSH = """async ([begin, end]) => {
  const { flame, heat } = window.zombiescope, begun = performance.now();
  const shown = new Promise((done) => { flame.show = (...given) => { delete flame.show; done(); return flame.show(...given); }; });
  performance.mark("brushed");
  await new Promise((done) => setTimeout(done, 0));
  heat.choose([begin, end]);
  await shown;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  flame.context.getImageData(0, 0, 1, 1);  // until it is painted, not only ordered
  performance.mark("painted");
  return { whole: performance.now() - begun, boxes: flame.data.boxes.frame.length };
}"""
_CATEGORIES = ["toplevel", "blink.user_timing", "disabled-by-default-devtools.timeline", "__metadata"]


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


def pieces(trace: bytes) -> list[float]:
    """What the main thread did from the brush to the picture, piece by piece: ms of its own time on a core, whoever else runs."""
    events = json.loads(trace)["traceEvents"]
    marks = {one["name"]: one for one in events if one["name"] in ("brushed", "painted") and one.get("ph") in "RIin"}
    begin, end = marks["brushed"]["ts"], marks["painted"]["ts"]
    own = (marks["brushed"]["pid"], marks["brushed"]["tid"])
    tasks = [one for one in events if one["name"] == "RunTask" and (one["pid"], one["tid"]) == own and "tdur" in one]
    return [one["tdur"] / 1000 for one in tasks if begin <= one["ts"] < end]


def brush(browser: Browser, page: Page, begin: float) -> dict[str, float]:
    browser.start_tracing(page=page, categories=_CATEGORIES)
    found: dict[str, float] = page.evaluate(_BRUSH, [begin, begin + SECONDS])
    page.wait_for_selector("#app[data-ready=true]")
    took = pieces(browser.stop_tracing())
    return {**found, "longest": max(took), "all": sum(took)}


def tell(what: str, ours: float) -> None:
    print(f"{what:<66} {ours:>8.1f} ms   asked {FRAME_MS:.0f}   ratio {ours / FRAME_MS:.2f}")


def report(name: str, found: list[dict[str, float]]) -> None:
    print(f"{name}: {min(one['boxes'] for one in found):,.0f} boxes, {len(found)} ranges")
    for key, what in (("longest", "longest piece of the main thread"), ("all", "all that the main thread does")):
        took = sorted(one[key] for one in found)
        tell(f"  {what}, median", statistics.median(took))
        tell(f"  {what}, worst", took[-1])
    print(
        f"  from the brush to the picture, with the server's answer: {statistics.median(one['whole'] for one in found):.0f} ms"
    )


def main() -> None:
    boxes = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    opened = Opened("wide", wide_capture(boxes))
    empty: dict[str, object] = {"marks": [], "gaps": []}
    with (
        served(lambda selector: Site(OneCapture(opened, empty, selector))) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(180_000)
        page.goto(address + "#/profiles?side=both")
        page.wait_for_selector("#app[data-ready=true]")
        found: list[dict[str, float]] = []
        witness: list[dict[str, float]] = []
        for part in range(RANGES):
            found.append(brush(browser, page, part * SECONDS))
            witness.append(brush(browser, page, RANGES * SECONDS + 0.01 + part / 100))
        report("a new range", found[1:])  # the first one compiles
        report("the witness, an empty range", witness[1:])
        browser.close()


if __name__ == "__main__":
    main()
