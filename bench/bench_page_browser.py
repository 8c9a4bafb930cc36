# SPDX-License-Identifier: Apache-2.0
"""The page in headless Chromium, against what was asked of it: first view, 65,000 rows scrolled, sorted and filtered, the tree and
the time axis zoomed. The witness of the frames is the same scrolling over an empty list in the same browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from tests.browser.conftest import served
from tests.browser.written import Written
from tests.server.running import ended

FIRST_MS, WIRE_BYTES, FRAME_MS, ZOOM_MS = 300.0, 250_000, 33.0, 100.0
ROWS = 65_000
_FRAMES = """async ([selector, steps, pixels]) => {
  const box = document.querySelector(selector), took = [];
  for (let step = 0; step < steps; step++) {
    const begun = performance.now();
    box.scrollTop = step * pixels;
    box.dispatchEvent(new Event("scroll"));
    await new Promise((done) => requestAnimationFrame(done));
    await new Promise((done) => setTimeout(done, 0));
    took.push(performance.now() - begun);
  }
  return took.sort((a, b) => a - b);
}"""
_EMPTY = """() => {
  const box = document.body.appendChild(document.createElement("div")), inner = box.appendChild(document.createElement("div"));
  box.id = "empty";
  Object.assign(box.style, { height: "400px", overflow: "auto" });
  inner.style.height = "1820000px";
}"""


@contextmanager
def incident() -> Iterator[str]:
    """20,008 zombies and 30 days of history, served as a command of ours serves them."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.browser.worlds", "incident", folder]
        with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
            assert process.stdout is not None
            yield process.stdout.readline().strip()


def opened(browser: Browser) -> tuple[Page, CDPSession]:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(180_000)
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    return page, devtools


def busy_ms(devtools: CDPSession) -> float:
    found: dict[str, Any] = devtools.send("Performance.getMetrics")
    return 1000.0 * float(next(one["value"] for one in found["metrics"] if one["name"] == "TaskDuration"))


def tell(what: str, ours: float, target: float, unit: str) -> None:
    print(f"{what:<58} {ours:>10,.1f} {unit:<5} asked {target:>9,.0f}  ratio {ours / target:.2f}")


def first_view(browser: Browser, address: str) -> None:
    best, wire = [], 0.0
    for _ in range(5):
        page, devtools = opened(browser)
        before = busy_ms(devtools)
        page.goto(address)
        page.wait_for_selector("#app[data-ready=true]")
        best.append(busy_ms(devtools) - before)
        wire = page.evaluate(
            "() => [...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]"
            ".reduce((sum, one) => sum + one.transferSize, 0)"
        )
        page.context.close()
    tell("first view, main thread, best of 5", min(best), FIRST_MS, "ms")
    tell("first view on the wire", wire, WIRE_BYTES, "bytes")


def rows(browser: Browser) -> None:
    with served(Written(ROWS)) as address:
        page, _ = opened(browser)
        page.goto(address + "#/zombies")
        page.wait_for_selector("[data-zombie]")
        took = page.evaluate(_FRAMES, [".scroller", 300, 977])
        page.evaluate(_EMPTY)
        empty = page.evaluate(_FRAMES, ["#empty", 300, 977])
        tell(f"{ROWS:,} rows scrolled, median frame", took[150], FRAME_MS, "ms")
        tell(f"{ROWS:,} rows scrolled, longest of 300 frames", took[-1], FRAME_MS, "ms")
        tell("  the witness: an empty list, median", empty[150], FRAME_MS, "ms")
        tell("  the witness: an empty list, longest", empty[-1], FRAME_MS, "ms")
        alive = page.locator(".scroller tbody tr").count()
        longest = page.evaluate(
            """async () => {
              const found = [0];
              const note = (list) => { for (const one of list.getEntries()) found.push(one.duration); };
              new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
              for (const hash of ["sort=-file", "sort=maker", "q=0012", "q=unused", "size=bytes&node=/kubepods", "group=file"]) {
                location.hash = `#/zombies?${hash}`;
                await new Promise((done) => setTimeout(done, 400));
              }
              return Math.max(...found);
            }"""
        )
        tell("sort, filter, group, zoom the tree: longest task over 50 ms", longest, FRAME_MS, "ms")
        print(f"rows alive of {ROWS:,}: {alive}")
        page.context.close()


def zoom(browser: Browser, address: str) -> None:
    page, _ = opened(browser)
    page.goto(address + "#/time")
    page.wait_for_selector("#app[data-ready=true]")
    took = page.evaluate(
        """async () => {
          const took = [];
          for (const [from, to] of [[-30, 0], [-7, 0], [-2, 0], [-1, -0.5], [-0.7, -0.65], [-0.66, -0.655]]) {
            const end = 1699999990, path = `/api/v1/range?from=${end + from * 86400}&to=${end + to * 86400}&points=600`;
            const begun = performance.now();
            await (await fetch(path, { cache: "no-store" })).json();
            took.push(performance.now() - begun);
          }
          return took.sort((a, b) => a - b);
        }"""
    )
    tell("a window of the time axis answered, median of 6", took[3], ZOOM_MS, "ms")
    tell("  the slowest (30 days)", took[-1], ZOOM_MS, "ms")
    page.context.close()


def main() -> None:
    with sync_playwright() as playwright, incident() as address:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        first_view(browser, address)
        rows(browser)
        zoom(browser, address)
        browser.close()


if __name__ == "__main__":
    main()
