# SPDX-License-Identifier: Apache-2.0
"""Attacks on what listens: the agent's port, its socket and its textfile, and the page of `profile serve`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.hostile.neighbour import INSTALLED, PATIENCE, Neighbour
from tests.server.running import PROGRAM, ended, running_agent, wait_for

from zombiescope.facts.history import Sample
from zombiescope.history.chunks import Chunks
from zombiescope.history.store import DATABASE

DAY = 86_400
MEGABYTE = 1 << 20
QUICK = "[agent]\ninterval_seconds = 1\n"
SERIES = ["zombies", "uptime", *(f"maker.unit:m{number}.service" for number in range(58))]


class Agent(NamedTuple):
    port: int
    process: subprocess.Popen[str]
    log: Path

    def raw(self, sent: bytes, seconds: float = PATIENCE) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as client:
            with suppress(ConnectionError):
                client.sendall(sent)
            return read_all(client)

    def get(self, path: str, *headers: bytes) -> bytes:
        lines = b"\r\n".join([b"GET %s HTTP/1.1" % path.encode(), b"Host: 127.0.0.1", *headers, b"", b""])
        return self.raw(lines)

    def is_well(self) -> bool:
        return self.process.poll() is None and self.get("/metrics").startswith(b"HTTP/1.1 200 ")


def read_all(client: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionError, TimeoutError):
        while part := client.recv(1 << 16):
            received += part
    return received


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[1]) if found else 0


def remember_some_days(folder: Path) -> None:
    """As an agent with its usual interval leaves it: a day of all its series, and the zombies of the days before."""
    folder.mkdir()
    chunks, now, number = Chunks(str(folder / DATABASE)), time.time(), 0
    for begin, names in ((now - 4 * DAY, SERIES[:2]), (now - DAY + 60, SERIES)):
        days = [
            Sample(number + n, begin + n * 10, "boot", {name: float((n * 7 + len(name)) % 1000) for name in names})
            for n in range(1, (3 if names is not SERIES else 1) * DAY // 10 - 60)
        ]
        number += len(days) + 1
        chunks.fold(days, [], number)
    chunks.close()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("agent")
    remember_some_days(folder / "state")
    with running_agent(folder, QUICK, program=[str(INSTALLED)]) as (address, process):
        yield Agent(int(address.rpartition(":")[2]), process, folder / "agent.err")
        assert process.poll() is None


def children_of(process: int) -> list[int]:
    with suppress(OSError), open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


def memory_of(process: int) -> int:
    """Bytes that it has for itself and its share of what it has with others."""
    with suppress(OSError), open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    return 0


def a_day_of(agent: Agent) -> bytes:
    """Nothing while others ask, or where the machine was too slow this time."""
    answer = agent.get(f"/api/v1/history?seconds={DAY}")
    return answer if status(answer) == 200 else b""


def ask_for_a_day(agent: Agent, answers: list[bytes]) -> None:
    answers.append(agent.get(f"/api/v1/history?seconds={DAY}"))


@pytest.mark.attack("end the agent with one request: a byte above 127 in a header that it repeats")
def test_a_header_with_any_byte(agent: Agent) -> None:
    for accept in (
        b"application/openmetrics-text; version=2.0.0-\xff",
        b"application/openmetrics-text; version=1.0.0; escaping=\xff",
        b"text/plain;version=1.0.\xb2",
        b"\xff\xfe",
    ):
        answer = agent.get("/metrics", b"Accept: " + accept)
        assert status(answer) == 200, accept
        assert b"\xff" not in answer
    assert agent.is_well()


@pytest.mark.attack("write a header of one's own into somebody's answer")
def test_nothing_of_a_request_is_repeated(agent: Agent) -> None:
    mark = b"injected-by-a-stranger"
    for path in ("/%0d%0aX: " + mark.decode(), "/api/v1/history?seconds=" + mark.decode(), "/" + mark.decode()):
        assert mark not in agent.get(path)
    for header in (b"Accept: application/openmetrics-text; version=2.0.0-%s", b"Accept: %s", b"X: %s"):
        answer = agent.get("/metrics", header % mark)
        assert status(answer) == 200
        assert mark not in answer
    assert mark not in agent.raw(b"%s / HTTP/1.1\r\nHost: a\r\n\r\n" % mark)


@pytest.mark.attack("read /api/v1 from a page in somebody's browser, through a name that leads here (DNS rebinding)")
def test_a_foreign_name_is_not_answered(agent: Agent) -> None:
    for host in (
        b"evil.example",
        b"evil.example:%d" % agent.port,
        b"127.0.0.1.evil.example",
        b"10.0.0.1",
        b"",
        b"\xff",
    ):
        for path in (b"/metrics", b"/api/v1/scan", b"/api/v1/config", b"/"):
            answer = agent.raw(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path, host))
            assert status(answer) in (400, 421), (host, path)
            assert b"zombiescope_" not in answer
    for host in (b"127.0.0.1:%d" % agent.port, b"localhost", b"[::1]:1"):
        answer = agent.raw(b"GET /api/v1/scan HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
        assert status(answer) == 200, host
        assert b"content-security-policy: default-src 'none'" in answer.lower()


@pytest.mark.attack("shut everybody out with connections that say nothing, or never finish what they say")
def test_idle_and_slow_connections_shut_nobody_out(agent: Agent) -> None:
    held = []
    try:
        for number in range(400):
            client = socket.create_connection(("127.0.0.1", agent.port), timeout=PATIENCE)
            held.append(client)
            with suppress(OSError):
                client.sendall((b"", b"GET /metrics HT", b"GET / HTTP/1.1\r\nA: b\r\n")[number % 3])
        scraped = 0
        for _ in range(20):
            scraped += agent.get("/metrics").startswith(b"HTTP/1.1 200 ")
            with suppress(OSError):
                held.append(socket.create_connection(("127.0.0.1", agent.port), timeout=PATIENCE))
        assert scraped == 20
    finally:
        for client in held:
            client.close()


@pytest.mark.attack("hold places by sending a request byte by byte, and by taking no answer")
def test_byte_by_byte_and_never_reading(agent: Agent) -> None:
    is_over = threading.Event()

    def drip() -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", agent.port), timeout=PATIENCE) as client:
            for byte in b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 6000:
                if is_over.wait(0.002):
                    return
                client.sendall(bytes([byte]))

    def ask_without_reading() -> None:
        with suppress(OSError), socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect(("127.0.0.1", agent.port))
            client.sendall(b"GET /api/v1/doctor HTTP/1.1\r\nHost: localhost\r\n\r\n")
            is_over.wait(30)

    attackers = [threading.Thread(target=work) for work in (drip, ask_without_reading) for _ in range(20)]
    for each in attackers:
        each.start()
    try:
        assert [status(agent.get("/metrics")) for _ in range(20)] == [200] * 20
    finally:
        is_over.set()
        for each in attackers:
            each.join()


@pytest.mark.attack("be left without an answer after closing one half, so that monitors call it down")
def test_a_half_closed_connection_is_answered(agent: Agent) -> None:
    for path in (b"/metrics", b"/api/v1/history?seconds=60"):
        with socket.create_connection(("127.0.0.1", agent.port), timeout=PATIENCE) as client:
            client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            client.shutdown(socket.SHUT_WR)
            assert status(read_all(client)) in (200, 503)


@pytest.mark.attack("fill the agent's memory or confuse it with requests that are too long, garbled or piled up")
def test_huge_garbled_and_piled_up_requests(agent: Agent) -> None:
    end = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for sent, expected in (
        (b"GET /" + b"a" * MEGABYTE + end, {431, 0}),
        (b"GET /" + b"a" * 5000 + end, {414}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000 + b"\r\n", {431, 0}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n" + b"x" * MEGABYTE, {413}),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {413}),
        (b"DELETE /metrics" + end, {405}),
        (b"GET //evil.example/metrics" + end, {404}),
        (b"GET http://evil.example/metrics" + end, {400}),
        (os.urandom(4096) + b"\r\n\r\n", {400, 431}),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600) + b"\r\n\r\n", {400}),
    ):
        assert status(agent.raw(sent)) in expected, sent[:60]
    piled = agent.raw(b"GET /metrics" + end + b"GET /api/v1/scan" + end + os.urandom(8192))
    assert piled.count(b"HTTP/1.1 ") <= 1
    assert agent.is_well()


@pytest.mark.attack("take the node's memory with many questions about a whole day at once")
def test_day_long_questions_stay_small(agent: Agent) -> None:
    answers: list[bytes] = []
    asking = [threading.Thread(target=ask_for_a_day, args=(agent, answers)) for _ in range(8)]
    for each in asking:
        each.start()
    most, most_children = 0, 0
    while any(each.is_alive() for each in asking):
        children = children_of(agent.process.pid)
        most_children = max(most_children, len(children))
        most = max(most, sum(map(memory_of, [agent.process.pid, *children])))
        time.sleep(0.01)
    assert len(answers) == 8
    assert {status(each) for each in answers} <= {200, 503}
    print(f"agent and children: {most / MEGABYTE:.0f} MB while 8 asked for a day")
    assert most_children <= 2, "one that answers, one that looks"
    assert most < 112 * MEGABYTE, "the unit's MemoryHigh"
    whole = wait_for(lambda: a_day_of(agent), PATIENCE) or b""
    found = json.loads(whole.partition(b"\r\n\r\n")[2])
    assert found["samples"] > 8000
    assert {each["name"] for each in found["series"]} >= set(SERIES)
    assert agent.is_well()


@pytest.mark.attack("take the agent with the child that answers, when the host is short of memory")
def test_a_child_that_is_killed_costs_one_answer(agent: Agent) -> None:
    for _ in range(20):
        answers: list[bytes] = []
        known = set(children_of(agent.process.pid))
        asking = threading.Thread(target=ask_for_a_day, args=(agent, answers))
        asking.start()
        while asking.is_alive():
            for child in set(children_of(agent.process.pid)) - known:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        asking.join()
        if status(answers[0]) == 503:
            break
    else:
        pytest.fail("no child was met")
    assert agent.is_well()
    assert wait_for(lambda: status(agent.get("/api/v1/history?seconds=60")) == 200, PATIENCE)
    assert b"answers failed since the agent began" in agent.get("/healthz")


@contextmanager
def agent_with(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    config = folder / "quick.toml"
    config.write_text(QUICK)
    command = [str(INSTALLED), "agent", "--config", str(config), "--state", "", *arguments]
    with ended(subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)) as process:
        yield process


def over_a_path(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE)
        client.connect(str(path))
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: anything\r\n\r\n")
        return read_all(client)


@pytest.mark.attack("read the metrics of an agent that listens on a socket of root's")
def test_a_socket_of_root_is_roots_alone(tmp_path: Path, neighbour: Neighbour) -> None:
    path = tmp_path / "agent.sock"
    with agent_with(tmp_path, "--listen", f"unix:{path}") as process:
        assert wait_for(lambda: status(over_a_path(path)) == 200, PATIENCE, 0.1)
        assert neighbour.do(lambda: over_a_path(path)) == 1
        assert neighbour.do(lambda: os.unlink(path)) == 1
        assert process.poll() is None
    assert not path.exists()


@pytest.mark.attack("have root's socket made in a folder of one's own, and answer in its name")
def test_no_socket_in_a_strangers_folder(tmp_path: Path, neighbour: Neighbour) -> None:
    with agent_with(tmp_path, "--listen", f"unix:{neighbour.folder}/agent.sock") as process:
        assert process.wait(PATIENCE) == 2
    assert list(neighbour.folder.iterdir()) == []


@pytest.mark.attack("read without the token, with a wrong one, or with one that everybody can read")
def test_without_its_token_nothing_is_told(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse-battery\n")
    token.chmod(0o644)
    listen = ("--listen", f"unix:{tmp_path}/t.sock", "--token-file", str(token))
    with agent_with(tmp_path, *listen) as process:
        assert process.wait(PATIENCE) == 2, "a token that everybody can read is none"
    token.chmod(0o600)

    def ask(authorization: bytes, path: bytes = b"/metrics") -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(f"{tmp_path}/t.sock")
            client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % (path, authorization))
            return read_all(client)

    with agent_with(tmp_path, *listen) as process:
        assert wait_for(lambda: status(ask(b"Authorization: Bearer correct-horse-battery")) == 200, PATIENCE, 0.1)
        for path in (b"/metrics", b"/api/v1/scan", b"/api/v1/history", b"/healthz", b"/"):
            for wrong in (b"X: y", b"Authorization: Bearer wrong", b"Authorization: Basic correct-horse-battery"):
                answer = ask(wrong, path)
                assert status(answer) == 401
                assert b"zombiescope_" not in answer
        token.write_text("another-horse-battery\n")
        process.send_signal(signal.SIGHUP)
        assert wait_for(lambda: status(ask(b"Authorization: Bearer another-horse-battery")) == 200, PATIENCE, 0.1)
        assert status(ask(b"Authorization: Bearer correct-horse-battery")) == 401, "what was lost is worthless"


@pytest.mark.attack("have root write through a link that lies where its textfile goes")
def test_a_planted_link_is_not_written_through(tmp_path: Path, neighbour: Neighbour) -> None:
    shared, precious = tmp_path / "shared", tmp_path / "precious"
    shared.mkdir()
    shared.chmod(0o1777)
    precious.write_text("root's own")
    place = shared / "out.prom"
    assert neighbour.do(lambda: os.symlink(precious, place)) == 0
    with agent_with(tmp_path, "--listen", "", "--textfile", str(place)):
        assert wait_for(lambda: place.is_file() and not place.is_symlink(), PATIENCE, 0.1)
    assert precious.read_text() == "root's own"
    assert list(shared.iterdir()) == [place]


@pytest.mark.attack("have root write through a link under the name that it uses beside its textfile")
def test_no_textfile_in_a_strangers_folder(tmp_path: Path, neighbour: Neighbour) -> None:
    precious, listen = tmp_path / "precious", tmp_path / "s.sock"
    precious.write_text("root's own")
    place = neighbour.folder / "out.prom"
    with agent_with(tmp_path, "--listen", f"unix:{listen}", "--textfile", str(place)) as process:
        planted = f"{place}.{process.pid}"
        assert neighbour.do(lambda: os.symlink(precious, planted)) == 0
        refused = b'zombiescope_probe_success{probe="textfile"} 0.0'
        assert wait_for(lambda: refused in over_a_path(listen), PATIENCE, 0.1)
    assert precious.read_text() == "root's own"
    assert [each.name for each in neighbour.folder.iterdir()] == [os.path.basename(planted)]


@pytest.mark.attack("read a capture from a page in somebody's browser, through a name that leads to the profile page")
def test_the_profile_page_answers_to_its_own_name(tmp_path: Path) -> None:
    capture = tmp_path / "stacks.txt"
    capture.write_text("program;main;secret_function 10\n")
    command = [*PROGRAM, "profile", "serve", str(capture), "--port", "0"]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])

        def ask(host: str) -> int:
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/captures/capture", headers={"Host": host})
            with suppress(urllib.error.HTTPError), urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
                return int(answer.status)
            return 0

        assert ask(f"127.0.0.1:{port}") == 200
        assert [ask(host) for host in ("evil.example", f"evil.example:{port}", "10.0.0.1")] == [0, 0, 0]


@pytest.mark.attack("read root's capture from its page, as any other user of the machine")
@pytest.mark.parametrize("guard", ["token", "socket"])
def test_the_profile_page_can_be_kept_from_others(tmp_path: Path, neighbour: Neighbour, guard: str) -> None:
    capture, token, path = tmp_path / "stacks.txt", tmp_path / "token", tmp_path / "p.sock"
    capture.write_text("program;main;secret_function 10\n")
    token.write_text("correct-horse-battery\n")
    token.chmod(0o600)
    guarded = ("--listen", f"unix:{path}") if guard == "socket" else ("--port", "0", "--token-file", str(token))
    command = [*PROGRAM, "profile", "serve", str(capture), *guarded]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip().rstrip("/")

        def ask(authorization: bytes = b"") -> bytes:
            family = socket.AF_UNIX if guard == "socket" else socket.AF_INET
            with socket.socket(family) as client:
                client.settimeout(PATIENCE)
                client.connect(str(path) if guard == "socket" else ("127.0.0.1", int(address.rpartition(":")[2])))
                client.sendall(b"GET /api/v1/captures/capture HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n" % authorization)
                return read_all(client)

        assert status(ask(b"Authorization: Bearer correct-horse-battery\r\n")) == 200
        if guard == "socket":
            assert address == f"unix:{path}"
            assert neighbour.do(ask) == 1
        else:
            assert [status(ask()), status(ask(b"Authorization: Bearer wrong-horse-battery\r\n"))] == [401, 401]
    assert not path.exists()
