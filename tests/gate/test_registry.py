# SPDX-License-Identifier: Apache-2.0
"""An image in a registry, pulled by skopeo: the registry is a few answers on loopback. On demand: skopeo is not in CI."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.gate.conftest import need
from tests.unit.trees import ECS_DEB, SYSTEM, TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import main

pytestmark = pytest.mark.on_demand
TYPE = "application/vnd.oci.image.{}.v1+json"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def answers_of(root: Path) -> dict[str, tuple[bytes, str]]:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(root, ".")
    layer = out.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
            "config": {},
        }
    ).encode()
    parts = {"config": (TYPE.format("config"), config), "layer": ("application/vnd.oci.image.layer.v1.tar", layer)}
    described = {
        name: {"mediaType": kind, "size": len(data), "digest": digest(data)} for name, (kind, data) in parts.items()
    }
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": TYPE.format("manifest"),
            "config": described["config"],
            "layers": [described["layer"]],
        }
    ).encode()
    answers = {f"/v2/vale/node/blobs/{digest(data)}": (data, "application/octet-stream") for _, data in parts.values()}
    for name in ("2", digest(manifest)):
        answers[f"/v2/vale/node/manifests/{name}"] = (manifest, TYPE.format("manifest"))
    return {**answers, "/v2/": (b"{}", "application/json")}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    need("skopeo")
    files = {**TARGETS, **enabled("ecs.service", ECS_DEB), f"{SYSTEM}/kubelet.service": WANTED}
    answers = answers_of(plant(tmp_path / "root", files))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data, kind = answers.get(self.path, (b"", ""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_port}"
        home = tmp_path / "home/.config/containers"
        home.mkdir(parents=True)
        (home / "registries.conf").write_text(f'[[registry]]\nlocation = "{place}"\ninsecure = true\n')
        (home / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield place
        server.shutdown()


def test_an_image_in_a_registry_is_judged(registry: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--image", f"docker://{registry}/vale/node:2"]) == 2
    assert "image-risk:ecs.service" in capfd.readouterr().out


def test_one_that_is_not_there_is_unknown(registry: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--image", f"docker://{registry}/vale/none:2"]) == 3
    assert "UNKNOWN" in capfd.readouterr().out
