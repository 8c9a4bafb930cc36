# SPDX-License-Identifier: Apache-2.0
"""What is made for both architectures: packages and image hold the very one files of the release, and differ in nothing else.

The program for aarch64 itself is tried in machines (`make test-onefile-arm64`, a part of `make test-release`).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kubernetes.test_image import blobs, read
from tests.release.conftest import one
from tests.release.page import fences, judge
from tests.release.roots import Root, unpacked
from tools.image.__main__ import ARCHITECTURES, NOBODY
from tools.release.cluster import IMAGE
from tools.release.origin import version
from tools.release.papers import BILL
from tools.release.redhat import make_rpm

pytestmark = pytest.mark.on_demand
REGISTRY = "127.0.0.1:5099"
SERVING = f"""\
version: 0.1
storage: {{filesystem: {{rootdirectory: /var/lib/registry}}}}
http: {{addr: "{REGISTRY}"}}
"""
OF_ONE = {"./usr/bin/zombiescope", "./usr/share/doc/zombiescope/copyright"}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def files_of(archive: bytes) -> dict[str, tuple[int, str]]:
    """Mode and content of each, by name."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return {
            each.name: (each.mode, digest(members.extractfile(each).read()))  # type: ignore[union-attr]
            for each in members
            if each.isfile()
        }


def of_deb(package: Path) -> dict[str, tuple[int, str]]:
    return files_of(subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout)


def of_rpm(package: Path) -> dict[str, tuple[int, str]]:
    shape = "[%{FILEMODES} %{FILEDIGESTS} .%{FILENAMES}\n]"
    asked = ["rpm", "--query", "--package", "--queryformat", shape, str(package)]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    parts = [line.split(" ", 2) for line in lines]
    return {name: (int(mode) & 0o7777, sha256) for mode, sha256, name in parts if sha256}


@pytest.mark.parametrize(
    ("pattern", "names", "read_files"),
    [
        ("zombiescope_*_{}.deb", {"x86_64": "amd64", "aarch64": "arm64"}, of_deb),
        ("zombiescope-*.{}.rpm", {"x86_64": "x86_64", "aarch64": "aarch64"}, of_rpm),
    ],
)
def test_a_package_holds_the_one_file_of_its_architecture(
    pattern: str, names: dict[str, str], read_files: Callable[[Path], dict[str, tuple[int, str]]], release: Path
) -> None:
    found = {machine: read_files(one(release, pattern.format(name))) for machine, name in names.items()}
    for machine, files in found.items():
        program = (release / f"zombiescope-{machine}").read_bytes()
        assert files["./usr/bin/zombiescope"] == (0o755, digest(program))
        assert program[:4] == b"\x7fELF"
        assert program[18] == {"x86_64": 62, "aarch64": 183}[machine], "the machine that its header names"
    one_side, other = ({name: what for name, what in files.items() if name not in OF_ONE} for files in found.values())
    assert one_side == other
    assert len(one_side) > 40


def test_the_same_sources_give_the_same_rpm(release: Path, tmp_path: Path) -> None:
    made = make_rpm(release / "zombiescope-aarch64", "aarch64", tmp_path)
    assert made.read_bytes() == (release / made.name).read_bytes()


def layers(image: Path) -> dict[str, bytes]:
    files = blobs(image)
    index = json.loads(files["index.json"])["manifests"][0]
    manifests = json.loads(read(files, index))["manifests"]
    found = {}
    for manifest in manifests:
        (layer,) = json.loads(read(files, manifest))["layers"]
        found[manifest["platform"]["architecture"]] = gzip.decompress(read(files, layer))
    return found


def test_the_image_holds_the_one_files(release: Path) -> None:
    found = layers(one(release, IMAGE))
    assert found.keys() == set(ARCHITECTURES.values())
    for machine, name in ARCHITECTURES.items():
        inside = files_of(found[name])
        assert inside["usr/local/bin/zombiescope"] == (0o755, digest((release / f"zombiescope-{machine}").read_bytes()))


def test_the_image_runs_as_its_user(release: Path, tmp_path: Path) -> None:
    """Its root is the layer alone; the cluster of `make test-kubernetes` runs the same image as a pod."""
    root: Root = unpacked("empty", tmp_path / "image", NOBODY)
    with tarfile.open(fileobj=io.BytesIO(layers(one(release, IMAGE))["amd64"])) as layer:
        layer.extractall(root.folder, filter="fully_trusted")
    said = root.executed(["/usr/local/bin/zombiescope", "--version"])
    assert said == (0, f"zombiescope, version {version()}\n")
    scanned = root.executed(["/usr/local/bin/zombiescope", "scan"])
    assert scanned.status == 0, scanned.said
    assert "zombies" in scanned.said


def test_the_image_goes_into_a_registry_as_the_page_says(release: Path, enter: Callable[[str], Root]) -> None:
    """Docker's own registry, in the root that has skopeo; it is asked for both platforms."""
    one(release, IMAGE)
    root = enter("registry")
    place = root.folder / "etc/containers/registries.conf.d"
    place.mkdir(parents=True, exist_ok=True)
    (place / "here.conf").write_text(f'[[registry]]\nlocation = "{REGISTRY}"\ninsecure = true\n')
    (root.folder / "etc/here.yml").write_text(SERVING)
    (fence,) = fences("registry")
    # The registry ends with the shell that began it.
    script = f"docker-registry serve /etc/here.yml >/tmp/log 2>&1 & trap 'kill %1' EXIT\nsleep 2\n{fence.script}\n"
    script += "skopeo inspect --raw docker://$REGISTRY/zombiescope:$VERSION"
    done = root.entered(script, 120, REGISTRY=REGISTRY, VERSION=version())
    judge(fence, done.status, done.said)
    pushed = json.loads(done.said[done.said.index('{"') :])
    assert [each["platform"]["architecture"] for each in pushed["manifests"]] == ["amd64", "arm64"]


def test_the_bill_says_of_each_file_only_what_is_in_it(release: Path) -> None:
    parts = {part["name"]: part for part in json.loads((release / BILL).read_text())["components"]}
    plain = [name for name in parts if name.startswith(("kubectl-", "zombiescope-kubernetes", "zombiescope.yaml"))]
    assert len(plain) == 3
    assert [name for name in plain if "components" in parts[name]] == [], "text and a shell script: no library"
    for name in (IMAGE, one(release, "zombiescope_*_arm64.deb").name, one(release, "zombiescope-*.aarch64.rpm").name):
        assert {"CPython", "musl", "openssl"} <= {part["name"] for part in parts[name]["components"]}
