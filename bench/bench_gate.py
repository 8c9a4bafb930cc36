# SPDX-License-Identifier: Apache-2.0
"""The gate on labelled images: those it was tuned with, and those that other people's tools made. Verdict, seconds, CPU, memory.

PYTHONPATH=. .venv/bin/python bench/bench_gate.py     as root; tools that are not installed are named and left out.
mmdebstrap, debootstrap, mkosi, buildah, debian-installer, mksquashfs, mke2fs, zstd: `apt-get install` them first.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.gate.conftest import kernel_surroundings
from tests.gate.labelled import VARIANTS, make, stock_root
from tests.unit.cli.test_gate_trees import TREES, WHOLE
from tests.unit.cli.test_gate_workloads import LABELS
from tests.unit.trees import TARGETS, plant

VERDICTS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
SOME = ("stock", "incident", "unknown, loops")
INSTALLER = "debian-installer-12-netboot-amd64"


class Image(NamedTuple):
    maker: str
    name: str
    option: str
    path: Path
    verdict: str


class Asked(NamedTuple):
    verdict: str
    seconds: float
    cpu_seconds: float
    megabytes: float


def ask(image: Image) -> Asked:
    command = [sys.executable, "-m", "zombiescope", "check", image.option, str(image.path), "--json"]
    began = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read()
    verdict = json.loads(said)["verdict"] if said.strip() else VERDICTS[min(child.returncode, 3)]
    return Asked(verdict, time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def tuned(folder: Path) -> Iterator[Image]:
    for name, tree in TREES.items():
        root = folder / f"tree-{len(list(folder.iterdir()))}"
        root.mkdir()
        plant(root, tree.files if name in WHOLE else {**TARGETS, **tree.files})
        yield Image("ours", name, "--root", root, tree.verdict)
    for name, label in LABELS.items():
        root = folder / f"tree-{len(list(folder.iterdir()))}"
        root.mkdir()
        yield Image("ours", name, "--root", plant(root, {**TARGETS, **label.files}), label.verdict)


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def by_mmdebstrap(folder: Path) -> Iterator[Image]:
    stock = stock_root(folder)
    for name, variant in VARIANTS.items():
        yield Image("mmdebstrap", name, "--root", make(stock, name, folder), variant.verdict)


def by_debootstrap(folder: Path) -> Iterator[Image]:
    stock = folder / "base"
    run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,cron", "bookworm", stock)
    for name in SOME:
        yield Image("debootstrap", name, "--root", make(stock, name, folder), VARIANTS[name].verdict)


def by_mkosi(folder: Path) -> Iterator[Image]:
    stock = folder / "base"
    options = [
        "--force",
        "--distribution",
        "debian",
        "--release",
        "bookworm",
        "--format",
        "directory",
        "--package",
        "systemd,dbus",
    ]
    run("mkosi", *options, "-o", stock, "build")
    for name in SOME:
        yield Image("mkosi", name, "--root", make(stock, name, folder), VARIANTS[name].verdict)


def archive(root: Path) -> Path:
    with tarfile.open(root.with_suffix(".tar"), "w") as tar:
        tar.add(root, ".")
    return root.with_suffix(".tar")


def by_buildah(folder: Path) -> Iterator[Image]:
    stock = stock_root(folder)
    (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    store = ["--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "vfs"]
    for name in SOME:
        tar = archive(make(stock, name, folder))
        command = [str(word) for word in ("buildah", *store, "from", "scratch")]
        container = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        run("buildah", *store, "add", container, tar, "/")
        for form in ("oci", "docker"):
            path = tar.with_suffix(f".{form}")
            policy = ("--signature-policy", folder / "policy.json", "--format", form)
            run(
                "buildah",
                *store,
                "commit",
                *policy,
                container,
                f"{form}-archive:{path}" + (":x" if form == "docker" else ""),
            )
            yield Image("buildah", f"{name} ({form})", "--image", path, VARIANTS[name].verdict)
        run("buildah", *store, "rm", container)


def by_packers(folder: Path) -> Iterator[Image]:
    """The same roots as disks and archives."""
    stock = stock_root(folder)
    for name in ("stock", "incident"):
        root, verdict = make(stock, name, folder), VARIANTS[name].verdict
        tar = archive(root)
        yield Image("tar", name, "--image", tar, verdict)
        run("zstd", "-q", tar, "-o", f"{tar}.zst")
        yield Image("zstd", name, "--image", Path(f"{tar}.zst"), verdict)
        disk = root.with_suffix(".raw")
        run("mke2fs", "-q", "-t", "ext4", "-d", root, disk, "900M")
        yield Image("mke2fs", name, "--image", disk, verdict)
        if shutil.which("guestfish") and shutil.which("mksquashfs"):
            os.environ.update(kernel_surroundings())
            packed = root.with_suffix(".squashfs")
            run("mksquashfs", root, packed, "-quiet", "-no-progress", "-comp", "zstd")
            yield Image("mksquashfs", name, "--image", packed, verdict)


def by_the_installer(folder: Path) -> Iterator[Image]:
    """Its own images: no systemd in them, so that nobody can tell."""
    run("env", "-C", folder, "apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", INSTALLER)
    run("dpkg-deb", "-x", next(folder.glob("*.deb")), folder)
    for path in sorted(folder.glob("usr/lib/debian-installer/images/12/amd64/*/debian-installer/amd64/initrd.gz")):
        yield Image("debian-installer", f"{path.parents[2].name} initrd", "--image", path, "UNKNOWN")
        root = folder / f"root-{path.parents[2].name}"
        root.mkdir()
        subprocess.run(f"zcat '{path}' | cpio --quiet -id", shell=True, cwd=root, check=True, stderr=subprocess.DEVNULL)
        yield Image("debian-installer", f"{path.parents[2].name} unpacked", "--root", root, "UNKNOWN")


MAKERS: dict[str, tuple[Callable[[Path], Iterator[Image]], str]] = {
    "mmdebstrap": (by_mmdebstrap, "mmdebstrap"),
    "debootstrap": (by_debootstrap, "debootstrap"),
    "mkosi": (by_mkosi, "mkosi"),
    "buildah": (by_buildah, "buildah"),
    "packers": (by_packers, "zstd"),
    "debian-installer": (by_the_installer, "cpio"),
    "ours": (tuned, "sh"),
}


def main() -> int:
    asked_for = sys.argv[1:] or list(MAKERS)
    wrong, held_out, count, silent = 0, 0, 0, 0
    print(f"{'maker':<17} {'image':<42} {'label':<9} {'verdict':<9} {'s':>6} {'CPU s':>6} {'MB':>5}")
    worst = Asked("", 0.0, 0.0, 0.0)
    for maker in asked_for:
        makes, program = MAKERS[maker]
        if shutil.which(program) is None:
            print(f"{maker:<17} left out: {program} is not installed")
            continue
        with tempfile.TemporaryDirectory(prefix="bench-gate-", dir="/var/tmp") as name:
            Path(name).chmod(0o755)
            try:
                for image in makes(Path(name)):
                    asked = ask(image)
                    is_right = asked.verdict == image.verdict
                    count, wrong, held_out = count + 1, wrong + (not is_right), held_out + (maker != "ours")
                    silent += asked.verdict == "OK" and image.verdict != "OK"
                    worst = max(worst, asked, key=lambda one: one.megabytes)
                    figures = f"{asked.seconds:>6.1f} {asked.cpu_seconds:>6.2f} {asked.megabytes:>5.0f}"
                    mark = "" if is_right else "  WRONG"
                    print(
                        f"{image.maker:<17} {image.name[:42]:<42} {image.verdict:<9} {asked.verdict:<9} {figures}{mark}",
                        flush=True,
                    )
            except subprocess.CalledProcessError as error:
                words = (error.stderr or b"").decode(errors="replace").strip().splitlines()[-1:]
                print(f"{maker:<17} left out: {error.cmd[0]}: {words}")
    print(
        f"{count} images, {held_out} kept from tuning: {wrong} wrong, {silent} silent OK; at most {worst.megabytes:.0f} MB"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
