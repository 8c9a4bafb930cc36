# SPDX-License-Identifier: Apache-2.0
"""Exports given to those they are for: consumers.py CAPTURE PPROF SPEEDSCOPE.

PPROF is Go's pprof program, SPEEDSCOPE the folder `dist/release` of the npm package: neither is needed by anything else here.
What each counted is compared with what was given. speedscope runs in Chromium and reads all that it can: its own format, pprof
and collapsed stacks.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Dialog, Page, sync_playwright

from zombiescope.pipeline.profile import Opened, open_capture, write_elsewhere
from zombiescope.profiling.selection import Selection, nodes_of

FORMS = {"speedscope": "out.speedscope.json", "pprof": "out.pb.gz", "collapsed": "out.folded"}
WAIT_MS = 120_000


def by_pprof(program: str, file: Path) -> tuple[int, int]:
    """Samples and stacks, as `pprof -raw` lists them."""
    raw = subprocess.run([program, "-raw", str(file)], check=True, capture_output=True, text=True).stdout
    listed = raw.partition("Samples:\n")[2].partition("Locations\n")[0]
    counts = [int(match[1]) for match in re.finditer(r"^\s+(\d+)\s+(?:\d+)?:", listed, re.MULTILINE)]
    return sum(counts), len(counts)


def by_speedscope(page: Page, address: str, file: str, picture: Path) -> str:
    """What stands in its title once it has drawn; it says what it could not read."""
    troubles: list[str] = []

    def dismissed(dialog: Dialog) -> None:
        troubles.append(dialog.message)
        dialog.dismiss()

    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", dismissed)
    page.goto("about:blank")
    page.goto(f"{address}/index.html#profileURL={address}/{file}")
    page.wait_for_function(
        "document.title !== 'speedscope' && document.querySelector('canvas') !== null", timeout=WAIT_MS
    )
    page.wait_for_timeout(1500)
    page.screenshot(path=str(picture))
    assert not troubles, troubles
    return page.title()


def ask_speedscope(folder: Path, release: Path) -> None:
    shutil.copytree(release, folder, dirs_exist_ok=True)
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for form, file in FORMS.items():
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            title = by_speedscope(page, address, file, Path(tempfile.gettempdir()) / f"speedscope-{form}.png")
            print(f"speedscope, {form:<11} drawn: {title!r}")
            page.close()
        browser.close()
    server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is given)
        del format, args


def given(opened: Opened, selection: Selection) -> int:
    return len(nodes_of(opened.capture, selection))


def main() -> int:
    opened = open_capture(b"", os.path.abspath(sys.argv[1]))
    selection = Selection(0.0, 2.0)
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as temporary:
        folder = Path(temporary)
        for form, file in FORMS.items():
            with (folder / file).open("wb") as out:
                out.writelines(write_elsewhere(opened, selection, form))
        samples, stacks = by_pprof(sys.argv[2], folder / FORMS["pprof"])
        ours = given(opened, selection)
        print(f"pprof                   counted {samples:,} samples in {stacks:,} stacks; given {ours:,}")
        ask_speedscope(folder, Path(sys.argv[3]))
    return 0 if samples == ours else 1


if __name__ == "__main__":
    sys.exit(main())
