# SPDX-License-Identifier: Apache-2.0
"""A kernel out of its package; and, where it needs modules to reach its disk, an initramfs with those and a shell."""

from __future__ import annotations

import lzma
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.vm.archive import BuildError

_INIT = """#!/busybox sh
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
for module in {modules}; do /busybox insmod /modules/$module; done
for word in $(/busybox cat /proc/cmdline); do case $word in init=*) init=${{word#init=}};; esac; done
until set -- /dev/nvme*p1 && [ -b "$1" ]; do /busybox sleep 0.1; done
/busybox mount -t ext4 "$1" /root
/busybox umount /proc /dev
exec /busybox switch_root /root "${{init:-/sbin/init}}"
"""
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


def extract_kernel(archive: Path, target: Path) -> None:
    with _members(archive) as tar, target.open("wb") as kernel:
        for member in tar:
            if re.search(r"/vmlinuz[^/]*$", member.name) and member.isfile():
                source = tar.extractfile(member)
                kernel.write(source.read() if source else b"")
    if target.stat().st_size < 1_000_000:
        raise BuildError(f"unpack {archive.name}", "there is no kernel in it")


def write_initramfs(kernel: Path, busybox: Path, modules: Sequence[str], target: Path) -> None:
    """The modules with all they depend on, in the order in which they are loaded, and what loads them."""
    found = _read_modules(kernel)
    order = _in_order(modules, found)
    with _members(busybox) as tar:
        shell = next(_content(tar, member) for member in tar if re.search(r"bin/busybox$", member.name))
    init = _INIT.format(modules=" ".join(f"{name}.ko" for name in order))
    files = [("init", 0o755, init.encode()), ("busybox", 0o755, shell)]
    files += [(f"modules/{name}.ko", 0o644, found[name]) for name in order]
    folders = [("dev", 0o40755, b""), ("proc", 0o40755, b""), ("root", 0o40755, b""), ("modules", 0o40755, b"")]
    entries = [*folders, *((name, 0o100000 | mode, content) for name, mode, content in files), ("TRAILER!!!", 0, b"")]
    target.write_bytes(b"".join(_entry(number, *entry) for number, entry in enumerate(entries, start=1)))


def _read_modules(kernel: Path) -> dict[str, bytes]:
    """Every module of the package by its name as other modules call it."""
    found = {}
    with _members(kernel) as tar:
        for member in tar:
            if match := re.search(r"/([^/]+)\.ko(\.xz)?$", member.name):
                content = _content(tar, member)
                found[match[1].replace("-", "_")] = content
    return found


def _in_order(wanted: Sequence[str], found: dict[str, bytes]) -> list[str]:
    order: list[str] = []
    for name in wanted:
        if name not in found:
            raise BuildError(f"module {name}", "the kernel's package does not have it")
        found[name] = lzma.decompress(found[name]) if found[name].startswith(b"\xfd7zXZ") else found[name]
        depends = _DEPENDS.search(found[name])
        needed = [word.decode().replace("-", "_") for word in depends[1].split(b",") if word] if depends else []
        order += [each for each in _in_order(needed, found) if each not in order]
        if name not in order:
            order.append(name)
    return order


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    """One entry of a cpio archive in the format that the kernel unpacks (newc)."""
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = tar.extractfile(member)
    return source.read() if source else b""


@contextmanager
def _members(archive: Path) -> Iterator[tarfile.TarFile]:
    with (
        subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as source,
        tarfile.open(fileobj=source.stdout, mode="r|") as tar,
    ):
        yield tar
