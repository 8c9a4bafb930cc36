# SPDX-License-Identifier: Apache-2.0
"""What a test machine is made of: Debian suites, packages, kernels, Python packages, guest files.

Its hash is in the name of what is cached: change a word of it and the next run builds anew.
Kernels are Debian's cloud flavour: NVMe, ext4, serial port, BTF and kcore are built in, so no initramfs and no modules; where
another flavour is wanted (pages of 16 KiB), its few modules are put into an initramfs of our own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
GUEST = HERE / "guest"
REQUIREMENTS = REPOSITORY / "requirements-dev.txt"

KERNEL_SUITES = ("bullseye-security", "bookworm-security", "trixie-backports")
"""Small indexes that between them have 5.10, 6.1, 6.12 and everything newer that Debian keeps."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What machines of one architecture and page size are made of and run by."""

    architecture: str
    """As Debian calls it."""
    kernel_packages: str
    """From 6.19 the kernel itself is in linux-binary-*, and linux-image-* only points to it."""
    emulator: str
    machine: tuple[str, ...]
    console: str
    live: str
    """The second serial port, where a job is seen while it runs."""
    modules: tuple[str, ...] = ()
    """What its kernel needs to reach the root disk and does not have built in."""


_ARM = ("-machine", "virt", "-cpu", "max,pauth-impdef=on")
"""`max` has 52-bit addresses, which the 6.12 kernels then use; the architected pointer authentication is slow to emulate."""

PLATFORMS = {
    "amd64": Platform(
        "amd64",
        r"linux-(image|binary)-\d.*-cloud-amd64",
        "qemu-system-x86_64",
        ("-machine", "q35", "-cpu", "max"),
        "ttyS0",
        "ttyS1",
    ),
    "arm64": Platform(
        "arm64", r"linux-(image|binary)-\d.*-cloud-arm64", "qemu-system-aarch64", _ARM, "ttyAMA0", "ttyS0"
    ),
    "arm64-16k": Platform(
        "arm64",
        r"linux-(image|binary)-\d.*-arm64-16k",
        "qemu-system-aarch64",
        _ARM,
        "ttyAMA0",
        "ttyS0",
        ("crc32c_generic", "nvme", "ext4"),
    ),
}

CRASHING_KERNELS = {
    "6.1.192-1": "ext4 reads through a null pointer once its buddy page has left the cache (ext4_mb_load_buddy_gfp)",
}
"""Versions that crash by themselves, whatever we do in them: passed over for the next older one."""

PYTHON_PACKAGES = ("click", "rich", "pytest", "hypothesis")
"""Installed into every image at the versions of requirements-dev.txt."""

_TOOLS = (
    "base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "hostname", "kmod", "libc-bin",
    "mawk", "mount", "procps", "python3", "sed", "tar", "usr-is-merged", "util-linux",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Image:
    suite: str
    packages: tuple[str, ...]
    architecture: str = "amd64"
    selinux: bool = False
    """Whether its policy is compiled and its files are labelled."""
    size_megabytes: int = 900


IMAGES = {
    "bookworm": Image("bookworm", (*_TOOLS, "dbus", "systemd", "systemd-sysv")),
    "trixie": Image("trixie", (*_TOOLS, "dbus", "systemd", "systemd-sysv", "dbus-system-bus-common")),
    "bookworm-selinux": Image(
        "bookworm",
        (*_TOOLS, "dbus", "systemd", "systemd-sysv", "policycoreutils", "selinux-policy-default"),
        selinux=True,
    ),
    "bookworm-arm64": Image("bookworm", (*_TOOLS, "dbus", "systemd", "systemd-sysv"), "arm64"),
}


def python_requirements() -> list[str]:
    """The pinned lines of requirements-dev.txt for what the guest imports."""
    pins = dict(re.findall(r"^([\w-]+)(==\S+)$", REQUIREMENTS.read_text(), re.MULTILINE))
    return [name + pins[name] for name in PYTHON_PACKAGES]


def kernel_hash() -> str:
    """What decides which kernels are available, as eight hexadecimal digits."""
    packages = [repr(platform) for platform in PLATFORMS.values()]
    return _hash([*packages, *KERNEL_SUITES, *CRASHING_KERNELS], ["archive.py", "initramfs.py"])


def image_hash(name: str) -> str:
    """What decides what an image holds, as eight hexadecimal digits."""
    guest = sorted(f"guest/{path.name}" for path in GUEST.iterdir() if path.is_file())
    return _hash([repr(IMAGES[name]), *python_requirements()], ["archive.py", "image.py", *guest])


def _hash(words: list[str], sources: list[str]) -> str:
    digest = hashlib.sha256("\0".join(words).encode())
    for name in sources:
        digest.update(b"\0" + name.encode() + b"\0" + (HERE / name).read_bytes())
    return digest.hexdigest()[:8]
