# SPDX-License-Identifier: Apache-2.0
"""Telling the cluster: to an API server of our own on the loopback address, which answers well, badly, late or not at all."""

from __future__ import annotations

import json
import selectors
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from zombiescope.agent import cluster as telling
from zombiescope.agent.cluster import Settings, Teller, settings_of
from zombiescope.config import load_config
from zombiescope.diagnosis.engine import Condition, ConditionStatus, HeldCondition
from zombiescope.errors import UsageError
from zombiescope.facts.gap import Gap
from zombiescope.host.cluster_api import Api, Sending, send

BAD = Condition(ConditionStatus.TRUE, "ZombieMemcgAboveLimit", "2,000 dead memory cgroups")
GOOD = Condition(ConditionStatus.FALSE, "NoZombieMemcgPressure", "12 dead memory cgroups")
NODE = "/api/v1/nodes/n1/status"
EVENTS = "/api/v1/namespaces/default/events"


class Server(ThreadingHTTPServer):
    """Keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []
        self.status, self.body, self.more = 200, b"{}", {}  # type: ignore[var-annotated]
        self.skew = 0.0
        self.refused = ""
        """The path that is answered with 403."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        return

    def _answer(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.command, self.path, dict(self.headers), sent))
        self.send_response_only(403 if self.path == self.server.refused else self.server.status)
        self.send_header("Date", formatdate(time.time() + self.server.skew, usegmt=True))
        self.send_header("Content-Length", str(len(self.server.body)))
        for name, value in self.server.more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    do_PATCH = do_POST = _answer  # noqa: N815 (the names that http.server calls)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as serving:
        threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True).start()
        yield serving
        serving.shutdown()


class Driven:
    """A teller whose clock the test moves."""

    def __init__(self, address: str, account: Path, words: tuple[str, ...] = ("condition", "events")) -> None:
        self.now = 1000.0
        self.seen = GOOD
        self.gaps: list[Gap | None] = []
        self.selector = selectors.DefaultSelector()
        self.settings = Settings(words, "n1", address, str(account), 10.0, 60.0)
        judged = lambda: self.seen  # noqa: E731
        self.teller = Teller(self.settings, self.selector, judged, self.gaps.append, lambda: self.now)

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        ends = self.now + seconds
        while self.now < ends:
            self.now += step
            self.teller.run(self.now)
            self.hear()

    def hear(self) -> None:
        """Real time, until the child has said everything."""
        while self.selector.get_map():
            for key, _ in self.selector.select(5):
                key.data(self.now)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("a-token\n")
    return tmp_path


def test_held_changes_only_when_the_other_answer_has_lasted() -> None:
    held = HeldCondition()
    assert held.take(GOOD, 0, 10) is None
    assert held.take(GOOD, 10, 10) == GOOD
    assert held.take(BAD, 11, 10) == GOOD
    assert held.take(GOOD, 15, 10) == GOOD  # and begins anew
    assert held.take(BAD, 16, 10) == GOOD
    assert held.take(BAD, 25.9, 10) == GOOD
    assert held.take(BAD, 26, 10) == BAD


def test_the_condition_is_merged_and_a_heartbeat_is_no_transition(server: Server, account: Path) -> None:
    driven = Driven(server.address, account)
    driven.pass_time(9)
    assert not server.seen
    driven.pass_time(160)
    patches = [sent for method, path, _, sent in server.seen if (method, path) == ("PATCH", NODE)]
    assert len(patches) in (3, 4)  # the first, and a heartbeat about each minute
    said = [patch["status"]["conditions"] for patch in patches]
    assert all(len(each) == 1 and each[0]["type"] == "ZombieMemcgPressure" for each in said)
    assert ["lastTransitionTime" in each[0] for each in said] == [True] + [False] * (len(said) - 1)
    headers = server.seen[0][2]
    assert headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert headers["Authorization"] == "Bearer a-token"
    assert not [path for _, path, _, _ in server.seen if path == EVENTS]  # a healthy node is no event


def test_pressure_and_its_end_are_one_event_each(server: Server, account: Path) -> None:
    driven = Driven(server.address, account)
    for seen in (GOOD, BAD, GOOD):
        driven.seen = seen
        driven.pass_time(40)
    events = [sent for method, path, _, sent in server.seen if (method, path) == ("POST", EVENTS)]
    assert [each["reason"] for each in events] == ["ZombieMemcgPressure", "ZombieMemcgPressureResolved"]
    assert events[0]["message"] == f"{BAD.reason}: {BAD.message}"


def test_a_flapping_node_is_told_once(server: Server, account: Path) -> None:
    driven = Driven(server.address, account)
    for at in range(40):
        driven.seen = BAD if at % 2 else GOOD
        driven.pass_time(5)
    assert len(server.seen) <= 4


def test_switched_off_it_goes_and_so_it_does_at_the_end(server: Server, account: Path) -> None:
    driven = Driven(server.address, account)
    driven.pass_time(20)
    driven.teller.configure(None)
    gone = {"status": {"conditions": [{"type": "ZombieMemcgPressure", "$patch": "delete"}]}}
    assert server.seen[-1][3] == gone
    count = len(server.seen)
    driven.teller.close()
    assert len(server.seen) == count  # nothing stands there any more
    driven.teller.configure(driven.settings)
    driven.pass_time(20)
    driven.teller.close()
    assert server.seen[-1][3] == gone


@pytest.mark.parametrize("status", [500, 503, 403, 401, 404, 409, 410, 422, 429, 302])
def test_a_refusal_is_said_and_is_no_storm(server: Server, account: Path, status: int) -> None:
    server.status, server.body = status, b'{"message": "no \\u001b[31m"}'
    driven = Driven(server.address, account)
    driven.seen = BAD
    driven.pass_time(3600, step=5)
    assert 2 <= len(server.seen) <= 12
    gap = driven.gaps[-1]
    assert gap is not None
    assert "\x1b" not in gap.reason
    assert bool(gap.hint) is (status in {401, 403, 404})
    server.status = 200
    driven.pass_time(1200, step=5)
    assert driven.gaps[-1] is None
    assert [sent["reason"] for _, path, _, sent in server.seen if path == EVENTS] == ["ZombieMemcgPressure"]


@pytest.mark.parametrize("body", [b"<html>", b"", b"null", b"[]", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_no_yes(server: Server, account: Path, body: bytes) -> None:
    """A proxy or a sign-in page says 200 to everything."""
    server.body = body
    driven = Driven(server.address, account)
    driven.pass_time(3600, step=5)
    assert 2 <= len(server.seen) <= 12
    gap = driven.gaps[-1]
    assert gap is not None
    assert "no JSON" in gap.reason


def test_a_condition_whose_event_is_refused_keeps_its_time(server: Server, account: Path) -> None:
    server.refused = EVENTS
    driven = Driven(server.address, account)
    driven.seen = BAD
    driven.pass_time(600, step=5)
    patches = [sent["status"]["conditions"][0] for _, path, _, sent in server.seen if path == NODE]
    assert ["lastTransitionTime" in each for each in patches] == [True] + [False] * (len(patches) - 1)
    assert driven.gaps[-1] is not None
    assert 2 <= len([path for _, path, _, _ in server.seen if path == EVENTS]) <= 8
    server.refused = ""
    driven.pass_time(1200, step=5)
    assert driven.gaps[-1] is None


def test_a_node_that_was_made_anew_is_told_since_when(server: Server, account: Path) -> None:
    driven = Driven(server.address, account)
    driven.pass_time(20)
    server.status = 404
    driven.pass_time(120)
    server.status = 200
    driven.pass_time(400)
    said = [sent["status"]["conditions"][0] for _, path, _, sent in server.seen if path == NODE]
    assert ["lastTransitionTime" in each for each in said[:3]] == [True, False, True]
    assert "lastTransitionTime" not in said[-1]


def test_nobody_listens(account: Path) -> None:
    driven = Driven("http://127.0.0.1:9", account)
    driven.pass_time(60)
    assert driven.gaps[-1] is not None
    assert "connection refused" in driven.gaps[-1].reason


def test_it_waits_as_long_as_it_is_asked_to(server: Server, account: Path) -> None:
    server.status, server.more = 429, {"Retry-After": "600"}
    driven = Driven(server.address, account)
    driven.pass_time(400)
    assert len(server.seen) == 1


def test_a_slow_server_is_given_up(server: Server, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child hangs: its time is over by the agent's clock, and it is killed."""
    monkeypatch.setattr(telling, "_speak", lambda *_, **__: time.sleep(60))
    driven = Driven(server.address, account)
    while not driven.selector.get_map():
        driven.now += 1
        driven.teller.run(driven.now)
    driven.now += 26
    driven.teller.run(driven.now)
    assert not driven.selector.get_map()
    assert driven.gaps[-1] is not None
    assert "too slow" in driven.gaps[-1].reason


@pytest.mark.parametrize("skew", [3600.0, -7200.0])
def test_times_are_the_servers_where_clocks_differ(server: Server, account: Path, skew: float) -> None:
    server.skew = skew
    driven = Driven(server.address, account)
    driven.pass_time(20)
    beat = server.seen[-1][3]["status"]["conditions"][0]["lastHeartbeatTime"]
    wanted = time.strftime("%Y-%m-%dT%H", time.gmtime(time.time() + skew))
    assert beat.startswith(wanted)
    assert driven.gaps[-1] is not None
    assert "clock is" in driven.gaps[-1].reason


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"message": 7}', b"x" * 3_000_000])
def test_whatever_it_answers_is_no_crash(server: Server, account: Path, body: bytes) -> None:
    server.status, server.body = 500, body
    outcome = send(Api(server.address, str(account)), [Sending("PATCH", NODE, "application/json", lambda _: {})])
    assert outcome.status == 500
    assert outcome.why


def test_without_an_account_or_a_pod_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    wanted = [Sending("PATCH", NODE, "application/json", lambda _: {})]
    assert "this is no pod" in send(Api("", str(tmp_path)), wanted).why
    assert "ca.crt cannot be used" in send(Api("https://127.0.0.1:1", str(tmp_path)), wanted).why
    assert "token cannot be read" in send(Api("http://127.0.0.1:1", str(tmp_path)), wanted).why
    assert "without TLS" in send(Api("http://192.0.2.1:1", str(tmp_path)), wanted).why
    (tmp_path / "token").write_bytes(b"a\r\nHost: evil")
    assert "holds no token" in send(Api("http://127.0.0.1:1", str(tmp_path)), wanted).why


def test_off_unless_switched_on_by_name() -> None:
    assert settings_of(load_config(None, {}), "n1") is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kubernetes_tell": "taints"}, "is not one of condition, events"),
        ({"kubernetes_tell": "condition", "kubernetes_node": "../n1"}, "is not the name of a node"),
    ],
)
def test_what_cannot_be_used_is_said(given: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match="cannot use") as raised:
        settings_of(load_config(None, dict(given)), "n1")
    assert why in raised.value.why
