# SPDX-License-Identifier: Apache-2.0
"""Exports given to those they are for: consumers.py CAPTURE PPROF SPEEDSCOPE.

PPROF is Go's pprof program, SPEEDSCOPE the folder `dist/release` of the npm package: neither is needed by anything else here.
What each counted is compared with what was given. speedscope runs in Chromium and reads all that it can: its own format, pprof
and collapsed stacks. No program that draws OTLP's profiles is to be had as a package: the messages that OpenTelemetry generates
from its own definition (PyPI's opentelemetry-proto) read it, and every stack, core and time is compared.
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
from collections import Counter
from pathlib import Path

import numpy as np
from opentelemetry.proto.profiles.v1development import profiles_pb2
from playwright.sync_api import Dialog, Page, sync_playwright

from zombiescope.profiler.asking import Opened, open_capture, write_elsewhere
from zombiescope.profiler.stacks.capture import Selection, row_numbers
from zombiescope.profiler.stacks.flame_graph import paths

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


def by_opentelemetry(raw: bytes) -> Counter[tuple[tuple[str, ...], int, int]]:
    """Samples by stack, core and time."""
    data = profiles_pb2.ProfilesData.FromString(raw)
    tables = data.dictionary
    words, found = tables.string_table, Counter[tuple[tuple[str, ...], int, int]]()
    for sample in data.resource_profiles[0].scope_profiles[0].profiles[0].samples:
        places = [tables.location_table[place] for place in tables.stack_table[sample.stack_index].location_indices]
        functions = [tables.function_table[place.lines[0].function_index] for place in reversed(places)]
        names = tuple(words[function.name_strindex] for function in functions)
        core = tables.attribute_table[sample.attribute_indices[0]].value.int_value
        found.update((names, core, time) for time in sample.timestamps_unix_nano)
    return found


def given_each(opened: Opened, selection: Selection) -> Counter[tuple[tuple[str, ...], int, int]]:
    capture = opened.capture
    rows = row_numbers(capture, selection)
    clock = capture.about.clock
    shift = 0 if clock is None else clock.wall_ns - clock.sample_ns
    stacks = paths(capture, capture.node[rows].astype(np.int64))
    names = [tuple(capture.frame_names[frame] for frame in stack) for stack in stacks]
    times = [int(time) + shift for time in capture.time[rows].tolist()]
    return Counter(zip(names, capture.cpu[rows].tolist(), times, strict=True))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is given)
        del format, args


def given(opened: Opened, selection: Selection) -> int:
    return len(row_numbers(opened.capture, selection))


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
        theirs = by_opentelemetry(b"".join(write_elsewhere(opened, selection, "otlp")))
        same = theirs == given_each(opened, selection)
        print(f"OpenTelemetry's messages read {theirs.total():,} samples; stack, core and time as given: {same}")
        ask_speedscope(folder, Path(sys.argv[3]))
    return 0 if samples == ours and same else 1


if __name__ == "__main__":
    sys.exit(main())
