# SPDX-License-Identifier: Apache-2.0
"""The only door to a machine: this host, a host mounted elsewhere, or a folder that stands for one.

Every path is absolute on that machine, in bytes. A read that fails raises OSError with the errno that the machine gave, live
or recorded; readers turn it into a gap.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

READ_LIMIT_BYTES = 16 << 20
NOT_RECORDED = "Not in the recording"
"""The words of an ENOENT of a recording that did not ask: it says nothing about the machine."""


class DirectoryWalk(NamedTuple):
    """Every directory at and below a place, as paths relative to it (`b"/"` is the place itself), parents first."""

    paths: tuple[bytes, ...]
    leaves: tuple[bytes, ...]
    """Those with no directory inside."""
    unreadable: tuple[tuple[bytes, int], ...]
    """Directories that exist but could not be listed, with the errno. Those that vanished meanwhile are left out."""


class Host(Protocol):
    @property
    def label(self) -> str:
        """What a person calls it."""

    @property
    def is_live(self) -> bool:
        """Time passes there, and a second read may differ from the first."""

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        """The whole file; EFBIG beyond the limit."""

    def subdirectories(self, path: bytes) -> list[bytes]:
        """Names of the directories in a directory."""

    def directories(self, path: bytes) -> DirectoryWalk: ...

    def inode(self, path: bytes) -> int | None:
        """The inode number, or None where a recording did not keep it."""

    def wait(self, seconds: float) -> None:
        """Let time pass there; a recording moves on to its next moment at once."""

    def wall_clock(self) -> float:
        """Seconds since the epoch, now or when the recording was made."""

    def monotonic(self) -> float:
        """Seconds on a clock that only goes forward; for timing inside an experiment."""

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Do what no file can tell (time a read, walk the kernel's lists). The outcome is plain JSON: a recording keeps it and
        gives it back, or answers None where it was not done then."""


def read_or_nothing(host: Host, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
    """Where a refusal means no more than that there is nothing to see."""
    try:
        return host.read(path, limit)
    except OSError:
        return b""


def names_or_nothing(host: Host, path: bytes) -> list[bytes]:
    """The same of the directories in a directory."""
    try:
        return host.subdirectories(path)
    except OSError:
        return []


def answers(question: Callable[[bytes], object], path: bytes) -> bool:
    """Whether a machine answers this of a path, and does not refuse: of `host.inode`, whether something is there."""
    try:
        question(path)
    except (OSError, ValueError):
        return False
    return True


def beside_recording(host: Host) -> Host:
    """The same machine for looks of which a recording keeps only the outcome, as an experiment."""
    return getattr(host, "beneath", host)
