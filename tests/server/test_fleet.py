# SPDX-License-Identifier: Apache-2.0
"""A fleet in real servers: the planted cause is named, what hides it is explained, a server in trouble is told in plain words."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.fleets.serving import prometheus_with, text_of, victoria_with
from tests.fleets.worlds import World, world
from tests.server.running import PROGRAM, ended, fetch, free_port, wait_for

NODES, DAYS, STEP = 1000, 6, 3600.0
WORLDS = {"prometheus": (1, "pair", {"zone": "c"}), "victoria-metrics": (12, "kernel-behind-pool", {"pool": "batch"})}
"""A server, the seed and kind of the world in it, and what looks guilty there through the cause alone."""


def ask(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*PROGRAM, "fleet", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def told(*arguments: str) -> dict[str, Any]:
    code, out, errors = ask(*arguments, "--json")
    assert code == 0, errors
    found: dict[str, Any] = json.loads(out)
    return found


class Served(NamedTuple):
    address: str
    world: World
    hidden: dict[str, str]


@pytest.fixture(scope="module", params=WORLDS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, now = tmp_path_factory.mktemp("fleet"), time.time()
    seed, kind, hidden = WORLDS[request.param]
    one = world(seed, NODES, kind, now)
    begin = victoria_with if request.param == "victoria-metrics" else prometheus_with
    scale = 1000 if request.param == "victoria-metrics" else 1
    with begin(folder, text_of(one, now, DAYS * 86400, STEP, scale)) as address:
        yield Served(address, one, hidden)


@pytest.fixture
def server(served: Served) -> str:
    return served.address


def test_the_fleet_is_diagnosable(server: str) -> None:
    found = told("doctor", "--prometheus", server)
    assert found["verdict"].startswith("diagnosable")
    series = {each["name"]: each for each in found["series"]}
    assert series["zombiescope_memcg_zombies"]["nodes"] == NODES
    assert series["node_vmstat_pgscan_direct"]["nodes"] == 0
    assert "--collector.vmstat.fields" in series["node_vmstat_pgscan_direct"]["enabled_by"]


def test_the_sickest_node_is_first(served: Served) -> None:
    one, server = served.world, served.address
    found = told("nodes", "--prometheus", server)["nodes"]
    assert len(found) == NODES
    worst = max(one.nodes, key=lambda node: node.zombies or 0)
    assert (found[0]["node"], found[0]["zombies"], found[0]["severity"]) == (worst.name, worst.zombies, "critical")
    assert found[0]["labels"] == {**worst.labels, "hierarchy": "v1"}
    assert [each["severity"] for each in found] == sorted(
        (each["severity"] for each in found), key="critical warning ok".index
    )
    _, text, _ = ask("nodes", "--prometheus", server, "--csv")
    assert len(text.splitlines()) == NODES + 1


def test_the_cause_is_first_what_hides_it_is_explained_and_since_when_is_within_half_a_day(served: Served) -> None:
    found = told("cohorts", "--prometheus", served.address)
    first, rows = found["cohorts"][0], found["cohorts"]
    (cause,) = served.world.causes
    assert first["labels"] == dict(cause)
    assert first["explained_by"] is None
    assert found["causes"] == 1
    hidden = next(each for each in rows if each["labels"] == served.hidden)
    assert hidden["explained_by"] == dict(cause)
    ((name, value),) = served.hidden.items()
    assert f"{name} {value} is worse only because" in found["verdict"]
    assert not {"rack", "instance_type"} & {
        name for each in rows if each["q_value"] <= 0.01 for name in each["labels"] if len(each["labels"]) == 1
    }
    at = time.mktime(time.strptime(first["since"][:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert abs(at - served.world.began_at) < 43_200


def test_the_page_says_what_the_command_says(served: Served) -> None:
    command = [*PROGRAM, "fleet", "serve", "--prometheus", served.address, "--listen", "127.0.0.1:0"]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as serving:
        assert serving.stdout is not None
        address = serving.stdout.readline().strip()

        def document(name: str) -> dict[str, Any]:
            found: dict[str, Any] = json.loads(fetch(f"{address}api/v1/{name}")[1])
            return {} if found.get("status") == "making" else found

        cohorts, fleet = wait_for(lambda: document("cohorts")), wait_for(lambda: document("fleet"))
    said = told("cohorts", "--prometheus", served.address)["verdict"]
    assert _undated(cohorts["verdict"]) == _undated(said)
    assert cohorts["cohorts"][0]["line"], "the mean of its sick nodes over time"
    assert fleet["count"] == NODES
    nodes, pages = fleet["columns"]["node"]["values"], fleet["columns"]["page"]["values"]
    assert dict(zip(nodes, pages, strict=True))["node-00003"] == "http://node-00003:9478/"


def _undated(text: str) -> str:
    """The moment of change moves with the window that is asked for."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "", text)


def silent_text(one: World, now: float) -> Iterator[str]:
    """Every second node fell silent within the last hour, and its scrape fails; one has left the fleet."""
    for line in text_of(one, now, 4 * 3600, STEP):
        named = re.search(r"node-(\d+)", line)
        is_last = line.endswith(f" {now:.0f}")
        if not (named and int(named[1]) % 2 and is_last):
            yield line
    yield "# TYPE up gauge"
    for number in range(len(one.nodes) - 1):
        yield f'up{{instance="node-{number:05d}:9478",job="zombiescope"}} {0 if number % 2 else 1} {now:.0f}'


def test_half_of_the_nodes_silent_are_unknown_and_never_healthy(tmp_path: Path) -> None:
    now = time.time()
    one = world(5, 200, "image", now)
    with prometheus_with(tmp_path, silent_text(one, now)) as address:
        found = told("nodes", "--prometheus", address)
        _, text, _ = ask("cohorts", "--prometheus", address)
    silent = [node for node in found["nodes"] if node["severity"] == "unknown"]
    assert {node["node"] for node in silent} == {f"node-{number:05d}" for number in range(1, 199, 2)}
    assert all(node["zombies"] is None and "does not now" in node["gaps"][0]["reason"] for node in silent)
    assert len(found["nodes"]) == 199, "the one that nobody scrapes any more is gone"
    assert "99 nodes told of themselves before and are silent now" in json.dumps(found["gaps"])
    assert "99 nodes could not be judged and are left out" in " ".join(text.split())


def test_with_node_exporter_alone_it_says_what_it_cannot_tell(tmp_path: Path) -> None:
    now = time.time()
    lines = ["# TYPE node_cgroups_cgroups gauge"]
    for number in range(12):
        count = 70_000 if number == 5 else 260
        lines.append(f'node_cgroups_cgroups{{instance="n{number}:9100",subsys_name="memory"}} {count} {now:.0f}')
    with prometheus_with(tmp_path, lines) as address:
        doctor = told("doctor", "--prometheus", address)
        code, text, errors = ask("nodes", "--prometheus", address)
    assert doctor["verdict"].startswith("in part: node_exporter counts cgroups on 12 nodes")
    assert code == 0, errors
    said = " ".join(text.split())
    assert said.startswith("1 of 12 nodes is sick")
    assert "12 nodes have no agent of ours" in said
    assert "findings, makers, saturated cores, resets and restarts are not known there" in said


class _Stranger(http.server.BaseHTTPRequestHandler):
    body, status, delay = b"", 200, 0.0

    def do_POST(self) -> None:
        time.sleep(self.delay)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        if self.status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def stranger(body: bytes, status: int = 200, delay: float = 0.0) -> Iterator[str]:
    kind = type("_Answer", (_Stranger,), {"body": body, "status": status, "delay": delay})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"<html>login</html>", 200, "a web page"),
        (b"[1, 2]", 200, "another API"),
        (b'{"status":"error","error":"query timed out"}', 503, "query timed out"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', 200, "not with a vector"),
        (b"", 302, "a redirect is not followed"),
        (b'{"message":"no org id"}', 401, "--token-file"),
        (b'{"status":"error","error":"\\u001b[31mred\\nline"}', 422, r"\x1b[31mred\x0aline"),
        (EMPTY, 200, "no node was found"),
    ],
)
def test_a_server_in_trouble_is_told_in_plain_words(body: bytes, status: int, words: str) -> None:
    with stranger(body, status) as address:
        code, out, errors = ask("nodes", "--prometheus", address)
    assert (code, out) == (3, "")
    assert words in errors.replace("\n", " ").replace("  ", " ")
    assert "Traceback" not in errors


def test_a_server_that_is_down_or_slow() -> None:
    code, _, errors = ask("nodes", "--prometheus", f"127.0.0.1:{free_port()}")
    assert code == 3
    assert "refused" in errors
    with stranger(EMPTY, delay=5) as address:
        code, _, errors = ask("nodes", "--prometheus", address, "--timeout", "1")
    assert code == 3
    assert "did not answer within 1 s" in errors.replace("\n", " ")


def test_hostile_label_values_stay_text_and_find_their_nodes(tmp_path: Path) -> None:
    now, evil = time.time(), '"} or vector(1) #\n\x1b[31m<script>'
    one = world(3, 200, "image", now)
    nodes = tuple(
        node._replace(name=node.name, labels={**node.labels, "zone": evil if node.labels["zone"] == "c" else "a"})
        for node in one.nodes
    )
    hostile = type(one)(nodes, one.causes, one.began_at)
    with prometheus_with(tmp_path, text_of(hostile, now, 2 * 86400, STEP)) as address:
        code, out, errors = ask("cohorts", "--prometheus", address)
        assert code == 0, errors
        assert "\x1b" not in out
        assert "image img-2024" in out.splitlines()[0]
        listed = told("nodes", "--prometheus", address)["nodes"]
        assert any(each["labels"]["zone"] == '"} or vector(1) #\\x0a\\x1b[31m<script>' for each in listed)
