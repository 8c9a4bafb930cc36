# SPDX-License-Identifier: Apache-2.0
"""The files of a release as files: one version, the same bytes again, nothing of this machine inside, all of it listed."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import jsonschema
import pytest
from tests.release.conftest import REPOSITORY, one
from tools.release import origin
from tools.release.debian import make_deb
from tools.release.origin import ReleaseError, one_file, version
from tools.release.papers import BILL, NOTES, SUMS, release_notes
from tools.release.python_dists import make_dists, make_pyz
from tools.release.system_tree import example

from zombiescope import __version__
from zombiescope.config import KEYS, PROFILE_KEYS

CONFIGURATION_OF_0_1_0 = "c30e4c86a2f6bfb64d242e4dbf07a29332179adc33e2c5924574dc72db17dadf"
COPIES = (
    "deploy/helm/zombiescope/Chart.yaml",
    "deploy/kubernetes/base/kustomization.yaml",
    "deploy/kubernetes/components/profiles/kustomization.yaml",
)


def test_one_place_states_the_version() -> None:
    """Everything else asks it: the build, the packages, the program, the manual, the role, the pages."""
    assert version() == __version__
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    looked_at = [
        name
        for name in listed.splitlines()
        if name.endswith((".py", ".toml", ".yml", ".yaml", ".md", ".spec", "Makefile", ".j2", ".json"))
        and not name.startswith(("tests/", "bench/", "docs/decisions/", "CHANGELOG"))
        and "vendor" not in name
    ]
    claim = re.compile(rf"(version|zombiescope)[^\n]{{0,12}}{re.escape(__version__)}", re.IGNORECASE)
    stating = [name for name in looked_at if claim.search((REPOSITORY / name).read_text(errors="replace"))]
    assert sorted({*stating} - set(COPIES)) == ["src/zombiescope/__init__.py"]


@pytest.mark.parametrize("name", COPIES)
def test_what_a_cluster_is_given_names_the_image_of_this_version(name: str) -> None:
    """Applied as they are, from a clone: the one kind of file that cannot ask."""
    stated = set(re.findall(r"(?:newTag|[vV]ersion): \"?(\d+\.\d+\.\d+)", (REPOSITORY / name).read_text()))
    assert stated == {__version__}


def test_the_configuration_of_the_packages_never_changes() -> None:
    """Where a new package brings another one, dpkg asks everybody who edited theirs, and an upgrade by a program ends there."""
    shipped = (REPOSITORY / "tools/release/files/zombiescope.toml").read_bytes()
    assert hashlib.sha256(shipped).hexdigest() == CONFIGURATION_OF_0_1_0


def test_the_example_names_every_key_and_its_values_are_taken(tmp_path: Path) -> None:
    text = example()
    keys = [*KEYS, *PROFILE_KEYS]
    assert [key.name for key in keys] == re.findall(r"^#(\w+) = ", text, re.MULTILINE)
    settings = tmp_path / "zombiescope.toml"
    settings.write_text(re.sub(r"^#(?=\w+ = )", "", text, flags=re.MULTILINE))
    said = subprocess.run(
        [sys.executable, "-m", "zombiescope", "agent", "--show-config", "--config", settings],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.count(str(settings)) >= len(KEYS), "each value comes from the file"


def test_a_tree_with_changes_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(origin, "TOP", tmp_path)
    origin.refuse_changes()
    (tmp_path / "new.py").write_text("")
    with pytest.raises(ReleaseError, match=r"new\.py"):
        origin.refuse_changes()


def test_every_file_says_this_version(release: Path) -> None:
    assert one(release, "zombiescope-*.whl").name == f"zombiescope-{version()}-py3-none-any.whl"
    assert one(release, "zombiescope-[0-9]*.tar.gz").name == f"zombiescope-{version()}.tar.gz"
    for command in ([one(release, "zombiescope-x86_64")], ["python3", one(release, "zombiescope.pyz")]):
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        assert said == f"zombiescope, version {version()}\n"
    package = one(release, "zombiescope_*_amd64.deb")
    fields = subprocess.run(
        ["dpkg-deb", "-f", package, "Version", "Depends"], capture_output=True, text=True, check=True
    )
    assert fields.stdout.strip() == f"Version: {version()}-1" or fields.stdout.strip() == f"{version()}-1"


def test_the_sums_and_the_bill_cover_every_file(release: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=release, check=True)
    files = {path.name for path in release.iterdir() if path.name not in {SUMS, f"{SUMS}.sig"}}
    assert {line.split("  ")[1] for line in (release / SUMS).read_text().splitlines()} == files
    bill = json.loads((release / BILL).read_text())
    parts = {part["name"]: part for part in bill["components"]}
    assert parts.keys() == {name for name in files if name not in {BILL, NOTES} and not name.endswith(".cdx.json")}
    for name, part in parts.items():
        assert part["hashes"][0]["content"] == hashlib.sha256((release / name).read_bytes()).hexdigest()
    inside = {part["name"] for part in parts[one(release, "zombiescope_*_amd64.deb").name]["components"]}
    assert {"CPython", "click", "musl", "sqlite3"} <= inside
    assert {part["name"] for part in parts["zombiescope.pyz"]["components"]} >= {"click", "rich", "Pygments", "preact"}
    references = [
        part["bom-ref"] for one_part in parts.values() for part in [one_part, *one_part.get("components", [])]
    ]
    assert len(references) == len(set(references))


def test_every_bill_is_valid_by_its_schema(release: Path) -> None:
    schema = json.loads((REPOSITORY / "tests/schemas/cyclonedx-1.6.json").read_text())
    bills = sorted(release.glob("*.cdx.json"))
    assert {BILL, "zombiescope-x86_64.cdx.json"} <= {path.name for path in bills}
    for path in bills:
        bill = json.loads(path.read_text())
        jsonschema.validate(bill, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**bill, "components": [{"name": "of no type"}]}, schema)


def test_the_same_sources_give_the_same_bytes(release: Path, tmp_path: Path) -> None:
    made = [*make_dists(tmp_path), *make_pyz(tmp_path), make_deb(one_file(release, "x86_64"), "x86_64", tmp_path)]
    different = [path.name for path in made if path.read_bytes() != (release / path.name).read_bytes()]
    assert different == [], "the tree may have changed since (try: make release)"


def test_nothing_of_this_machine_is_inside(release: Path) -> None:
    marks = (str(REPOSITORY).encode(), str(Path.home() / ".cache").encode())
    with zipfile.ZipFile(one(release, "zombiescope.pyz")) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
        assert not [name for name in archive.namelist() if name.endswith((".pyc", ".so", "direct_url.json"))]
    with tarfile.open(one(release, "zombiescope-[0-9]*.tar.gz")) as sources:
        owners = {(member.uname, member.uid) for member in sources.getmembers()}
    assert owners <= {("", 0), ("root", 0)}
    assert not [mark for mark in marks if mark in content]


def test_the_notes_are_cut_from_the_changelog(release: Path) -> None:
    changelog = "# Changelog\n\n## Unreleased\n\n- new ([how](docs/x.md))\n\n## 0.2.0 (2027)\n\n- second\n\n## 0.1.0\n\n- first\n"
    assert release_notes(changelog, "0.2.0").endswith("\n- second\n")
    assert release_notes(changelog, "0.1.0").endswith("\n- first\n")
    assert release_notes(changelog, "0.3.0").endswith("\n- new (how: docs/x.md)\n")
    assert (release / NOTES).read_text().startswith(f"# Zombiescope {version()}\n")


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_scripts_of_the_package_are_sound(shell: str) -> None:
    for name in ("postinst", "prerm", "postrm"):
        subprocess.run([shell, "-n", REPOSITORY / "tools/release/files" / name], check=True)
