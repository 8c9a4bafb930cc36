# SPDX-License-Identifier: Apache-2.0
"""A fleet in real servers: the planted cause is named, what hides it is explained, a server in trouble is told in plain words."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.fleets.serving import prometheus_with, text_of, victoria_with
from tests.fleets.worlds import world
from tests.server.running import PROGRAM, free_port

NODES, DAYS, STEP = 1000, 6, 3600.0
CAUSE = {"image": "img-2024", "kernel": "5.15.0-1050"}


def ask(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*PROGRAM, "fleet", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def told(*arguments: str) -> dict[str, Any]:
    code, out, errors = ask(*arguments, "--json")
    assert code == 0, errors
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.fixture(scope="module", params=["prometheus", "victoria-metrics"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, now = tmp_path_factory.mktemp("fleet"), time.time()
    one = world(1, NODES, "pair", now)
    begin = victoria_with if request.param == "victoria-metrics" else prometheus_with
    scale = 1000 if request.param == "victoria-metrics" else 1
    with begin(folder, text_of(one, now, DAYS * 86400, STEP, scale)) as address:
        yield address


def test_the_fleet_is_diagnosable(server: str) -> None:
    found = told("doctor", "--prometheus", server)
    assert found["verdict"].startswith("diagnosable")
    series = {each["name"]: each for each in found["series"]}
    assert series["zombiescope_memcg_zombies"]["nodes"] == NODES
    assert series["node_vmstat_pgscan_direct"]["nodes"] == 0
    assert "--collector.vmstat.fields" in series["node_vmstat_pgscan_direct"]["enabled_by"]


def test_the_sickest_node_is_first(server: str) -> None:
    one = world(1, NODES, "pair")
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


def test_the_cause_is_first_and_its_zone_is_explained(server: str) -> None:
    found = told("cohorts", "--prometheus", server)
    first, rows = found["cohorts"][0], found["cohorts"]
    assert first["labels"] == CAUSE
    assert first["explained_by"] is None
    assert found["causes"] == 1
    zone = next(each for each in rows if each["labels"] == {"zone": "c"})
    assert zone["explained_by"] == CAUSE
    assert "zone c is worse only because" in found["verdict"]


def test_since_when_is_within_half_a_day(server: str) -> None:
    began = world(1, NODES, "pair", time.time()).began_at
    since = told("cohorts", "--prometheus", server)["cohorts"][0]["since"]
    at = time.mktime(time.strptime(since[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    assert abs(at - began) < 43_200


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
