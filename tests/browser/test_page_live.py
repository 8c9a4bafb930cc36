# SPDX-License-Identifier: Apache-2.0
"""The page over what is real: an agent beside zombies of five kinds, killed and back; a recording; the incident."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.browser.conftest import BROKEN_LINE, heading, no_barrier, ready, until, visit, watched
from tests.browser.worlds import NOW, big, store_capture
from tests.server.running import PATIENCE_SECONDS, PROGRAM, ended, fetch, free_port, running_agent, wait_for

KINDS = {"tmpfs": "tmpfs", "page-cache": "page_cache", "memfd": "memfd", "socket": "socket", "sysv-shm": "sysv_shm"}
EACH = 4
VIEWS = ("now", "zombies", "time", "cores", "profiles", "services", "remedies")
RECORDING = Path(__file__).resolve().parents[1] / "scenarios" / "recorded" / "loop-leaks.tar.gz"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and "browser" not in os.environ.get("ZOMBIESCOPE_REQUIRE", ""), reason="needs root"
)


@pytest.fixture(scope="module")
def zombies() -> Iterator[dict[int, str]]:
    """Ids of real zombies and what pins each."""
    made: dict[int, str] = {}
    names = [f"page-{os.getpid()}-{kind}" for kind in KINDS]
    try:
        for (kind, pin), name in zip(KINDS.items(), names, strict=True):
            command = [*PROGRAM, "lab", "zombies", "--count", str(EACH), "--pin", kind, "--name", name, "--json"]
            answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
            made |= {one["id"]: pin for one in json.loads(answer.stdout)["made"]}
        yield made
    finally:
        for name in names:
            subprocess.run(
                [*PROGRAM, "lab", "clean", "--name", name], capture_output=True, check=False, timeout=PATIENCE_SECONDS
            )


@pytest.fixture(scope="module")
def agent(zombies: dict[int, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert len(zombies) == EACH * len(KINDS)
    folder = tmp_path_factory.mktemp("agent")
    capture(folder / "state" / "captures")
    with running_agent(folder, state=folder / "state") as (address, _):
        yield address + "/"


def capture(captures: Path) -> None:
    """Of this machine, while somebody reads files of the kernel."""
    captures.mkdir(parents=True)
    command = [*PROGRAM, "profile", "record", "--seconds", "3", "--segment", "3", "--with", "own"]
    with subprocess.Popen([*command, "--captures", str(captures)], stdout=subprocess.DEVNULL) as recording:
        while recording.poll() is None:
            Path("/proc/self/smaps").read_bytes()
    assert list(captures.glob("*.zscap"))


def by_keys_to_the_flame_graph(page: Page, address: str) -> None:
    """From the verdict: the links of the chain, f, then down the stacks and into one; never a pointer."""
    visit(page, address)
    assert heading(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("f")
    until(page, "location.hash.startsWith('#/profiles') && !location.hash.includes('moment=')")
    ready(page)
    until(page, "document.activeElement.id === 'flame'")
    assert page.input_value("#side") == "kernel", "it opens on the kernel's time"
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    until(page, r"/: [0-9,]+ samples?, /.test(document.getElementById('detail').textContent)")
    assert not page.inner_text("#detail").startswith("all:")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('zoom=')")


def every_view(page: Page, address: str) -> dict[str, str]:
    """What each view answers."""
    visit(page, address)
    found = {}
    for place, view in enumerate(VIEWS, 1):
        page.keyboard.press(str(place))
        until(page, f"location.hash === '#/{view}'")
        ready(page)
        found[view] = heading(page)
        assert page.locator(".panelerror").count() == 0, f"{view}: {page.inner_text('main')}"
    return found


@needs_root
def test_every_view_of_an_agent_beside_real_zombies_of_five_kinds(
    page: Page, agent: str, zombies: dict[int, str]
) -> None:
    every_view(page, agent)
    visit(page, agent, f"#/zombies?q=page-{os.getpid()}-")
    until(page, f"document.querySelectorAll('[data-zombie]').length === {len(zombies)}")
    seen = page.eval_on_selector_all("[data-zombie]", "all => all.map(one => Number(one.dataset.zombie))")
    assert set(seen) == set(zombies)
    pins = page.eval_on_selector_all(
        "[data-zombie] td:has(i.key)", "all => [...new Set(all.map(one => one.textContent))]"
    )
    assert len(pins) >= len(KINDS), pins
    one = next(iter(zombies))
    page.evaluate(f"() => {{ location.hash = '#/zombies?z={one}'; }}")
    page.wait_for_selector(".drawer .cmd code")
    assert page.inner_text(".drawer .cmd code") == f"sudo zombiescope plan --zombie {one}"
    no_barrier(page)


@needs_root
def test_by_keyboard_from_the_verdict_of_a_live_agent_to_a_flame_graph(page: Page, agent: str) -> None:
    by_keys_to_the_flame_graph(page, agent)
    assert "core" in page.inner_text("#facts")


@needs_root
def test_an_agent_that_is_killed_is_said_and_back_again_it_is_live(
    browser: Browser, tmp_path: Path, zombies: dict[int, str]
) -> None:
    port, config = free_port(), tmp_path / "agent.toml"
    config.write_text("[agent]\ninterval_seconds = 1\n", encoding="utf-8")
    command = [
        *PROGRAM,
        "agent",
        "--listen",
        f"127.0.0.1:{port}",
        "--state",
        str(tmp_path / "state"),
        "--config",
        str(config),
    ]
    with watched(browser) as found:
        found.forgives = BROKEN_LINE
        page = found.context.new_page()
        with ended(subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)) as first:
            assert wait_for(lambda: fetch(f"http://127.0.0.1:{port}/healthz")[1])
            visit(page, f"http://127.0.0.1:{port}/")
            shown = page.inner_text("[data-number=zombies] .big")
            assert page.inner_text(".live").startswith("live · ")
            first.kill()
            first.wait()
            page.wait_for_selector(".banner [role=alert]")
        assert page.inner_text(".banner").startswith("The agent does not answer.")
        assert page.inner_text("[data-number=zombies] .big") == shown, "what was known stays, and is no zero"
        assert page.inner_text(".live").startswith("lost · last ")
        no_barrier(page)
        with ended(subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)):
            until(page, "document.documentElement.dataset.live === 'live'")
            until(page, "document.querySelector('.banner') === null")


def serving(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    with open(folder / "served.err", "w", encoding="utf-8") as errors:
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True)


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_every_view_of_a_recording(page: Page, tmp_path: Path) -> None:
    with ended(serving(tmp_path, *PROGRAM, "serve", "--root", str(RECORDING), "--listen", "127.0.0.1:0")) as process:
        told = every_view(page, address_of(process))
    assert told["now"].startswith("loop.service restarts every 0.75 s and has left 421 dead memory cgroups")
    assert told["zombies"].startswith(
        "437 zombies, 99.31 % of them made by unit:loop.service; 99.77 % held by page cache"
    )
    assert told["time"] == "Nothing is remembered here."
    assert told["remedies"].endswith("What was done here is not known."), "a recording does not keep it"
    assert page.get_attribute("html", "data-live") == "recording"


def open_the_capture(page: Page) -> None:
    """Of the moment on the time axis, by keys."""
    page.keyboard.press("3")
    until(page, "[...document.querySelectorAll('.lane')].some((one) => one.textContent.startsWith('Captures'))")
    page.keyboard.press("o")
    until(page, "location.hash === '#/profiles?name=saturated'")
    until(page, "document.getElementById('range')?.textContent.includes('samples')")
    until(page, "document.querySelector('#moments button') !== null")
    ready(page)


def test_a_recording_is_shown_with_the_history_and_the_captures_that_it_carries(page: Page, tmp_path: Path) -> None:
    case, file = tmp_path / "case", tmp_path / "node.tar.gz"
    big(str(case), 200, days=1.0)
    store_capture(str(case / "captures"), NOW - 30 * 60)
    record = [*PROGRAM, "record", "--root", str(case), "--seconds", "1", str(file)]
    said = subprocess.run(record, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS).stdout
    assert "captures: 1" in said
    shutil.rmtree(case)
    with ended(serving(tmp_path, *PROGRAM, "serve", "--root", str(file), "--listen", "127.0.0.1:0")) as process:
        address = address_of(process)
        told = every_view(page, address)
        assert told["time"].startswith("Grew from 8 to 200 zombies; 48 network resets")
        assert told["cores"].startswith("Core 1 was saturated 48 times")
        assert told["profiles"].startswith("Core 1 was held by vfs_read")
        open_the_capture(page)
        no_barrier(page)
        page.goto("about:blank")  # what it knew is asked again behind the scenes: nobody is left to answer


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("incident")
    command = [sys.executable, "-m", "tests.browser.worlds", "incident", str(folder / "state")]
    with ended(serving(folder, *command)) as process:
        yield address_of(process)


def test_by_keyboard_from_the_verdict_of_the_incident_to_the_saturated_second(page: Page, incident: str) -> None:
    by_keys_to_the_flame_graph(page, incident)
    assert "from=1&to=2" in page.url
    assert page.inner_text("#range") == "1 s to 2 s: 100 samples"
    assert heading(page).startswith("Core 1 was held by vfs_read")
    open_the_capture(page)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_of_the_replayed_incident(browser: Browser, incident: str, theme: str) -> None:
    with watched(browser, color_scheme=theme) as found:
        page = found.context.new_page()
        told = every_view(page, incident)
        assert told["now"].startswith(
            "unused-agent.service restarts every 10 s and has left 18,008 dead memory cgroups"
        )
        assert told["zombies"].startswith("20,008 zombies, 90 % of them made by unit:unused-agent.service")
        assert told["time"].startswith("Grew from 8 to 20,008 zombies; 48 network resets; 1 stretch not observed")
        assert told["cores"].startswith("Core 1 was saturated 48 times")
        page.keyboard.press("1")
        ready(page)
        assert page.locator(".chain button").count() >= 5
        assert "_" not in page.inner_text("#evidence td:first-child"), "facts are said in words"
        for view in ("now", "time", "zombies"):
            page.evaluate(f"() => {{ location.hash = '#/{view}'; }}")
            ready(page)
            no_barrier(page)
