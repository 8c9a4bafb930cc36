# SPDX-License-Identifier: Apache-2.0
"""The wheel and the sdist on each Python that we promise: alone, then with each extra; without one, the hint helps."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.release.conftest import EXTRAS, one
from tests.release.roots import Root
from tools.release.origin import version

pytestmark = pytest.mark.on_demand
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/root/index", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
NEEDS = {
    "agent": "timeout --signal TERM 8 zombiescope agent --state '' --listen unix:/root/agent.sock",
    "profile": "zombiescope profile list --captures /root/none",
    "tui": "zombiescope self-check",
    "fleet": "zombiescope fleet nodes --from /root/nodes.parquet",
    "manifests": "zombiescope check --manifests /root/manifests",
}
"""A command that says that the extra is missing, where it is."""


@pytest.fixture(scope="module", params=["3.11", "3.13", "3.14"])
def root(
    request: pytest.FixtureRequest,
    release: Path,
    wheels: Callable[[str], Path],
    make_root: Callable[[str], Root],
) -> Root:
    made = make_root(f"python{request.param}")
    shutil.copytree(wheels(request.param), made.folder / "root/index")
    (made.folder / "root/nodes.parquet").write_bytes(b"PAR1 no table PAR1")
    (made.folder / "root/manifests").mkdir()
    (made.folder / "root/manifests/pod.yaml").write_text("kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n")
    return made


def asked(root: Root, extra: str) -> str:
    done = root.entered(f'PATH="/root/venv/bin:$PATH"; {NEEDS[extra]} || true', 120)
    assert "Traceback" not in done.said, done.said
    return done.said


def lacks(said: str, extra: str) -> bool:
    return f"zombiescope[{extra}]" in said


def install(root: Root, what: str) -> None:
    done = root.entered(f"rm -rf venv; python3 -m venv venv; venv/bin/pip install --quiet {what}", 300, **OFFLINE)
    assert done.status == 0, done.said


def contents(wheel: Path) -> dict[str, bytes]:
    """But for who built it, and the list that has its hash."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith(("/WHEEL", "/RECORD"))}


def test_alone_then_by_the_hint(root: Root) -> None:
    install(root, '"$(ls ./zombiescope-*.whl)"')
    assert root.entered("venv/bin/zombiescope --version").said.split()[-1] == version()
    assert root.entered("venv/bin/zombiescope scan").status == 0
    assert [extra for extra in EXTRAS if not lacks(asked(root, extra), extra)] == []
    for extra in EXTRAS:  # as the program itself says it, where no index has the package
        done = root.entered(
            f"rm -f index/zombiescope-*.whl; venv/bin/pip install --quiet 'zombiescope[{extra}]'", 300, **OFFLINE
        )
        assert done.status == 0, done.said
    assert [extra for extra in EXTRAS if lacks(asked(root, extra), extra)] == []


@pytest.mark.parametrize("extra", EXTRAS)
def test_with_one_extra(root: Root, extra: str) -> None:
    install(root, f'"$(ls ./zombiescope-*.whl)[{extra}]"')
    said = asked(root, extra)
    assert not lacks(said, extra), said
    if extra == "agent":
        assert "serving" in said, said
    assert root.entered("venv/bin/zombiescope scan").status == 0


def test_the_sdist_builds_the_same_package(root: Root, release: Path) -> None:
    """In isolation, as pip does it: what it names as needed to build is enough."""
    install(root, "./zombiescope-[0-9]*.tar.gz")
    assert root.entered("venv/bin/zombiescope --version").said.split()[-1] == version()
    assert root.entered("venv/bin/zombiescope explain zombie-population").status == 0
    made = root.entered(
        "venv/bin/pip wheel --quiet --no-deps --wheel-dir made ./zombiescope-[0-9]*.tar.gz", 300, **OFFLINE
    )
    assert made.status == 0, made.said
    ours = contents(one(release, "zombiescope-*.whl"))
    assert contents(one(root.folder / "root/made", "zombiescope-*.whl")) == ours, "extras and all"
    assert len(ours) > 500
    with tarfile.open(one(release, "zombiescope-[0-9]*.tar.gz")) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".so", ".pyc"))]
