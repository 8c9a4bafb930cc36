# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that notes every error and every address from outside, and the page in a thread of this process."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from selectors import BaseSelector
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from zombiescope.web.site import PageLooks, PageServer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = "browser" in os.environ.get("ZOMBIESCOPE_REQUIRE", "").split(",")
PATIENCE_MS = int(os.environ.get("ZOMBIESCOPE_PATIENCE_MS", "180000"))
BROKEN_LINE = "Failed to load resource: "
"""What Chromium itself says of a server that is away."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        (pytest.fail if REQUIRED else pytest.skip)("Chromium is not installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A context whose pages may say nothing wrong and ask nobody else."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.problems: list[str] = []
        self.strangers: list[str] = []
        self.forgives = "\0"
        context.set_default_timeout(PATIENCE_MS)
        context.on("page", self._follow)

    def _follow(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"a name ran as code: {dialog.message}"))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self.strangers.append(request.url) if _is_strange(request.url) else None)


def _is_strange(address: str) -> bool:
    return not address.startswith(("http://127.0.0.1:", "blob:http://127.0.0.1:", "file://"))


@contextmanager
def watched(browser: Browser, **options: Any) -> Iterator[Watched]:
    settings: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, **options}
    context = browser.new_context(**settings)
    found = Watched(context)
    yield found
    context.close()
    assert [text for text in found.problems if not text.startswith(found.forgives)] == []
    assert found.strangers == []


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with watched(browser) as found:
        yield found.context.new_page()


@contextmanager
def served(pages: PageLooks | Callable[[BaseSelector], PageLooks]) -> Iterator[str]:
    """What is given, or what it opens once it is given the server's loop."""
    server = PageServer(("127.0.0.1", 0), pages if callable(pages) else lambda _: pages)
    ending = threading.Event()

    def serve() -> None:
        while not ending.is_set():
            server.turn()
        server.close()

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    yield server.address
    ending.set()
    serving.join(10)


def visit(page: Page, address: str, view: str = "") -> None:
    """The view, once it is loaded."""
    page.goto(address + view)
    ready(page)


def ready(page: Page) -> None:
    page.wait_for_selector("#app[data-ready=true]", timeout=PATIENCE_MS)


def heading(page: Page) -> str:
    return page.inner_text("h1")


def until(page: Page, condition: str) -> None:
    """A condition of the page in JavaScript."""
    page.wait_for_function(f"() => {condition}", timeout=PATIENCE_MS)


def find(page: Page, words: str) -> None:
    """Types into the finder, as soon as it listens, and waits until it lists what matches instead of every view."""
    page.keyboard.press("/")
    page.wait_for_selector("dialog[open] input:focus", timeout=PATIENCE_MS)
    page.keyboard.type(words)
    until(page, "!document.querySelector('dialog .hits').textContent.includes('key 7')")


def no_barrier(page: Page) -> None:
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


@pytest.fixture
def shot(request: pytest.FixtureRequest) -> Callable[[Page], None]:
    """With ZOMBIESCOPE_SHOTS a picture of each page is left there, for a person to look at."""
    folder = os.environ.get("ZOMBIESCOPE_SHOTS")

    def take(page: Page) -> None:
        if folder:
            page.screenshot(path=str(Path(folder) / f"{request.node.name}.png"))

    return take
