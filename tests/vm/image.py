# SPDX-License-Identifier: Apache-2.0
"""A root disk from Debian packages: unpack, do what maintainer scripts would have done, add the guest files, make ext4.

Packages are unpacked and never configured: a configured root takes four times as long and gives a test nothing more.
No mount and no loop device is needed; the folder is copied by mke2fs.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.vm.archive import BuildError, run
from tests.vm.recipe import GUEST, python_requirements

DISK_SIGNATURE = 0x5A0B1E5C
ROOT_PARTITION = f"PARTUUID={DISK_SIGNATURE:08x}-01"
SITE = "/opt/site"
"""Where the guest's Python packages are."""

_SECTORS_PER_MEGABYTE = 2048
_UNREAD = ("./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*", "./usr/share/info/*")
_GROUPS = ("systemd-journal", "systemd-network", "systemd-resolve", "render", "sgx", "kvm", "input", "tape")


def unpack(packages: Sequence[Path], root: Path) -> None:
    """Every package into one folder, with /bin, /sbin and /lib as links into /usr (usr-merge)."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    skipped = [f"--exclude={pattern}" for pattern in _UNREAD]
    for package in packages:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as source:
            extract = ["tar", "--extract", "--keep-directory-symlink", *skipped, "--directory", str(root)]
            done = subprocess.run(extract, stdin=source.stdout, check=False)
        if source.returncode or done.returncode:
            raise BuildError(
                f"unpack {package.name}",
                f"dpkg-deb {source.returncode}, tar {done.returncode}",
                "look at the free space",
            )


def finish(root: Path, architecture: str) -> None:
    """Users, shell, loader cache, host name, guest files, Python packages, byte code. A foreign root is never entered."""
    is_native = run(["dpkg", "--print-architecture"]).strip() == architecture
    _add_users(root)
    for link, target in (("usr/bin/awk", "mawk"), ("usr/bin/sh", "dash")):
        if not (root / link).exists():
            (root / link).symlink_to(target)
    for name, text in (("fstab", ""), ("hostname", "testhost\n"), ("hosts", "127.0.0.1 localhost testhost\n")):
        (root / "etc" / name).write_text(text)
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    for name in ("proc", "sys", "dev", "run", "tmp", "var/tmp", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    add_guest_files(root)
    if is_native:  # elsewhere the loader finds the libraries in its own folders, a little later
        run(["chroot", str(root), "/sbin/ldconfig"])
    _add_python_packages(root, architecture)
    _compile(root, is_native)


def _add_users(root: Path) -> None:
    master = root / "usr/share/base-passwd"
    users = (master / "passwd.master").read_text().replace("root:*:", "root::", 1)
    users += "messagebus:x:100:100::/nonexistent:/usr/sbin/nologin\ntester:x:1000:1000::/tmp:/bin/sh\n"
    groups = (master / "group.master").read_text() + "messagebus:x:100:\ntester:x:1000:\n"
    groups += "".join(f"{name}:x:{number}:\n" for number, name in enumerate(_GROUPS, start=101))
    (root / "etc/passwd").write_text(users)
    (root / "etc/group").write_text(groups)


def add_guest_files(root: Path) -> None:
    units = root / "etc/systemd/system"
    program = root / "usr/local/lib/zombiescope-vm"
    for folder in (units / "vm.target.wants", root / "etc/systemd/journald.conf.d", program):
        folder.mkdir(parents=True, exist_ok=True)
    for name in ("init", "job"):
        shutil.copy(GUEST / name, program / name)
        (program / name).chmod(0o755)
    for name in ("vm-job.service", "vm.target"):
        shutil.copy(GUEST / name, units / name)
    (units / "vm.target.wants/vm-job.service").symlink_to("../vm-job.service")
    (root / "etc/systemd/journald.conf.d/vm.conf").write_text("[Journal]\nStorage=volatile\n")
    for unit in (GUEST / "masked-units").read_text().split():
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")


def _add_python_packages(root: Path, architecture: str) -> None:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    # Wheels for the Python and the architecture in there: a compiled one of ours cannot be imported there.
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    words = ["--only-binary=:all:", "--python-version", _python_release(root), "--target", str(root / SITE.lstrip("/"))]
    words += [f"--platform=manylinux{version}_{machine}" for version in ("2014", "_2_17", "_2_28")]
    run([*install, *words, *python_requirements()])


def _compile(root: Path, is_native: bool) -> None:
    """Without byte code pytest takes 13 s to start under emulation, with it 6 s. It is the same on every architecture."""
    libraries = ["/" + str(path.relative_to(root)) for path in (root / "usr/lib").glob("python3*") if path.is_dir()]
    places = [SITE, *sorted(libraries)]
    program = ["chroot", str(root), "/usr/bin/python3"]
    if not is_native:
        if (python := shutil.which(f"python{_python_release(root)}")) is None:
            return  # slower there, and nothing else
        program = [python]
        places = ["-s", str(root), "-p", "/", *(str(root) + place for place in places)]
    compile_all = [*program, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", *places]
    subprocess.run(compile_all, check=False, capture_output=True)  # a few vendored files are not for this Python


def _python_release(root: Path) -> str:
    """Such as 3.11: what /usr/bin/python3 is a link to."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def label(root: Path) -> None:
    """SELinux, as the policy's package would have set it up: its modules compiled, every file labelled, enforcing."""
    shipped, policy = "/usr/share/selinux/default", root / "etc/selinux"
    (policy / "config").write_text("SELINUX=enforcing\nSELINUXTYPE=default\n")
    (root / "var/lib/selinux/default").mkdir(parents=True, exist_ok=True)
    modules = [f"-i{shipped}/{name}.pp.bz2" for name in (root / f"{shipped[1:]}/.modules").read_text().split()]
    run(["chroot", str(root), "semodule", "-X", "100", "-n", "-s", "default", *modules])
    contexts = policy / "default/contexts/files/file_contexts"
    with contexts.open("a") as file:  # our programs are programs like others
        file.write("/usr/local/lib/zombiescope-vm(/.*)?\tsystem_u:object_r:bin_t:s0\n")
    setting = f"mount -t proc proc {root}/proc && exec chroot {root} setfiles /{contexts.relative_to(root)} /"
    run(["unshare", "--mount", "sh", "-c", setting])


def write_disk(root: Path, image: Path, megabytes: int) -> None:
    """An MBR with one ext4 partition. The signature gives the PARTUUID by which every kernel finds its root."""
    partition = struct.pack(
        "<B3sB3sII", 0, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", 2048, (megabytes - 1) * _SECTORS_PER_MEGABYTE
    )
    record = struct.pack("<440sI2x16s48s2s", b"", DISK_SIGNATURE, partition, b"", b"\x55\xaa")
    with image.open("wb") as disk:
        disk.truncate(megabytes << 20)
        disk.write(record)
    features = "^has_journal,^metadata_csum"  # no journal: pins are the tests' own, none of jbd2's
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", features, "-m", "0", "-d", str(root), "-E", "offset=1048576"]
    run([*make, str(image), f"{megabytes - 1}M"])
