# SPDX-License-Identifier: Apache-2.0
"""`kubectl zombiescope` against a kubectl that only writes down what it is asked; the story asks a real one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from tests.kubernetes.build import ensure
from tests.kubernetes.test_manifests import TOP, said

from zombiescope import __version__

PLUGIN = TOP / "deploy/kubectl/kubectl-zombiescope"
FAKE = r"""#!/bin/sh
printf '%s\n' "$*" >> "$ASKED"
case "$*" in
*"get nodes"*) printf 'n2\nn1\t"True"\t"2026-11-18T12:00:00Z"\t"ZombieMemcgAboveLimit: 2,000 \033[31mdead"\n' ;;
*"get pods"*n9*) ;;
*"get pods"*n8*) echo 'error: pods is forbidden' >&2 ; exit 1 ;;
*"get pods"*n7*) echo '--server=http://192.0.2.1' ;;
*"get pods"*n6*) echo agent-y agent-z ;;
*"get pods"*) echo agent-x ;;
*"exec"*scan*) echo 'zombies: 12 dead memory cgroups are still in the kernel' ; echo more ;;
*"exec"*doctor*) echo 'it is crashy' ;;
*"exec"*record*) [ -z "${BROKEN:-}" ] || { echo broken; exit 3; } ; echo a-bundle ;;
*port-forward*) echo forwarding ;;
esac
"""


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        (folder / "kubectl").write_text(FAKE)
        (folder / "kubectl").chmod(0o755)

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "ASKED": str(self.asked), **more}
        return subprocess.run(
            [str(PLUGIN), *words], check=False, capture_output=True, text=True, env=environment, cwd=self.folder
        )


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def test_nodes_by_their_condition_and_by_asking_where_there_is_none(fake: Fake) -> None:
    lines = fake.run("nodes").stdout.splitlines()
    assert lines[1].split(maxsplit=3)[:3] == ["n1", "True", "2026-11-18T12:00:00Z"]
    assert "\x1b" not in "".join(lines)
    assert lines[2].split()[:3] == ["n2", "not", "told"]
    assert lines[2].endswith("zombies: 12 dead memory cgroups are still in the kernel")
    assert "exec" not in [line for line in fake.asked.read_text().splitlines() if "n1" in line]


def test_ask_asks_all_of_them(fake: Fake) -> None:
    assert "; now zombies: 12" in fake.run("nodes", "--ask").stdout


def test_doctor_hands_its_flags_on(fake: Fake) -> None:
    done = fake.run("-n", "ours", "--context", "east", "doctor", "n1", "--seconds", "2", "--json")
    assert (done.returncode, done.stdout) == (0, "it is crashy\n")
    last = fake.asked.read_text().splitlines()[-1]
    assert last.startswith(
        "--context=east exec --namespace ours agent-x --container agent -- /usr/local/bin/zombiescope doctor"
    )
    assert last.endswith("--seconds 2 --json")


def test_page_forwards_the_port(fake: Fake) -> None:
    done = fake.run("page", "n1", "--port", "8080")
    assert "http://127.0.0.1:8080/" in done.stderr
    assert fake.asked.read_text().splitlines()[-1].endswith("pod/agent-x 8080:9753")


def test_bundle_is_whole_or_not_there(fake: Fake) -> None:
    assert fake.run("bundle", "n1").returncode == 0
    assert (fake.folder / "n1.tar.gz").read_text() == "a-bundle\n"
    again = fake.run("bundle", "n1")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert fake.run("bundle", "n1", "other.tar.gz", BROKEN="yes").returncode == 3
    assert sorted(path.name for path in fake.folder.glob("*.tar.gz*")) == ["n1.tar.gz"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["doctor"], "no node is named"),
        (["doctor", "n9"], "no agent runs there"),
        (["doctor", "n1;rm"], "not a plain name"),
        (["--context", "a b", "nodes"], "not a plain name"),
        (["nodes", "--namespace", "$(id)"], "not a plain name"),
        (["dance"], "no such command"),
        (["nodes", "--loud"], "no such option"),
    ],
)
def test_errors_say_what_and_why(fake: Fake, words: list[str], why: str) -> None:
    done = fake.run(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "try: " in done.stderr


def test_who_cannot_be_asked_is_not_said_to_be_absent(fake: Fake) -> None:
    done = fake.run("doctor", "n8")
    assert (done.returncode, done.stdout) == (3, "")
    assert "pods is forbidden" in done.stderr
    assert "no agent runs there" not in done.stderr
    done = subprocess.run([PLUGIN, "doctor", "n1"], check=False, capture_output=True, text=True, env={"PATH": "/none"})
    assert (done.returncode, done.stdout) == (3, "")
    assert "there is no kubectl on the PATH" in done.stderr


def test_of_two_agents_one_is_asked_and_no_name_is_an_option(fake: Fake) -> None:
    assert fake.run("doctor", "n6").stdout == "it is crashy\n"
    assert "agent-y --container" in fake.asked.read_text()
    assert "not a plain name" in fake.run("doctor", "n7").stderr


def condition(**said: object) -> dict[str, object]:
    usual = {"type": "ZombieMemcgPressure", "status": "True", "lastTransitionTime": "2026-11-18T12:00:00Z"}
    return {**usual, "reason": "ZombieMemcgAboveLimit", "message": "2,000 dead", **said}


def served(nodes: list[dict[str, object]]) -> type[BaseHTTPRequestHandler]:
    """As much of an API server as kubectl asks for before it lists nodes."""
    kinds = [{"name": "nodes", "kind": "Node", "singularName": "node", "namespaced": False, "verbs": ["get", "list"]}]
    answers: dict[str, dict[str, object]] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": kinds},
        "/api/v1/nodes": {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": nodes},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = answers.get(self.path.partition("?")[0])
            body = json.dumps(said).encode()
            self.send_response(200 if said else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def test_what_others_write_into_a_node_stays_one_printable_line(tmp_path: Path) -> None:
    """With kubectl itself: a message that pretends to be another node, and conditions in no form at all."""
    hostile = 'evil\nn9\t"False"\t"2020"\t"fine" \x1b[31m \u202e'
    told = {
        "n1": [condition()],
        "n2": [condition(message=hostile)],
        "n3": None,
        "n4": [{}, condition(lastTransitionTime=None)],
    }
    nodes: list[dict[str, object]] = [
        {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "status": {"conditions": said}}
        for name, said in told.items()
    ]
    with ThreadingHTTPServer(("127.0.0.1", 0), served(nodes)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kubectl = f'#!/bin/sh\nexec {ensure().kubectl} --server=http://127.0.0.1:{server.server_port} "$@"\n'
        (tmp_path / "kubectl").write_text(kubectl)
        (tmp_path / "kubectl").chmod(0o755)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
        done = subprocess.run([PLUGIN, "nodes"], check=False, capture_output=True, text=True, env=environment)
        server.shutdown()
    rows = [line.split(maxsplit=3) for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["n1", "n2", "n3", "n4"]
    assert rows[0][1:] == ["True", "2026-11-18T12:00:00Z", "ZombieMemcgAboveLimit: 2,000 dead"]
    assert rows[1][3].startswith(r"ZombieMemcgAboveLimit: evil\nn9\t")
    assert rows[2][1:3] == ["not", "told"]
    assert rows[3][1:3] == ["True", "-"]
    assert not {"\x1b", "\u202e"} & set(done.stdout)


def test_the_released_files(tmp_path: Path) -> None:
    import sys  # noqa: PLC0415

    for name in ("one", "two"):
        said(sys.executable, TOP / "tools/make_manifests.py", tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == [
        "kubectl-zombiescope.tar.gz",
        f"zombiescope-{__version__}.tgz",
        "zombiescope-kubernetes.tar.gz",
        "zombiescope.yaml",
    ]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
    told = yaml.safe_load((tmp_path / "one/zombiescope.yaml").read_text())["spec"]
    archive = tmp_path / "one" / told["platforms"][0]["uri"]
    assert told["version"] == f"v{__version__}"
    assert told["platforms"][0]["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as members:
        assert {each["from"] for each in told["platforms"][0]["files"]} == set(members.getnames())
        assert members.getmember("kubectl-zombiescope").mode == 0o755
    helm = Path(sys.executable).with_name("helm")
    assert "DaemonSet" in said(helm, "template", "zombiescope", tmp_path / "one" / f"zombiescope-{__version__}.tgz")
