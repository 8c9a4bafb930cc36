# SPDX-License-Identifier: Apache-2.0
"""The pictures of the page for the docs (`make gallery`): real lab zombies beside an agent, and the replayed incident.

Needs root, Chromium and the packages of requirements-dev.txt; pngquant, where it is installed, makes the files small. Look at
every picture afterwards: a command can take one, but cannot tell whether it is good.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from tests.server.running import PROGRAM, ended, running_agent

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "page"
KINDS = ("tmpfs", "page-cache", "memfd", "socket", "sysv-shm")
RUN = f"gallery-{os.getpid()}"
DESK, PHONE = ViewportSize(width=1440, height=900), ViewportSize(width=390, height=844)
INCIDENT_END = 1_700_000_000
_A = f"a={INCIDENT_END - 10_800}..{INCIDENT_END - 10}&b={INCIDENT_END - 84_600}..{INCIDENT_END - 75_600}"


class Picture(NamedTuple):
    """`keys` are pressed once the view is there; `waits_for` is a condition of the page."""

    name: str
    world: str
    address: str
    theme: str = "light"
    size: ViewportSize = DESK
    keys: tuple[str, ...] = ()
    waits_for: str = "true"


PICTURES = (
    Picture("now-light", "incident", "#/now?link=saturated-core"),
    Picture("now-dark", "incident", "#/now?link=saturated-core", "dark"),
    Picture("zombies-dark", "incident", "#/zombies?size=bytes&open=unit:unused-agent.service&z=6245670", "dark"),
    Picture("time-light", "incident", f"#/time?{_A}", waits_for="document.querySelector('aside table') !== null"),
    Picture(
        "time-dark", "incident", f"#/time?{_A}", "dark", waits_for="document.querySelector('aside table') !== null"
    ),
    Picture("cores-light", "incident", "#/cores"),
    Picture("remedies-light", "incident", "#/remedies"),
    Picture("now-phone", "incident", "#/now", size=PHONE),
    Picture("story-phone", "incident", "#/zombies?z=6245670", size=PHONE),
    Picture(
        "lab-zombies-light",
        "lab",
        f"#/zombies?group=pin&node=/zombiescope-lab&q={RUN}",
        waits_for="document.querySelector('[data-zombie]') !== null",
    ),
    Picture(
        "lab-profile-light",
        "lab",
        "#/profiles?comm=python",
        waits_for="document.getElementById('range')?.textContent",
    ),
    Picture("lab-services-dark", "lab", "#/services", "dark"),
)


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """An agent beside zombies of five kinds, with a capture of a core that reads every statistics file."""
    try:
        for kind in KINDS:
            command = [*PROGRAM, "lab", "zombies", "--count", "60", "--pin", kind, "--name", f"{RUN}-{kind}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        capture(folder / "state" / "captures")
        with running_agent(folder, state=folder / "state") as (address, _):
            yield address + "/"
    finally:
        for kind in KINDS:
            subprocess.run(
                [*PROGRAM, "lab", "clean", "--name", f"{RUN}-{kind}"], check=False, stdout=subprocess.DEVNULL
            )


def capture(captures: Path) -> None:
    captures.mkdir(parents=True)
    command = [
        *PROGRAM,
        "profile",
        "record",
        "--seconds",
        "8",
        "--segment",
        "8",
        "--with",
        "own",
        "--captures",
        str(captures),
    ]
    recording = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 6
    time.sleep(2.5)  # calm first: the moment stands out against it
    reading = os.fork()
    if reading == 0:  # on a core of its own, before all others: a machine at work shows the same picture
        os.sched_setaffinity(0, {0})
        os.nice(-20)
        while time.monotonic() < end:
            for path in Path("/sys/fs/cgroup").rglob("memory.stat"):
                path.read_bytes()
        os._exit(0)
    os.waitpid(reading, 0)
    recording.wait()


@contextmanager
def incident(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.browser.worlds", "incident", str(folder)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def take(browser: Browser, picture: Picture, address: str) -> Path:
    context = browser.new_context(viewport=picture.size, color_scheme="dark" if picture.theme == "dark" else "light")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(address + picture.address)
    settled(page)
    for key in picture.keys:
        page.keyboard.press(key)
    page.wait_for_function(f"() => {picture.waits_for}")
    settled(page)
    path = FOLDER / f"{picture.name}.png"
    page.screenshot(path=str(path))
    context.close()
    return path


def settled(page: Page) -> None:
    page.wait_for_selector("#app[data-ready=true]")


def shrink(path: Path) -> None:
    if shutil.which("pngquant"):
        command = [
            "pngquant",
            "--force",
            "--strip",
            "--quality",
            "80-100",
            "--speed",
            "1",
            "--output",
            str(path),
            str(path),
        ]
        subprocess.run(command, check=True)


def main(only: list[str]) -> None:
    if os.geteuid() != 0:
        sys.exit("make gallery: needs root, to make real zombies (sudo make gallery)")
    chosen = [picture for picture in PICTURES if not only or picture.name in only]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack, sync_playwright() as playwright:
        opened = {"lab": lab, "incident": incident}
        worlds = {}
        for name in dict.fromkeys(picture.world for picture in chosen):
            place = Path(folder) / name
            place.mkdir()
            worlds[name] = stack.enter_context(opened[name](place))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for picture in chosen:
            path = take(browser, picture, worlds[picture.world])
            shrink(path)
            print(f"{path.relative_to(FOLDER.parents[2])}: {path.stat().st_size:,} bytes")
        browser.close()
    print("now look at every one of them")


if __name__ == "__main__":
    main(sys.argv[1:])
