# SPDX-License-Identifier: Apache-2.0
"""A guestfish that answers questions: started with limits, as nobody where root starts it, and ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.bounds import limit_child
from zombiescope.host.images.disks import Disk
from zombiescope.host.images.streams import Allowance

_ANSWER_SECONDS = 300.0
_WHOLE_SECONDS = 1800.0
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
        deadline = time.monotonic() + seconds
        while self._mark not in self._ready:
            self._more(deadline)
        answer, _, self._ready = self._ready.partition(self._mark)
        self._hear()
        return answer

    def words(self, command: str) -> list[str]:
        """Lines of an answer."""
        return self.ask(command).decode("utf-8", "replace").splitlines()

    def stream(self, command: str) -> Stream | None:
        """A tar archive on the way out; None where the answer was none."""
        self._say(command)
        deadline = time.monotonic() + _ANSWER_SECONDS
        while len(self._ready) < len(self._mark):
            self._more(deadline)
        if self._ready.startswith(self._mark):
            self._ready = self._ready[len(self._mark) :]
            self._hear()
            return None
        return Stream(self)

    def take(self, size: int) -> bytes:
        """So many bytes of a stream."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while len(self._ready) < size:
            self._more(deadline)
        data, self._ready = self._ready[:size], self._ready[size:]
        self._allowance.take(size)
        return data

    def end_stream(self) -> None:
        """Past the padding, up to the mark."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while self._mark not in self._ready:
            self._more(deadline)
        rest, _, self._ready = self._ready.partition(self._mark)
        self._hear()
        if rest.strip(b"\0") or self.complaint:
            why = self.complaint or "libguestfs sent more than an archive"
            raise ObservationError(self._what, why, "is its file system damaged?")

    def _say(self, command: str) -> None:
        self._hear()
        self.complaint = ""
        prefix = "" if command == "run" else "-"
        try:
            self._in.write(f"{prefix}{command}\necho {self._mark.decode()}".encode())
            self._in.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _more(self, deadline: float) -> None:
        left = min(deadline, self._ends_at) - time.monotonic()
        if left <= 0 or not select.select([self._out], [], [], left)[0]:
            raise ObservationError(
                self._what, "libguestfs did not answer in time", "is it damaged? try guestfish by hand"
            )
        data = os.read(self._out, _CHUNK)
        if not data:
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
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    if process.stdout is not None:
        process.stdout.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
            break
    if process.stderr is not None:
        process.stderr.close()


def nobody() -> int | None:
    """Whom root plays; None for everybody else."""
    return _NOBODY if os.geteuid() == 0 else None


def user_for(place: bytes) -> int | None:
    """nobody, if we are root and nobody can read the disk; else whoever we are."""
    user = nobody()
    if user is None:
        return None
    try:
        asked = subprocess.run([b"test", b"-r", place], user=user, group=user, extra_groups=[], check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return user if asked.returncode == 0 else None
