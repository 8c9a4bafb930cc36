# SPDX-License-Identifier: Apache-2.0
"""The page: its files, its questions, and that only mistakes of ours are said on the terminal."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from zombiescope.errors import ObservationError, UsageError
from zombiescope.profiler.page import STATIC
from zombiescope.web.http import Request
from zombiescope.web.page import Page, PageServer


def questions(path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
    if path == "/bug":
        raise ValueError("a bug")
    if path == "/refused":
        raise UsageError("what", "why", "hint")
    return {"query": dict(query)} if path == "/api/known" else None


@pytest.fixture
def server() -> Iterator[PageServer]:
    each = PageServer(0, questions, STATIC)
    serving = threading.Thread(target=each.serve)
    serving.start()
    yield each
    each.stop()
    serving.join(30)
    assert not serving.is_alive()


def test_files_questions_and_what_is_neither() -> None:
    page = Page(questions, STATIC)
    assert page.answer(Request("/")).content_type == "text/html; charset=utf-8"
    assert json.loads(page.answer(Request("/api/known", {"a": "1"})).body) == {"query": {"a": "1"}}
    assert page.answer(Request("/static/../server.py")).status == 404
    refused = page.answer(Request("/refused"))
    assert (refused.status, json.loads(refused.body)["hint"]) == (400, "hint")


def test_a_mistake_of_ours_is_said_and_a_client_that_left_is_not(
    server: PageServer, capsys: pytest.CaptureFixture[str]
) -> None:
    port = int(server.address.rstrip("/").rpartition(":")[2])
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /"):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(sent)
    with urllib.request.urlopen(server.address, timeout=30) as answer:
        assert answer.read().startswith(b"<!doctype html>")
    assert capsys.readouterr().err == ""
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(server.address + "bug", timeout=30)
    said, end = "", time.monotonic() + 60
    while "ValueError: a bug" not in said and time.monotonic() < end:  # it is said after it was answered
        said += capsys.readouterr().err
        time.sleep(0.01)
    assert "ValueError: a bug" in said


def test_a_port_that_is_taken_is_said(server: PageServer) -> None:
    port = int(server.address.rstrip("/").rpartition(":")[2])
    with pytest.raises(ObservationError, match="address already in use"):
        PageServer(port, questions, STATIC)
