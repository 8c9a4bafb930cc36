# SPDX-License-Identifier: Apache-2.0
"""The fleet view in headless Chromium with 10,000 and 100,000 nodes: first view, then frames while it is panned, zoomed, hovered,
grouped and coloured. Asked: no frame over 33 ms. The peer is the plain way, a DOM element per node, in the same browser and run.

`python bench/bench_fleet_page.py [NODES ...]`.
"""

from __future__ import annotations

import shutil
import sys
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.conftest import served
from tests.fleets.paging import many_nodes
from tests.fleets.worlds import world

from zombiescope.web.fleet import DOCUMENTS
from zombiescope.web.site import Site

FRAME_MS = 33.0
STEPS = 120
_FRAMES = """async ([what, steps]) => {
  const above = document.querySelector(".above"), box = above.getBoundingClientRect(), took = [], work = [];
  const fire = (kind, x, y, more) => {
    const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, pointerId: 1, ...more };
    above.dispatchEvent(new (kind === "wheel" ? WheelEvent : PointerEvent)(kind, at));
  };
  const turn = (times, deltaY) => { while (times--) fire("wheel", 300, 160, { ctrlKey: true, deltaY }); };
  const acts = {
    zoom: (at) => fire("wheel", 300, 160, { ctrlKey: true, deltaY: at < steps / 2 ? -20 : 20 }),
    pan: (at) => fire("pointermove", 600 - Math.abs(at - steps / 2) * 8, 200 - (at % 40) * 3, {}),
    nothing: () => {},
    hover: (at) => fire("pointermove", (at * 37) % box.width, 24 + (at * 17) % (box.height - 24), {}),
  };
  above.setPointerCapture = () => {};
  if (what === "pan") { turn(20, -40); fire("pointerdown", 600, 200, { button: 0 }); }
  for (let at = 0; at < steps; at++) {
    await new Promise((done) => requestAnimationFrame(done));
    const begun = performance.now();
    let spent = 0;
    requestAnimationFrame(() => { spent -= performance.now(); }); // before what the act asks for, and after it
    acts[what](at);
    const acted = performance.now() - begun;
    await new Promise((done) => requestAnimationFrame(() => { spent += performance.now(); done(); }));
    await new Promise((done) => setTimeout(done, 0));
    took.push(performance.now() - begun);
    work.push(acted + spent);
  }
  if (what === "pan") { fire("pointerup", 600, 200, { button: 0 }); turn(30, 240); }
  return [took, work].map((list) => list.sort((a, b) => a - b));
}"""
_PLAIN = """async ([count, steps]) => {
  const box = document.body.appendChild(document.createElement("div"));
  Object.assign(box.style, { width: "1400px", lineHeight: "0" });
  const colours = ["#8c1512", "#9a5b00", "#6a7178"];
  for (let at = 0; at < count; at++) {
    const one = box.appendChild(document.createElement("i"));
    Object.assign(one.style, { display: "inline-block", width: "6px", height: "6px", margin: "0 1px 1px 0" });
    one.style.background = colours[at % 3];
  }
  const took = [];
  for (let at = 0; at < steps; at++) {
    const begun = performance.now();
    box.style.zoom = 1 + (at % 20) / 10;
    await new Promise((done) => requestAnimationFrame(done));
    await new Promise((done) => setTimeout(done, 0));
    took.push(performance.now() - begun);
  }
  box.remove();
  return took.sort((a, b) => a - b);
}"""
_STEPS = """async (addresses) => {
  const found = [0], note = (list) => { for (const one of list.getEntries()) found.push(one.duration); };
  new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
  for (const address of addresses) { location.hash = address; await new Promise((done) => setTimeout(done, 500)); }
  return Math.max(...found);
}"""
_CHOICES = [
    "#/fleet?by=zone",
    "#/fleet?by=rack",
    "#/fleet?by=-",
    "#/fleet?colour=zombies",
    "#/fleet?q=node-000",
    "#/fleet?sort=-zombies",
]


def tell(what: str, ours: float, target: float) -> None:
    print(f"{what:<62} {ours:>9,.1f} ms   asked {target:>6,.0f}   ratio {ours / target:.2f}")


def opened(browser: Browser, address: str) -> tuple[Page, float, float]:
    """The page, ms until it is whole, and of those the ms of its main thread."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(180_000)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    page.goto(address)
    page.wait_for_selector("#app[data-ready=true] .cells")
    found: dict[str, Any] = devtools.send("Performance.getMetrics")
    busy = 1000 * float(next(one["value"] for one in found["metrics"] if one["name"] == "TaskDuration"))
    whole = float(page.evaluate("() => performance.now()"))
    return page, whole, busy


def measure(browser: Browser, nodes: int) -> None:
    fleet = world(7, nodes, "pair").fleet()
    with served(lambda selector: Site(many_nodes(fleet, None, selector), DOCUMENTS)) as address:
        opened(browser, address)[0].context.close()  # the pull is not the browser's
        page, whole, busy = opened(browser, address)
        wire = page.evaluate(
            "() => performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
        )
        print(
            f"{nodes:,} nodes: first view whole after {whole:,.0f} ms, main thread {busy:,.0f} ms, "
            f"{wire / 1024:,.0f} KiB on the wire"
        )
        for what in ("nothing", "zoom", "pan", "hover"):
            took, work = page.evaluate(_FRAMES, [what, STEPS])
            title = (
                "  the witness: frames in which nothing happens" if what == "nothing" else f"{nodes:,} nodes, {what}"
            )
            tell(f"{title}: median of {STEPS}", took[STEPS // 2], FRAME_MS)
            tell(f"{title}: longest", took[-1], FRAME_MS)
            if what != "nothing":
                tell(f"{title}: our work in a frame, median", work[STEPS // 2], FRAME_MS)
                tell(f"{title}: our work in a frame, longest", work[-1], FRAME_MS)
        tell(f"{nodes:,} nodes, group, colour, filter, sort: longest task over 50", page.evaluate(_STEPS, _CHOICES), 50)
        plain = page.evaluate(_PLAIN, [nodes, 20])
        tell(f"  the peer: {nodes:,} DOM elements zoomed, median of 20", plain[10], FRAME_MS)
        page.context.close()


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for nodes in [int(word) for word in sys.argv[1:]] or [10_000, 100_000]:
            measure(browser, nodes)
        browser.close()


if __name__ == "__main__":
    main()
