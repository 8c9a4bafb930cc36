# SPDX-License-Identifier: Apache-2.0
"""Every way in, as the install page tells it, in a bare root: install, first look, upgrade, removal, nothing left."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.release.conftest import REPOSITORY, one
from tests.release.page import SIGNING, fences, follow, follow_without_shell, judge
from tests.release.roots import Root
from tools.fences import Fence, fences_of
from tools.release.debian import make_deb
from tools.release.origin import one_file, version
from tools.release.redhat import make_rpm

Enter = Callable[[str], Root]
PLACES = {
    "here", "signed", "signing", "empty", "nobody", "bookworm", "trixie", "machine", "rpm", "fleet", "registry", "pipeline",
    "airgapped", "python3.11", "python3.13", "python3.14",
}  # fmt: skip
STAGES = ("upgrade", "removal", "purge")
SETTINGS = "[agent]\nretention_days = 7\n"
SHELL = """\
Name: shell
Version: 1
Release: 1
Summary: Says to rpm that Debian has a shell
License: Apache-2.0
BuildArch: noarch
Provides: /bin/sh
%description
Empty.
%files
"""


def test_every_command_of_the_pages_is_run_somewhere() -> None:
    declared = [
        place for page in ("docs/guides/install.md", SIGNING) for fence in fences_of(page) for place in fence.places
    ]
    stages = {place.rpartition("-")[0] for place in declared if place.endswith(STAGES)}
    assert {place for place in declared if not place.endswith(STAGES)} == PLACES
    assert stages <= PLACES


def used(root: Root) -> tuple[Path, Path]:
    """A configuration that somebody edited, and a history."""
    configuration, state = root.folder / "etc/zombiescope.toml", root.folder / "var/lib/zombiescope"
    assert configuration.exists()
    configuration.write_text(SETTINGS)
    state.mkdir()
    (state / "history.log").write_text("kept\n")
    return configuration, state / "history.log"


@pytest.mark.parametrize("suite", ["bookworm", pytest.param("trixie", marks=pytest.mark.on_demand)])
def test_the_deb_from_install_to_purge(suite: str, enter: Enter, release: Path) -> None:
    root = enter(suite)
    package = one(release, "zombiescope_*_amd64.deb")
    before = root.files()
    said = follow(suite, root)
    assert "zombies" in said[-1]
    assert root.entered("zombiescope --version").said.split()[-1] == version()
    assert root.entered("zombiescope self-check --json").status in (0, 3)
    wants = root.folder / "etc/systemd/system/multi-user.target.wants/zombiescope.service"
    assert not wants.is_symlink(), "the agent is off until somebody enables it"
    assert {"usr/share/man/man1/zombiescope.1.gz", "usr/share/bash-completion/completions/zombiescope"} <= root.files()
    configuration, history = used(root)
    # The same program in a package of a higher revision is an upgrade to dpkg.
    (root.folder / "root" / package.name).unlink()
    root.put(make_deb(one_file(release, "x86_64"), "x86_64", root.folder.parent, revision=2, packing="none"))
    follow(f"{suite}-upgrade", root)
    assert root.entered("dpkg-query -W -f '${Version}' zombiescope").said == f"{version()}-2"
    assert (configuration.read_text(), history.read_text()) == (SETTINGS, "kept\n")
    follow(f"{suite}-removal", root)
    assert configuration.exists(), "remove keeps the configuration"
    assert history.exists(), "remove keeps what was remembered"
    assert not (root.folder / "usr/bin/zombiescope").exists()
    follow(f"{suite}-purge", root)
    assert root.files() - before == set()
    assert before - root.files() == set()


@pytest.mark.on_demand
def test_the_rpm_from_install_to_removal(enter: Enter, release: Path) -> None:
    """By rpm itself: scripts, configuration and removal are those of the package. Only that a package provides a shell is new to
    the suite's database of rpm, which is empty."""
    root = enter("rpm")
    package = one(release, "zombiescope-*.x86_64.rpm")
    (root.folder / "root/shell.spec").write_text(SHELL)
    made = root.entered(
        "rpmbuild -bb --quiet --define '_rpmdir /root' shell.spec; rpm --upgrade noarch/shell-1-1.noarch.rpm"
    )
    assert made.status == 0, made.said
    (root.folder / "usr/share/licenses").mkdir()  # of that family's package `filesystem`
    before = root.files()
    said = follow("rpm", root)
    assert "zombies" in said[-1]
    assert root.entered("rpm --verify zombiescope").said == "", "every file as it was packed"
    assert not (root.folder / "etc/systemd/system/multi-user.target.wants/zombiescope.service").is_symlink()
    configuration, history = used(root)
    (root.folder / "root" / package.name).unlink()
    root.put(make_rpm(one_file(release, "x86_64"), "x86_64", root.folder.parent, revision=2))
    follow("rpm", root)
    assert root.entered("rpm --query zombiescope").said.strip() == f"zombiescope-{version()}-2.x86_64"
    assert (configuration.read_text(), history.read_text()) == (SETTINGS, "kept\n")
    follow("rpm-removal", root)
    assert root.files() - before == {"etc/zombiescope.toml.rpmsave"}, "as the page says"
    assert before - root.files() == set()


@pytest.mark.parametrize("place", ["empty", "nobody"])
def test_the_one_file_on_a_sick_node(place: str, enter: Enter, release: Path) -> None:
    one(release, "zombiescope-x86_64")
    root = enter(place)
    if place == "empty":
        shutil.rmtree(root.folder / "root")
        shutil.copy2(release / "zombiescope-x86_64", root.folder)
        assert [path.name for path in root.folder.rglob("*") if path.is_file()] == ["zombiescope-x86_64"]
        said = follow_without_shell(place, root)
        assert [path.name for path in root.folder.rglob("*") if path.is_file()] == ["zombiescope-x86_64"]
    else:
        before = root.files()
        said = follow(place, root)
        assert root.files() == before
    assert all(said)


def upgrade(root: Root, fence: Fence) -> None:
    """With the same `pip install` and a newer wheel: the same content under the next number."""
    wheel = one(root.folder / "root", "zombiescope-*.whl")
    old, new = f"zombiescope-{version()}", f"zombiescope-{version()}.1"
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(wheel.with_name(wheel.name.replace(old, new)), "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name.endswith(("/METADATA", "/RECORD")):
                content = content.replace(b"\nVersion: ", b"\nVersion: NEXT", 1).replace(old.encode(), new.encode())
                content = content.replace(f"NEXT{version()}".encode(), f"{version()}.1".encode())
            after.writestr(name.replace(old, new), content)
    wheel.unlink()
    (install,) = [line for line in fence.script.splitlines() if "pip install" in line]
    done = root.entered(install, 240, PIP_NO_INDEX="1", PIP_FIND_LINKS="/root/index")
    judge(fence, done.status, done.said)
    assert f"Version: {version()}.1\n" in root.entered("/opt/zombiescope/bin/pip show zombiescope").said
    looked = root.entered("zombiescope scan")
    judge(fence, looked.status, looked.said)


@pytest.mark.parametrize("python", ["3.11", "3.13", "3.14"])
@pytest.mark.on_demand
def test_the_wheel_and_the_pyz(python: str, enter: Enter, wheels: Callable[[str], Path]) -> None:
    root = enter(f"python{python}")
    before = root.files()
    shutil.copytree(wheels(python), root.folder / "root/index")
    assert root.entered("python3 --version").said.startswith(f"Python {python}.")
    follow(f"python{python}", root, PIP_NO_INDEX="1", PIP_FIND_LINKS="/root/index")
    for words in (
        "doctor --seconds 1",
        "agent --show-config",
        "profile list",
        "self-check",
        "explain zombie-population",
    ):
        done = root.entered(f"zombiescope {words}")
        assert done.status in (0, 3), f"{words}: {done.said}"
        assert "Traceback" not in done.said
    upgrade(root, fences(f"python{python}")[0])
    follow(f"python{python}-removal", root)
    left = {name for name in root.files() - before if "__pycache__" not in name}
    assert left == set()


@pytest.mark.on_demand
def test_without_a_network(enter: Enter, release: Path, tmp_path: Path) -> None:
    """Collected on this machine as the page says, carried over, installed with no network at all."""
    here = tmp_path / "here"
    shutil.copytree(release, here)
    for fence in fences("here"):
        command = ["env", f"PATH={REPOSITORY}/.venv/bin:/usr/bin:/bin", "bash", "-eu", "-c", fence.script]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
        judge(fence, done.returncode, done.stdout + done.stderr)
    root = enter("airgapped")
    shutil.copytree(here / "wheels", root.folder / "root/wheels")
    follow("airgapped", root)


def test_the_signature(release: Path, tmp_path: Path) -> None:
    """With a key that is thrown away; a changed file and a stranger's key are refused."""
    folder = tmp_path / "signing"
    folder.mkdir()
    shutil.copy(release / "SHA256SUMS", folder)
    for fence in [*fences("signing", SIGNING), *fences("signed")]:
        done = subprocess.run(
            ["bash", "-eu", "-c", fence.script], cwd=folder, capture_output=True, text=True, check=False
        )
        judge(fence, done.returncode, done.stdout + done.stderr)
    verify = fences("signed")[0].script
    whole = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text(whole.replace("a", "b", 1))
    assert subprocess.run(["bash", "-c", verify], cwd=folder, capture_output=True, check=False).returncode != 0
    (folder / "SHA256SUMS").write_text(whole)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "other"], check=True)
    (folder / "SHA256SUMS.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", "other", "-n", "zombiescope-release", "SHA256SUMS"],
        cwd=folder,
        check=True,
    )
    assert subprocess.run(["bash", "-c", verify], cwd=folder, capture_output=True, check=False).returncode != 0
