# SPDX-License-Identifier: Apache-2.0
"""Disks that libguestfs reads for us: LVM, XFS, btrfs, squashfs, in qcow2, VMDK, VHD and others, or on a block device. guestfish
boots a small machine of its own around the disk, read-only and without a network: a stranger's file system meets that machine's
kernel, never this one's. We ask for a few folders as tar streams, read by our own reader, and for single paths. It is started with
limits of processor time, time, memory and file size, as nobody where root starts it and nobody can read the disk, and ended with
all that it started.
"""

import base64
import binascii
import contextlib
import os
import posixpath
import re
import secrets
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import limit_child
from zombiescope.host.files import READ_LIMIT_BYTES, Entry, Files, Kind, kind_of
from zombiescope.host.images.archive import SINGLE_FILES, STREAMED_FOLDERS, TOO_MUCH, Layer, MemoryTree, collect, lay
from zombiescope.host.images.disks import Disk
from zombiescope.host.images.streams import Allowance
from zombiescope.host.images.tar import Type, members

_ANSWER_SECONDS, _WHOLE_SECONDS = 300.0, 1800.0
_CPU_SECONDS = 1200
"""Of each process: a launch under emulation takes 6 s, a search for systems as much again."""
_FILE_BYTES = 6 << 30
"""libguestfs keeps its machine's disk of 4 GiB, mostly holes."""
_MACHINE_MEGABYTES = "768"
_STREAM_BYTES = 512 << 20
_NOBODY = 65534
_END_SECONDS = 10
_CHUNK = 1 << 16


class Guest:
    """A guestfish that answers one question after another; each answer ends with a mark that nobody can guess."""

    def __init__(self, process: subprocess.Popen[bytes], what: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._what = process, what
        self._in, self._out, self._errors = process.stdin, process.stdout.fileno(), process.stderr.fileno()
        os.set_blocking(self._errors, False)
        self._mark = secrets.token_hex(16).encode() + b"\n"
        self._ready = b""
        self._ends_at = time.monotonic() + _WHOLE_SECONDS
        self._allowance = Allowance(_STREAM_BYTES // 100)
        self.complaint = ""

    def ask(self, command: str, seconds: float = _ANSWER_SECONDS) -> bytes:
        """The answer; what went wrong is in `complaint`."""
        self._say(command)
        self._wait_for(lambda: self._mark in self._ready, seconds)
        answer, _, self._ready = self._ready.partition(self._mark)
        self._hear()
        return answer

    def words(self, command: str) -> list[str]:
        """Lines of an answer."""
        return self.ask(command).decode("utf-8", "replace").splitlines()

    def stream(self, command: str) -> "Stream | None":
        """A tar archive on the way out; None where the answer was none."""
        self._say(command)
        self._wait_for(lambda: len(self._ready) >= len(self._mark))
        if self._ready.startswith(self._mark):
            self._ready = self._ready[len(self._mark) :]
            self._hear()
            return None
        return Stream(self)

    def take(self, size: int) -> bytes:
        """So many bytes of a stream."""
        self._wait_for(lambda: len(self._ready) >= size)
        data, self._ready = self._ready[:size], self._ready[size:]
        self._allowance.take(size)
        return data

    def end_stream(self) -> None:
        """Past the padding, up to the mark."""
        self._wait_for(lambda: self._mark in self._ready)
        rest, _, self._ready = self._ready.partition(self._mark)
        self._hear()
        if rest.strip(b"\0") or self.complaint:
            raise ObservationError(
                self._what, self.complaint or "libguestfs sent more than an archive", "is its file system damaged?"
            )

    def _say(self, command: str) -> None:
        self._hear()
        self.complaint = ""
        try:
            self._in.write(f"{'' if command == 'run' else '-'}{command}\necho {self._mark.decode()}".encode())
            self._in.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _wait_for(self, is_there: Callable[[], bool], seconds: float = _ANSWER_SECONDS) -> None:
        deadline = min(time.monotonic() + seconds, self._ends_at)
        while not is_there():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._out], [], [], left)[0]:
                raise ObservationError(
                    self._what, "libguestfs did not answer in time", "is it damaged? try guestfish by hand"
                )
            if not (data := os.read(self._out, _CHUNK)):
                raise self._ended()
            self._ready += data

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while said := os.read(self._errors, _CHUNK):
                lines = [line for line in said.decode("utf-8", "replace").splitlines() if "error:" in line]
                self.complaint = shown(lines[-1].rpartition("error: ")[2].encode())[:300] if lines else self.complaint

    def _ended(self) -> ObservationError:
        self._process.wait(10)
        self._hear()
        why = self.complaint or f"libguestfs ended (status {self._process.returncode})"
        return ObservationError(
            self._what, f"libguestfs could not start or went on no further: {why}", "libguestfs-test-tool says why"
        )


class Stream:
    """What comes next, as the tar reader wants it."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    def read(self, size: int) -> bytes:
        return self._guest.take(size)

    def skip(self, size: int) -> None:
        while size > 0:
            size -= len(self._guest.take(min(size, _CHUNK)))


@contextmanager
def guestfish(path: bytes, disk: Disk, what: str, *, is_written: bool = False) -> Iterator[Guest]:
    place = os.path.realpath(path)
    user = None if is_written else user_for(place)
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    surroundings |= {"LIBGUESTFS_BACKEND": "direct", "LC_ALL": "C"}
    surroundings.setdefault("LIBGUESTFS_MEMSIZE", _MACHINE_MEGABYTES)
    if user is not None:
        surroundings |= {"HOME": "/"}
    command = [b"guestfish", b"--rw" if is_written else b"--ro", f"--format={disk.format}".encode(), b"-a", place]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=surroundings,
        cwd="/",
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        start_new_session=True,
        # The address space is that of its machine, bounded by the memory of it.
        preexec_fn=lambda: limit_child(_FILE_BYTES, _CPU_SECONDS),  # noqa: PLW1509 (no thread of ours is running)
        bufsize=0,
    )
    try:
        yield Guest(process, what)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """At the end of its questions it ends by itself and cleans up; else all that it started is in its process group."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            break
    process.stderr.close()


def nobody() -> int | None:
    """Whom root plays; None for everybody else."""
    return _NOBODY if os.geteuid() == 0 else None


def user_for(place: bytes) -> int | None:
    """nobody, if we are root and nobody can read the disk; else whoever we are."""
    if (user := nobody()) is None:
        return None
    try:
        asked = subprocess.run([b"test", b"-r", place], user=user, group=user, extra_groups=[], check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return user if asked.returncode == 0 else None


_MOST_SYSTEMS, _MOST_LINKS = 64, 500
_TOP_LINKS = (
    b"/bin",
    b"/sbin",
    b"/lib",
    b"/lib64",
    b"/usr/lib",
    b"/usr/sbin",
    b"/var/run",
    b"/etc",
    b"/sbin/init",
    b"/usr/sbin/init",
)
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:@+=")
_ABSENT = re.compile(r"No such file or directory|Not a directory")
_INSTALL = (
    "install guestfish (Debian), guestfs-tools (Fedora) or libguestfs-tools (Ubuntu), or unpack it and use --root"
)


def is_installed() -> bool:
    return shutil.which("guestfish") is not None


def read_with_guestfs(path: bytes, disk: Disk, tree: MemoryTree) -> str:
    """Fills the tree; says which file systems were read. Raises ObservationError, and TarError or EOFError for a torn stream."""
    what = f"cannot read the image {shown(path)}"
    if not is_installed():
        raise ObservationError(
            what, f"it is a {disk.kind}, which takes libguestfs, and guestfish is not installed", _INSTALL
        )
    if disk.is_encrypted:
        raise ObservationError(what, "it is encrypted", "open it first, and give the decrypted device")
    with guestfish(path, disk, what) as guest:
        guest.ask("run")
        mounted = _mount(guest, tree, what)
        _fill(guest, tree)
        return ", ".join(mounted)


def find_root(guest: Guest, what: str) -> str:
    """The device of the one system in it. Raises ObservationError."""
    roots = [line.strip() for line in guest.words("inspect-os") if line.strip()]
    if not roots:
        systems = [line.rpartition(": ") for line in guest.words("list-filesystems")[:_MOST_SYSTEMS]]
        if any(kind in ("crypto_LUKS", "BitLocker") for _, _, kind in systems):
            raise ObservationError(what, "it is encrypted", "open it first, and give the decrypted device")
        roots = [name for name, _, kind in systems if kind not in ("swap", "unknown", "") and _is_root(guest, name)]
        if not roots:
            told = ", ".join(f"{name} ({kind})" for name, _, kind in systems) or "no file system"
            raise ObservationError(
                what, f"no system was found in it: {shown(told.encode())}", "is it whole? nothing of it was judged"
            )
    if len(roots) > 1:
        raise ObservationError(
            what, f"it holds {len(roots)} systems", "give one of them: copy its disk, or mount it and use --root"
        )
    return roots[0]


def _is_root(guest: Guest, name: str) -> bool:
    guest.ask(f"mount-ro {quoted(name)} /")
    if guest.complaint:
        return False
    folders = ("/etc", "/usr/lib/systemd", "/lib/systemd", "/etc/systemd")
    has_etc, *has_systemd = [_is(guest, "dir", folder) for folder in folders]
    guest.ask("umount-all")
    return has_etc and any(has_systemd)


def _is(guest: Guest, kind: str, path: bytes | str) -> bool:
    return guest.ask(f"is-{kind} {quoted(path)}").strip() == b"true"


def _mount(guest: Guest, tree: MemoryTree, what: str) -> list[str]:
    """The root that was found, and whatever its own table mounts below it, if that is here; told for a person."""
    root = find_root(guest, what)
    guest.ask(f"mount-ro {quoted(root)} /")
    if guest.complaint:
        raise ObservationError(what, guest.complaint, "is its file system damaged?")
    mounted = [f"{shown(root.encode())} at /"]
    points = [line.partition(": ") for line in guest.words(f"inspect-get-mountpoints {quoted(root)}")[:_MOST_SYSTEMS]]
    for point, _, device in sorted(points, key=lambda pair: len(pair[0])):
        if point == "/":
            continue
        guest.ask(f"mount-ro {quoted(device)} {quoted(point)}")
        if guest.complaint:
            tree.refuse(
                point.encode("utf-8", "surrogateescape"),
                f"{shown(device.encode())} is mounted there, and could not be read",
            )
        else:
            mounted.append(f"{shown(device.encode())} at {shown(point.encode())}")
    return mounted


def _fill(guest: Guest, tree: MemoryTree) -> None:
    for path in _TOP_LINKS:
        _put_link(guest, tree, path)
    for folder in STREAMED_FOLDERS:
        top = Files(tree).entry(b"/" + folder.split(b"/")[1])
        # `/lib/systemd` where `/lib` is a link: the folder that it leads to is read.
        if not _is(guest, "dir", folder) or (top is not None and top.kind is Kind.LINK):
            continue
        if (source := guest.stream(f'tar-out {quoted(folder)} - "excludes:*-json.log*"')) is None:
            tree.refuse(folder, guest.complaint or "it could not be read")
            continue
        layer = Layer()
        for member in members(source):
            member.name = folder + b"/" + member.name.removeprefix(b"./")
            if member.target and member.type is Type.HARD_LINK:
                member.target = folder + b"/" + member.target.removeprefix(b"./")
            collect(member, layer, tree)
        guest.end_stream()
        lay(layer, tree)
    for path in sorted({*SINGLE_FILES, *tree.wanted_paths}):
        if not path.startswith(b"/etc/"):
            _put_single(guest, tree, path)
    _put_targets(guest, tree)


def _put_link(guest: Guest, tree: MemoryTree, path: bytes) -> None:
    if _is(guest, "symlink", path):
        target = guest.ask(f"readlink {quoted(path)}").removesuffix(b"\n")
        if tree.reserve(path, len(target)):
            tree.put(path, Entry(Kind.LINK, len(target), target))


def _put_targets(guest: Guest, tree: MemoryTree) -> None:
    """Units that are links to files outside of the folders that were read."""
    for path, target in tree.unit_links()[:_MOST_LINKS]:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if place != b"/dev/null" and not Files(tree).exists(path):
            _put_single(guest, tree, place)


def _put_single(guest: Guest, tree: MemoryTree, path: bytes) -> None:
    """What is at `path`; its text only where that is asked for."""
    said = dict(line.partition(": ")[::2] for line in guest.words(f"statns {quoted(path)}"))
    if not said:
        if not _ABSENT.search(guest.complaint):
            tree.refuse(path, guest.complaint or "it could not be looked at")
        return
    mode, size = int(said.get("st_mode", "0")), int(said.get("st_size", "0"))
    kind = kind_of(mode)
    is_text = kind is Kind.FILE and path not in tree.large_paths
    is_read = is_text and size <= READ_LIMIT_BYTES
    if is_text and not is_read:
        tree.refuse(path, f"{size:,} bytes, more than {READ_LIMIT_BYTES:,}: not read")
    if not tree.reserve(path, size if is_read else 0):
        tree.refuse(path, TOO_MUCH)
        return
    content = b""
    if is_read and size:
        try:
            content = base64.b64decode(guest.ask(f"base64-out {quoted(path)} -"))
        except binascii.Error:
            tree.refuse(path, "it could not be read whole")
            return
    tree.put(path, Entry(kind, size, b"", bool(mode & 0o111)), content)


def quoted(path: bytes | str) -> str:
    """Every byte that is not plain as `\\xHH`: no name from the image is ever a command."""
    raw = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(byte) if byte in _PLAIN else f"\\x{byte:02x}" for byte in raw) + '"'
