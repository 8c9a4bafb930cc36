# SPDX-License-Identifier: Apache-2.0
"""A candidate made ready, and booted in QEMU.

The image itself is never written to. A raw ext4 disk is copied (holes stay holes) and written by debugfs; any other gets a qcow2
overlay that libguestfs writes to, in a machine of its own. Nothing of either is ever mounted here. It boots without network or
share, its disk a snapshot, two serial ports that write to files with a bound. Software emulation unless asked otherwise: that
/dev/kvm exists proves nothing. One thread for all CPUs: with a thread each, a CPU can execute an instruction that another is
patching, and the guest panics. As root it is run as nobody.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from uuid import UUID

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import limit_child
from zombiescope.host.images.disks import Disk, disk_of, find_debugfs, layout_of, partitions, roomy_folder
from zombiescope.host.images.guestfs import find_root, guestfish, is_installed, nobody, quoted, user_for

PROGRAM = "/usr/local/lib/zombiescope-boot"
UNIT = "zombiescope-boot.service"
_UNIT_PATH = f"/etc/systemd/system/{UNIT}"
_WANTS = "/etc/systemd/system/sysinit.target.wants"
_KERNEL = re.compile(r"vmlinu[zx]-?(.*)")
_INITRDS = ("initrd.img-{}", "initramfs-{}.img", "initrd-{}")

_DEBUGFS_BYTES, _DEBUGFS_SECONDS = 1 << 30, 120
_SUPER_UUID = 0x468
_HINT = "zombiescope check --image judges it by its files"


class Given(NamedTuple):
    """What the caller gives: our program for the inside, and a kernel where the image has none."""

    program: bytes
    kernel: bytes | None = None
    initrd: bytes | None = None


class Candidate(NamedTuple):
    disk: str
    format: str
    kernel: str | None
    """None: its own boot loader finds it."""
    initrd: str | None
    root: str


def own_program() -> bytes | None:
    """This very file, where we are the one-file build."""
    try:
        own = os.readlink(b"/proc/self/exe")
    except OSError:
        return None
    return None if os.path.basename(own).startswith(b"python") else own


def is_readable(path: bytes) -> bool:
    return os.path.isfile(path) and os.access(path, os.R_OK)


def is_program(path: bytes) -> bool:
    """One that runs by itself, rather than an archive for an interpreter."""
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@contextmanager
def workplace() -> Iterator[str]:
    """A folder of our own where disks are: the usual one is often memory."""
    with tempfile.TemporaryDirectory(prefix="zombiescope-boot-", dir=roomy_folder()) as folder:
        yield folder


def cannot(image: bytes, why: str, hint: str = _HINT) -> ObservationError:
    return ObservationError(f"cannot boot {shown(image)} here", why, hint)


def prepare(image: bytes, given: Given, unit: str, folder: str) -> Candidate:
    """Everything that is written goes to `folder`. Raises ObservationError and UsageError."""
    with open(image, "rb") as file:
        disk = disk_of(file, image)
        layout = None if disk else layout_of(file)
    given = given._replace(
        kernel=_copied(given.kernel, folder, "kernel"), initrd=_copied(given.initrd, folder, "initrd")
    )
    with open(os.path.join(folder, "unit"), "w", encoding="ascii") as out:
        out.write(unit)
    if disk is None and layout and len(layout.ext4) == 1 and not layout.others and not layout.is_partly_known:
        return _with_debugfs(image, layout.ext4[0], given, folder)
    if disk is None and not (layout and (layout.systems or layout.is_partitioned)):
        raise cannot(
            image,
            "it is no disk: an archive has no kernel and no file system to boot",
            f"make a disk of it (mke2fs -d), or: {_HINT}",
        )
    if not is_installed():
        raise cannot(image, "our program is put into such a disk by libguestfs, and guestfish is not installed")
    return _with_guestfs(image, disk or Disk("raw disk", "raw"), given, folder)


def _copied(path: bytes | None, folder: str, name: str) -> bytes | None:
    """Into our own folder: the machine may run as somebody who cannot read it where it is."""
    return None if path is None else os.fsencode(shutil.copyfile(path, os.fsencode(os.path.join(folder, name))))


def _with_debugfs(image: bytes, offset: int, given: Given, folder: str) -> Candidate:
    copy = os.path.join(folder, "disk.raw")
    if shutil.disk_usage(folder).free < os.stat(image).st_blocks * 512 + (1 << 30):
        raise cannot(image, f"{folder} has no room for a copy of it", "set TMPDIR to a folder with more room")
    subprocess.run([b"cp", b"--sparse=always", b"--reflink=auto", b"--", image, os.fsencode(copy)], check=True)
    device = copy + (f"?offset={offset}" if offset else "")
    commands = [
        *(f"mkdir {path}" for path in ("/usr/local", "/usr/local/lib", "/etc/systemd", "/etc/systemd/system", _WANTS)),
        *(f"rm {path}" for path in (PROGRAM, _UNIT_PATH, f"{_WANTS}/{UNIT}")),
        f"write {os.fsdecode(given.program)} {PROGRAM}", f"set_inode_field {PROGRAM} mode 0100755",
        f"write {folder}/unit {_UNIT_PATH}", f"set_inode_field {_UNIT_PATH} mode 0100644",
        f"symlink {_WANTS}/{UNIT} {_UNIT_PATH}", f"stat {PROGRAM}",
    ]  # fmt: skip
    size = re.search(r"\bSize: (\d+)", _debugfs(device, commands, is_written=True).rpartition(f"stat {PROGRAM}")[2])
    if size is None or int(size[1]) != os.stat(given.program).st_size:
        raise cannot(image, "our program could not be put into it: no room, or a damaged file system")
    kernel, initrd = (given.kernel, given.initrd) if given.kernel else _own_kernel(device, folder)
    with open(image, "rb") as file:
        head = file.read(34 * 512)
        file.seek(offset + _SUPER_UUID)
        uuid = UUID(bytes=file.read(16))
    plain = f"/dev/nvme0n1p{partitions(head).index(offset) + 1}" if offset else "/dev/nvme0n1"
    if kernel is None and not offset:
        raise cannot(image, "it has no kernel in /boot", "give one: --kernel FILE [--initrd FILE]")
    return Candidate(copy, "raw", _name(kernel), _name(initrd), f"UUID={uuid}" if initrd else plain)


def _name(path: bytes | None) -> str | None:
    return None if path is None else os.fsdecode(path)


def _debugfs(device: str, commands: list[str], *, is_written: bool) -> str:
    with tempfile.TemporaryFile() as out:
        subprocess.run(
            [find_debugfs("cannot boot here"), *(["-w"] if is_written else []), "-f", "-", device],
            input="".join(f"{command}\n" for command in commands).encode(),
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
            preexec_fn=lambda: limit_child(1 << 50, _DEBUGFS_SECONDS, _DEBUGFS_BYTES),
        )
        out.seek(0)
        return out.read(16 << 20).decode("utf-8", "replace")


def _own_kernel(device: str, folder: str) -> tuple[bytes | None, bytes | None]:
    listed = re.findall(
        r"^/(\d+)/\d{6}/\d+/\d+/([^/\n]+)/", _debugfs(device, ["ls -p /boot"], is_written=False), re.MULTILINE
    )
    inodes = {name: int(number) for number, name in listed}
    kernel, initrd = newest_kernel(list(inodes))
    wanted = {f"{folder}/kernel": kernel, f"{folder}/initrd": initrd}
    _debugfs(device, [f"dump <{inodes[name]}> {path}" for path, name in wanted.items() if name], is_written=False)
    own, first_stage = (os.fsencode(path) if name else None for path, name in wanted.items())
    return own, first_stage


def newest_kernel(names: list[str]) -> tuple[str | None, str | None]:
    """Of the files in /boot: the newest kernel and the first stage that belongs to it."""
    versions = [found[1] for name in names if (found := _KERNEL.fullmatch(name))]
    if not versions:
        return None, None
    version = max(versions, key=lambda word: [int(part) for part in re.findall(r"\d+", word)])
    return next(name for name in names if (found := _KERNEL.fullmatch(name)) and found[1] == version), next(
        (name for form in _INITRDS if (name := form.format(version)) in names), None
    )


def _with_guestfs(image: bytes, disk: Disk, given: Given, folder: str) -> Candidate:
    """One session: an overlay, our program and the unit in it, the kernel out of it."""
    overlay = os.path.join(folder, "overlay.qcow2")
    if shutil.which("qemu-img") is None:
        raise cannot(image, "qemu-img is not installed", "install qemu-utils")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", disk.format, "-b", os.path.abspath(image), overlay],
        check=True,
        capture_output=True,
    )
    what = f"cannot boot {shown(image)} here"
    with guestfish(os.fsencode(overlay), Disk("overlay", "qcow2"), what, is_written=True) as guest:
        guest.ask("run", 300)
        device = find_root(guest, what)
        guest.ask(f"mount {quoted(device)} /")
        for command_line in (
            "mkdir-p /usr/local/lib", f"upload {quoted(given.program)} {PROGRAM}", f"chmod 0755 {PROGRAM}", f"mkdir-p {_WANTS}",
            f"upload {quoted(folder + '/unit')} {_UNIT_PATH}", f"ln-sf {_UNIT_PATH} {_WANTS}/{UNIT}",
        ):  # fmt: skip
            guest.ask(command_line)
            if guest.complaint:
                raise cannot(image, f"our program could not be put into it: {guest.complaint}")
        paths = [_name(given.kernel), _name(given.initrd)]
        if given.kernel is None:
            for place, name in enumerate(newest_kernel([line.strip() for line in guest.words("ls /boot")])):
                if name is not None:
                    paths[place] = f"{folder}/{('kernel', 'initrd')[place]}"
                    guest.ask(f"download {quoted('/boot/' + name)} {quoted(paths[place] or '')}")
        uuid = guest.ask(f"vfs-uuid {quoted(device)}").decode("ascii", "replace").strip()
        guest.ask("umount-all")
    number = re.fullmatch(r"/dev/sda(\d*)", device)
    plain = f"/dev/nvme0n1{'p' + number[1] if number and number[1] else ''}"
    root = f"UUID={uuid}" if paths[1] and re.fullmatch(r"[0-9A-Za-z-]+", uuid) else plain
    return Candidate(overlay, "qcow2", paths[0], paths[1], root)


_MEGABYTES, _CPUS = 1024, 2
_FILE_BYTES = 16 << 30
_HEARD_BYTES = 8 << 20
"""Of each serial port."""
_END_SECONDS, _STEP_SECONDS = 10, 0.25


class Heard(NamedTuple):
    console: bytes
    told: bytes
    """What our program inside said."""
    seconds: float
    has_ended: bool
    """By itself: it was switched off from inside."""


def boot(image: bytes, candidate: Candidate, accel: str, folder: str, until: Callable[[bytes, float], bool]) -> Heard:
    """Runs until `until(told, seconds)` says enough, or the machine ends. Raises ObservationError where there is no QEMU."""
    if (program := shutil.which("qemu-system-x86_64")) is None:
        raise cannot(
            image,
            "qemu-system-x86_64 is not installed",
            "install qemu-system-x86, or boot it elsewhere: check --for 10m",
        )
    ports = [os.path.join(folder, name) for name in ("console", "told")]
    for path in ports:
        with open(path, "wb"):
            pass
    user = None
    if accel == "tcg":
        user = user_for(os.path.realpath(image)) if candidate.format == "qcow2" else nobody()
    if user is not None:  # what the machine reads and writes is in our own folder: it becomes nobody's
        for path in (folder, *(os.path.join(folder, name) for name in os.listdir(folder))):
            os.chown(path, user, user)
    began = time.monotonic()
    machine = subprocess.Popen(
        _command(program, candidate, accel, ports),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "TMPDIR": folder},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        preexec_fn=lambda: limit_child(_FILE_BYTES),  # noqa: PLW1509 (no thread of ours is running)
    )
    has_ended = False
    try:
        while True:
            has_ended = machine.poll() is not None
            is_flooded = any(os.stat(path).st_size > _HEARD_BYTES for path in ports)
            if has_ended or is_flooded or until(_tail(ports[1]), time.monotonic() - began):
                break
            time.sleep(_STEP_SECONDS)
    finally:
        machine.terminate()
        try:
            machine.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            machine.kill()
            machine.wait()
    return Heard(_tail(ports[0]), _tail(ports[1]), time.monotonic() - began, has_ended)


def _tail(path: str) -> bytes:
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _HEARD_BYTES))
        return file.read(_HEARD_BYTES)


def _command(program: str, candidate: Candidate, accel: str, ports: list[str]) -> list[str]:
    command = [
        program, "-accel", "tcg,thread=single,tb-size=256" if accel == "tcg" else accel,
        "-machine", "q35", "-cpu", "max", "-smp", str(_CPUS), "-m", str(_MEGABYTES),
        "-nodefaults", "-nic", "none", "-display", "none", "-no-reboot",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        *(word for path in ports for word in ("-serial", f"file:{_plain(path)}")),
        "-drive", f"if=none,id=disk,format={candidate.format},file={_plain(candidate.disk)},snapshot=on",
        "-device", "nvme,serial=candidate,drive=disk",
    ]  # fmt: skip
    if candidate.kernel is not None:
        words = f"root={candidate.root} rw rootwait console=ttyS0 panic=-1 random.trust_cpu=on"
        command += ["-kernel", candidate.kernel, "-append", words]
    if candidate.initrd is not None:
        command += ["-initrd", candidate.initrd]
    return command


def _plain(path: str) -> str:
    """QEMU takes a comma for the end of a value, and two for one."""
    return path.replace(",", ",,")
