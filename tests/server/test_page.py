# SPDX-License-Identifier: Apache-2.0
"""The page of a running agent: every document, nothing when nobody looks, and scrapes that go on whoever looks."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.server.running import PATIENCE_SECONDS, fetch, running_agent, wait_for

HEAVY = ("zombies", "tree", "services", "remedies", "window")
OTHERS = ("page", "now", "series", "range", "events", "follows", "cores", "captures", "colours")
VIEWERS, SCRAPES = 10, 30


def ask(address: str, name: str, etag: str = "") -> tuple[int, Any, str]:
    """Status, document and its tag, asked for as a browser does."""
    headers = {"Accept-Encoding": "gzip", **({"If-None-Match": etag} if etag else {})}
    request = urllib.request.Request(f"{address}/api/v1/{name}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            body = answer.read()
            text = gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body
            return answer.status, json.loads(text), answer.headers.get("ETag", "")
    except urllib.error.HTTPError as error:
        body = error.read()
        return error.code, json.loads(body) if body[:1] == b"{" else body, ""


def pulse(address: str) -> Any:
    return ask(address, "page")[1]


def test_every_document_of_an_agent_is_there_and_none_is_made_before_somebody_asks(tmp_path: Path) -> None:
    with running_agent(tmp_path) as (address, _):
        assert wait_for(lambda: ask(address, "series")[1]["series"]), "samples are kept"
        assert {pulse(address)["documents"][name]["status"] for name in HEAVY} == {"idle"}, "nobody has looked yet"
        kind, page = fetch(address + "/")
        assert kind.startswith("text/html")
        assert b'id="app"' in page
        status, making, _ = ask(address, "zombies")
        assert (status, making["status"]) == (202, "making")
        for name in HEAVY:
            assert wait_for(lambda name=name: ask(address, name)[0] == 200), name  # type: ignore[misc]
        for name in (*HEAVY, *OTHERS):
            status, found, etag = ask(address, name)
            assert (status, bool(etag)) == (200, True), (name, found)
            if name not in (
                "page",
                "now",
                "range",
                "cores",
                "series",
                "events",
                "follows",
            ):  # these change with each tick
                assert ask(address, name, etag)[0] == 304, name
        now = ask(address, "now")[1]
        assert [number["id"] for number in now["numbers"]] == [
            "zombies", "growth", "forecast", "kernel_bytes", "saturated_seconds", "nic_resets",
        ]  # fmt: skip
        assert now["numbers"][0]["value"] is not None
        assert pulse(address)["mode"] == "agent"
        status, wrong, _ = ask(address, "zombie?id=none")
        assert (status, bool(wrong["hint"])) == (400, True)
        assert ask(address, "zombie?id=18446744073709551615")[0] == 404
        assert ask(address, "range?from=5&to=1")[0] == 400
        assert ask(address, "captures/flame?name=../../etc/passwd")[0] == 400
        for path in ("/static/../server.py", "/api/v1/nothing", "/static/app.js/x"):
            request = urllib.request.Request(address + path)
            try:
                urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
            except urllib.error.HTTPError as error:
                assert error.code == 404
            else:
                raise AssertionError(path)


class Viewer(threading.Thread):
    """Asks for everything, over and over, as a page that somebody zooms in does."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address, self.ending, self.seen = address, threading.Event(), 0
        self.odd: list[tuple[str, int]] = []

    def run(self) -> None:
        while not self.ending.is_set():
            for name in ("page", "now", "zombies", "range?points=600", "events", "remedies"):
                status, _, _ = ask(self.address, name)
                self.seen += 1
                if status not in (200, 202, 304, 503):
                    self.odd.append((name, status))


def test_scrapes_go_on_under_ten_viewers_and_one_slow_one(tmp_path: Path) -> None:
    with running_agent(tmp_path) as (address, process):
        assert wait_for(lambda: ask(address, "series")[1]["series"])
        place = urlsplit(address)
        assert place.hostname and place.port
        with socket.create_connection((place.hostname, place.port), PATIENCE_SECONDS) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.sendall(b"GET /api/v1/colours HTTP/1.1\r\nHost: localhost\r\n\r\n")  # and does not read the answer
            viewers = [Viewer(address) for _ in range(VIEWERS)]
            for viewer in viewers:
                viewer.start()
            try:
                assert wait_for(lambda: min(viewer.seen for viewer in viewers) > 0)
                before = uptime(address)
                for _ in range(SCRAPES):
                    assert b"zombiescope_memcg_zombies" in fetch(address + "/metrics")[1]
                assert wait_for(lambda: uptime(address) > before), "it still looks"
                assert fetch(address + "/healthz")[1].startswith(b"ok\n")
            finally:
                for viewer in viewers:
                    viewer.ending.set()
                for viewer in viewers:
                    viewer.join(PATIENCE_SECONDS)
        assert [odd for viewer in viewers for odd in viewer.odd] == []
        assert process.poll() is None


def uptime(address: str) -> float:
    return float(ask(address, "page")[1]["at"])
