# SPDX-License-Identifier: Apache-2.0
"""The image: the same bytes twice, every digest right, both platforms, a bill of materials attached, nobody as its user."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.build import PROGRAM
from tests.kubernetes.conftest import BUILT
from tools.image.__main__ import NOBODY, write_image
from tools.image.oci import BILL, INDEX

from zombiescope import __version__


@pytest.fixture
def builds(tmp_path: Path) -> Path:
    """Two one-file builds of stand-in content; the real one is in the cluster."""
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("x86_64", "aarch64"):
        program = folder / f"zombiescope-{name}"
        program.write_bytes(b"\x7fELF " + name.encode())
        digest = hashlib.sha256(program.read_bytes()).hexdigest()
        bill = {"metadata": {"component": {"hashes": [{"alg": "SHA-256", "content": digest}]}}}
        program.with_name(f"{program.name}.cdx.json").write_text(json.dumps(bill))
    return folder


def blobs(image: Path) -> dict[str, bytes]:
    with tarfile.open(image) as members:
        return {each.name: members.extractfile(each).read() for each in members if each.isfile()}  # type: ignore[union-attr]


def read(files: dict[str, bytes], described: dict[str, Any]) -> bytes:
    content = files[f"blobs/{described['digest'].replace(':', '/')}"]
    assert (len(content), hashlib.sha256(content).hexdigest()) == (
        described["size"],
        described["digest"].removeprefix("sha256:"),
    )
    return content


def test_twice_the_same_bytes(builds: Path, tmp_path: Path) -> None:
    for name in ("first.tar", "second.tar"):
        write_image(builds, tmp_path / name, ["x86_64", "aarch64"])
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()


def test_platforms_user_and_bill(builds: Path, tmp_path: Path) -> None:
    write_image(builds, tmp_path / "image.tar", ["x86_64", "aarch64"])
    files = blobs(tmp_path / "image.tar")
    image, *attached = json.loads(files["index.json"])["manifests"]
    assert image["mediaType"] == INDEX
    assert image["annotations"]["io.containerd.image.name"].endswith(f"/zombiescope:{__version__}")
    manifests = json.loads(read(files, image))["manifests"]
    assert [each["platform"]["architecture"] for each in manifests] == ["amd64", "arm64"]
    for manifest, about in zip(manifests, attached, strict=True):
        told = json.loads(read(files, manifest))
        config = json.loads(read(files, told["config"]))
        assert config["config"]["User"] == f"{NOBODY}:{NOBODY}"
        plain = gzip.decompress(read(files, told["layers"][0]))
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
        with tarfile.open(fileobj=io.BytesIO(plain)) as layer:
            assert {each.mtime for each in layer} == {0}
            assert layer.getmember("usr/local/bin/zombiescope").mode == 0o755
        bill = json.loads(read(files, about))
        assert (bill["artifactType"], bill["subject"]["digest"]) == (BILL, manifest["digest"])


def test_a_bill_of_another_build_is_refused(builds: Path, tmp_path: Path) -> None:
    (builds / "zombiescope-x86_64").write_bytes(b"\x7fELF another")
    with pytest.raises(SystemExit, match="of another build"):
        write_image(builds, tmp_path / "image.tar", ["x86_64"])


def test_of_the_real_build(own_image: Path) -> None:
    files = blobs(own_image)
    manifests = json.loads(read(files, json.loads(files["index.json"])["manifests"][0]))["manifests"]
    for name, manifest in zip(BUILT, manifests, strict=True):
        layer = gzip.decompress(read(files, json.loads(read(files, manifest))["layers"][0]))
        with tarfile.open(fileobj=io.BytesIO(layer)) as members:
            program = members.extractfile("usr/local/bin/zombiescope")
            assert program is not None
            content = program.read()
        assert content == PROGRAM.with_name(f"zombiescope-{name}").read_bytes()
        machine = int.from_bytes(content[18:20], "little")
        assert (content[:4], machine) == (b"\x7fELF", {"x86_64": 62, "aarch64": 183}[name])
    print(f"\nimage: {own_image.stat().st_size:,} bytes for {' and '.join(BUILT)}")
