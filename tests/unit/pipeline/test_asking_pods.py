# SPDX-License-Identifier: Apache-2.0
"""The API server is asked only where that was switched on; what it refuses or says wrongly is a gap in words."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.unit.analysis.test_asked_pods import pod
from tests.unit.analysis.test_cluster_events import event, listed

from zombiescope.facts.gap import Gap
from zombiescope.host import cluster_api
from zombiescope.host.cluster_api import Api
from zombiescope.pipeline.asking_pods import NOBODY_ASKED, PodSources
from zombiescope.pipeline.timeline import read_jobs

WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}


Answer = tuple[int, bytes]


@contextmanager
def server(answers: Mapping[str, Answer | Callable[[], Answer]], asked: list[str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers.get(self.path.partition("?")[0], (404, b"{}"))
            status, body = answer() if callable(answer) else answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


@pytest.fixture
def account(tmp_path: Path) -> str:
    (tmp_path / "token").write_text("secret\n")
    return str(tmp_path)


def test_nobody_is_asked_unless_somebody_is_named() -> None:
    assert NOBODY_ASKED.asking() == ()


def test_pods_of_this_node_are_asked_for(account: str) -> None:
    asked: list[str] = []
    body = json.dumps({"kind": "PodList", "items": [pod(WAITING)]}).encode()
    with server({"/api/v1/pods": (200, body)}, asked) as address:
        (ask,) = PodSources(None, Api(address, account), "n1").asking()
        answer = ask()
    assert not isinstance(answer, Gap)
    assert asked == ["/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"]
    assert answer.pods[0].maker == "workload:shop/Deployment/crashy"


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (403, b'{"message": "pods is forbidden: User cannot list resource"}', "cannot list"),
        (500, b"", "status 500"),
        (302, b"", "status 302"),
        (200, b"<html>", ""),
        (200, b"[" * 100_000, ""),
    ],
)
def test_a_refusal_is_a_gap(account: str, status: int, body: bytes, why: str) -> None:
    with server({"/api/v1/pods": (status, body)}, []) as address:
        (ask,) = PodSources(None, Api(address, account)).asking()
        answer = ask()
    assert isinstance(answer, Gap)
    assert why in answer.reason


def test_a_server_that_is_not_there_is_a_gap(account: str) -> None:
    (ask,) = PodSources(None, Api("http://127.0.0.1:9", account)).asking()
    assert isinstance(ask(), Gap)
    (ask,) = PodSources(None, Api("http://192.0.2.1", account)).asking()
    answer = ask()
    assert isinstance(answer, Gap)
    assert "without TLS" in answer.reason


def test_events_of_the_cluster_are_job_failures(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    body = json.dumps(listed(event("BackOff", source={"host": "n1"}))).encode()
    with server({"/api/v1/events": (200, body), "/api/v1/pods": (403, b"{}")}, asked) as address:
        monkeypatch.setenv("ZOMBIESCOPE_AGENT_KUBERNETES_API", address)
        monkeypatch.setenv("ZOMBIESCOPE_AGENT_KUBERNETES_ACCOUNT", account)
        marks, gaps = read_jobs(["kubernetes:n1"])
        assert len(marks) == 1
        assert ["pods" in gap.reason for gap in gaps] == [True], "an account may list events alone, and that is said"
        marks, gaps = read_jobs(["kubernetes:n2"])
        assert len(marks) == 0
    marks, gaps = read_jobs(["kubernetes"])
    assert not marks
    assert "API server" in str(gaps) or gaps


def test_a_long_list_is_read_to_its_end_or_said_to_be_cut(account: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces, as the API hands it out; a server whose list has no end is left after some of them."""
    monkeypatch.setattr(cluster_api, "_MOST_PIECES", 3)
    moments = iter(range(100))

    def piece(more: str) -> tuple[int, bytes]:
        item = event("BackOff", source={"host": "n1"}, lastTimestamp=f"2026-11-18T12:00:{next(moments):02}Z")
        return 200, json.dumps({**listed(item), "metadata": {"continue": more}}).encode()

    none = 200, json.dumps(listed(kind="PodList")).encode()
    expired = 410, b'{"message": "The provided continue parameter is too old"}'
    for pieces, count, why in (
        ([piece("a&b"), piece("")], 2, ""),
        ([piece("a"), piece("b"), piece("c")], 3, "there are more"),
        ([piece("a"), expired], 1, "too old"),
        ([piece("a"), (200, b"<html>")], 1, "no JSON"),
    ):
        asked: list[str] = []
        hand_out = functools.partial(next, iter(pieces))
        with server({"/api/v1/events": hand_out, "/api/v1/pods": none}, asked) as address:
            monkeypatch.setenv("ZOMBIESCOPE_AGENT_KUBERNETES_API", address)
            monkeypatch.setenv("ZOMBIESCOPE_AGENT_KUBERNETES_ACCOUNT", account)
            marks, gaps = read_jobs(["kubernetes"])
        assert len(marks) == count
        assert [why in gap.reason for gap in gaps] == ([True] if why else [])
        assert not why or "a%26b" not in asked[1]
        assert why or asked[1].endswith("continue=a%26b")


@pytest.mark.parametrize("body", [b"null", b"[]", b'{"items": null}', b'{"status": []}', b"<html>", b'"x"'])
def test_what_is_no_list_is_a_gap(account: str, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    with server({"/api/v1/events": (200, body)}, []) as address:
        monkeypatch.setenv("ZOMBIESCOPE_AGENT_KUBERNETES_API", address)
        monkeypatch.setenv("ZOMBIESCOPE_AGENT_KUBERNETES_ACCOUNT", account)
        marks, gaps = read_jobs(["kubernetes"])
    assert (marks, len(gaps)) == ((), 1)
