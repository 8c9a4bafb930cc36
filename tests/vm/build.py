# SPDX-License-Identifier: Apache-2.0
"""Images and kernels in the user's cache folder, built when missing: `python -m tests.vm.build [--all] [--refresh]`.

A part is a folder named by its recipe's hash; part.json in it lists versions and sizes. Parts unused for a month go.
Each is built in a temporary folder and renamed, under a lock: a kill leaves no half part, two builds never collide.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.vm.archive import BuildError, PrivateApt
from tests.vm.image import finish, label, unpack, write_disk
from tests.vm.initramfs import extract_kernel, write_initramfs
from tests.vm.recipe import CRASHING_KERNELS, IMAGES, KERNEL_SUITES, PLATFORMS, Platform, image_hash, kernel_hash

NEWEST = "newest"
SHELL_SUITE = "bookworm"
"""Of the shell in an initramfs, where a kernel needs one."""
_UNUSED_SECONDS = 30 * 86_400


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "zombiescope" / "vm"


def say(text: str) -> None:
    """A line of progress, past whatever pytest captures."""
    print(f"vm: {text}", file=sys.__stderr__, flush=True)


class Store:
    """The cache folder, and in it the parts of the present recipe."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()
        self.folder.mkdir(parents=True, exist_ok=True)

    def contents(self) -> dict[str, dict[str, Any]]:
        """What was built, by part: version, seconds, bytes downloaded and kept."""
        parts = sorted(self.folder.glob("*/part.json"))
        return {path.parent.name: json.loads(path.read_text()) for path in parts}

    def kernel(self, series: str) -> Path:
        return self.folder / f"kernel-{series}-{kernel_hash()}" / "vmlinuz"

    def image(self, name: str) -> Path:
        return self.folder / f"image-{name}-{image_hash(name)}" / "disk"

    def ensure(self, images: Sequence[str], kernels: Sequence[str]) -> None:
        """Builds what is missing, and only that."""
        with self._locked():
            missing = [series for series in dict.fromkeys(kernels) if not self.kernel(series).exists()]
            if missing:
                self._build_kernels(missing)
            for name in dict.fromkeys(images):
                if not self.image(name).exists():
                    self._build_image(name)
            self._mark_used([self.kernel(series) for series in kernels] + [self.image(name) for name in images])

    def _mark_used(self, files: Sequence[Path]) -> None:
        for path in files:
            os.utime(path.parent / "part.json")
        for path in self.folder.glob("*/part.json"):
            if time.time() - path.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(path.parent)

    def _build_image(self, name: str) -> None:
        image = IMAGES[name]
        with self._part(self.image(name).parent.name) as (folder, facts):
            apt = PrivateApt(folder / "apt", [image.suite, f"{image.suite}-security"], image.architecture)
            facts["index_bytes"] = apt.update()
            packages = apt.download(image.packages)
            facts["download_bytes"] = sum(path.stat().st_size for path in packages)
            say(f"image {name}: {len(packages)} packages, {facts['download_bytes'] / 1e6:.0f} MB; unpacking")
            root = folder / "root"
            unpack(packages, root)
            finish(root, image.architecture)
            if image.selinux:
                label(root)
            write_disk(root, folder / "disk", image.size_megabytes)
            facts["versions"] = [path.stem for path in packages]
            for leftover in (root, folder / "apt"):
                shutil.rmtree(leftover)

    def replace_kernel(self, series: str, crashed: str) -> str | None:
        """The next older kernel in the place of the version that crashed; None where there is no older one."""
        with self._locked():
            facts = self._kernel_facts(series)
            if facts["version"] == crashed:  # else another machine has met it already
                try:
                    self._build_kernels([series], {*facts.get("crashed", []), crashed})
                except BuildError:
                    return None
            return self.kernel_version(series)

    def kernel_version(self, series: str) -> str:
        return str(self._kernel_facts(series)["version"])

    def _kernel_facts(self, series: str) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.kernel(series).parent / "part.json").read_text())
        return facts

    def _build_kernels(self, wanted: Sequence[str], crashed: Collection[str] = ()) -> None:
        by_architecture: dict[str, list[str]] = {}
        for part in wanted:
            by_architecture.setdefault(platform_of(part)[1].architecture, []).append(part)
        for architecture, parts in by_architecture.items():
            with _scratch(self.folder) as scratch:
                apt = PrivateApt(scratch / "apt", KERNEL_SUITES, architecture)
                index_bytes = apt.update()
                for part in parts:
                    self._build_kernel(apt, part, crashed, index_bytes)
                    index_bytes = 0

    def _build_kernel(self, apt: PrivateApt, part: str, crashed: Collection[str], index_bytes: int) -> None:
        series, platform = platform_of(part)
        with self._part(self.kernel(part).parent.name) as (folder, facts):
            offered = apt.versions(platform.kernel_packages)
            package, version = newest_of(series, offered, {*CRASHING_KERNELS, *crashed})
            archive = apt.download_one(package)
            size = archive.stat().st_size
            facts.update(package=package, version=version, download_bytes=size, index_bytes=index_bytes)
            facts["crashed"] = sorted(crashed)
            extract_kernel(archive, folder / "vmlinuz")
            if platform.modules:
                own = PrivateApt(folder / "apt", [SHELL_SUITE], platform.architecture)
                facts["index_bytes"] += own.update()
                write_initramfs(archive, own.download_one("busybox-static"), platform.modules, folder / "initramfs")
                shutil.rmtree(folder / "apt")
            say(f"kernel {part}: {package} {version}, {size / 1e6:.0f} MB")

    @contextmanager
    def _part(self, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        started = time.monotonic()
        facts: dict[str, Any] = {}
        say(f"building {name}")
        with _scratch(self.folder) as folder:
            yield folder, facts
            facts["seconds"] = round(time.monotonic() - started, 1)
            (folder / "part.json").write_text(json.dumps(facts, indent=1))
            shutil.rmtree(self.folder / name, ignore_errors=True)
            folder.rename(self.folder / name)
        say(f"{name} ready in {facts['seconds']} s")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another build is running here: waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in self.folder.glob(".building-*"):  # of a killed build: nobody else can be here
                shutil.rmtree(leftover, ignore_errors=True)
            yield


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    folder = parent / f".building-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def newest_of(series: str, offered: Sequence[tuple[str, str]], passed_over: Collection[str] = ()) -> tuple[str, str]:
    """The newest package of a kernel series such as 6.12, or of all, without the versions that crash."""
    prefix = "" if series == NEWEST else re.escape(series) + r"[.~+-]"
    matching = [
        row for row in offered if re.match(rf"linux-(image|binary)-{prefix}", row[0]) and row[1] not in passed_over
    ]
    if not matching:
        raise BuildError(
            f"kernel {series}", f"none of {', '.join(KERNEL_SUITES)} offers it", "apt-cache search linux-image"
        )
    return max(matching, key=lambda row: [int(number) for number in re.findall(r"\d+", row[1])])


def platform_of(part: str) -> tuple[str, Platform]:
    """The series and the platform out of a kernel's name, such as 6.12-arm64-16k."""
    series, _, platform = part.partition("-")
    return series, PLATFORMS[platform or "amd64"]


def summary(contents: dict[str, dict[str, Any]]) -> str:
    """What building took, for the documents."""
    parts = contents.values()
    downloaded, indexes = (sum(part.get(key, 0) for part in parts) / 1e6 for key in ("download_bytes", "index_bytes"))
    seconds = sum(part["seconds"] for part in parts)
    return f"{len(contents)} parts built in {seconds:.0f} s from {downloaded:.0f} MB of packages and {indexes:.0f} MB of indexes"


def main() -> int:
    """Builds what CI needs, with --all everything, with --refresh again: what was newest then may not be now."""
    from tests.vm.cells import CELLS  # noqa: PLC0415  (cells are for the matrix; a store needs none)

    cells = [cell for cell in CELLS if cell.required or "--all" in sys.argv[1:]]
    store = Store()
    if "--refresh" in sys.argv[1:]:
        for part in store.contents():
            shutil.rmtree(store.folder / part)
    store.ensure([cell.image for cell in cells], [cell.kernel_part for cell in cells])
    parts = {store.kernel(cell.kernel_part).parent.name for cell in cells} | {
        store.image(cell.image).parent.name for cell in cells
    }
    contents = {name: facts for name, facts in store.contents().items() if name in parts}
    for name, facts in contents.items():
        print(name, facts.get("package", f"{len(facts.get('versions', []))} packages"), facts.get("version", ""))
    print(summary(contents))
    return 0


if __name__ == "__main__":
    sys.exit(main())
