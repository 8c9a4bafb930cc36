# SPDX-License-Identifier: Apache-2.0
"""The .rpm of the one file: the tree of the .deb with the places and scripts of that family."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tools.release.origin import date, run, stamp, version
from tools.release.system_tree import CONFIGURATION, FILES, copied, plant


def make_rpm(one_file: Path, architecture: str, out: Path, revision: int = 1) -> Path:
    seconds = date()
    with tempfile.TemporaryDirectory(prefix="zombiescope-rpm-") as scratch:
        top = Path(scratch)
        root = top / "root"
        plant(root, one_file, "site-functions")
        copied(FILES.parents[2] / "LICENSE", root / "usr/share/licenses/zombiescope/LICENSE")
        stamp(root, seconds)
        spec = top / "zombiescope.spec"
        spec.write_text(_spec(root, revision), encoding="utf-8")
        settings = {
            "_topdir": str(top),
            "_rpmdir": str(out.absolute()),
            "_rpmfilename": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm",
            "_buildhost": "zombiescope.example",
            "_binary_payload": "w6.xzdio",
            "__os_install_post": "%{nil}",
            "_build_id_links": "none",
            "use_source_date_epoch_as_buildtime": "1",
            "clamp_mtime_to_source_date_epoch": "1",
        }
        words = [word for name, value in settings.items() for word in ("--define", f"{name} {value}")]
        run(["rpmbuild", "-bb", "--quiet", "--target", architecture, *words, spec], top, SOURCE_DATE_EPOCH=str(seconds))
    return out / f"zombiescope-{version()}-{revision}.{architecture}.rpm"


_OWNED = re.compile(r"usr/(lib/systemd|share/(bash-completion|fish|zsh|(doc|licenses)/zombiescope))(/|$)")
"""Folders that go with the package, unless another one has them too: those of shells and of systemd, which a container may not
have, and ours."""


def _spec(root: Path, revision: int) -> str:
    """The list of files is written down: rpmbuild would otherwise own folders of others."""
    folders = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_dir())
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    listed = [f"%dir /{name}" for name in folders if _OWNED.match(str(name))]
    listed += [f"%config(noreplace) /{name}" if str(name) == CONFIGURATION else f"/{name}" for name in files]
    script = (FILES / "zombiescope.spec").read_text(encoding="utf-8")
    return script.format(version=version(), revision=revision, root=root, files="\n".join(listed))
