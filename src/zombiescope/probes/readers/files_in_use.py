# SPDX-License-Identifier: Apache-2.0
"""Which of some files a live process has open or mapped. Reads /proc/PID/fd and /proc/PID/maps once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.access import Host
from zombiescope.host.files import FileKey, files_in_use
from zombiescope.host.live import LiveHost
from zombiescope.kernel.mount_paths import device_of, open_files
from zombiescope.probes.kernel_text import number, refusal
from zombiescope.probes.processes import read_processes, who_is

PageKey = tuple[str, int]
"""`major:minor` and inode."""
_HOLDER_FACT = "zombies[].pins[].holder"


def read_shared_memory_holders(host: Host, wanted: Mapping[PageKey, bytes]) -> dict[PageKey, HeldBy] | Gap:
    """`wanted`: each with its last name, by which an open file is recognised before it is looked at."""
    if not isinstance(host, LiveHost):
        return Gap(_HOLDER_FACT, "a recording does not keep who has which file open", "run it on the host itself")
    processes = read_processes(host, _HOLDER_FACT)
    if isinstance(processes, Gap):
        return processes
    missing, found, names = set(wanted), {}, frozenset(wanted.values()) - {b""}
    for process in processes:
        if not missing:
            break
        held = _mapped(host, process, missing) | _opened(host, process, missing, names)
        if held:
            found.update(dict.fromkeys(held, who_is(host, process)))
            missing -= held
    return found


def _mapped(host: LiveHost, process: int, wanted: set[PageKey]) -> set[PageKey]:
    try:
        lines = host.read(b"/proc/%d/maps" % process, limit=64 << 20).split(b"\n")
    except OSError:
        return set()
    keys = {tuple(fields[3:5]) for fields in (line.split(None, 5) for line in lines) if len(fields) >= 5}
    return {key for key in (_key(*words) for words in keys if len(words) == 2) if key in wanted}


def _key(device: bytes, inode: bytes) -> PageKey:
    """maps writes devices in hexadecimal."""
    major, _, minor = device.partition(b":")
    try:
        return f"{int(major, 16)}:{int(minor, 16)}", number(inode) or 0
    except ValueError:
        return "", 0


def _opened(host: LiveHost, process: int, wanted: set[PageKey], names: frozenset[bytes]) -> set[PageKey]:
    held = set()
    try:
        for link, name in open_files(host.root + b"/proc/%d" % process):
            if name.startswith(b"/memfd:") or name.endswith(b" (deleted)") or name.rpartition(b"/")[2] in names:
                held.add((device_of(link), host.inode(link.removeprefix(host.root)) or 0))
    except OSError:
        return held & wanted
    return held & wanted


_FACT = "steps[].change.files"


class FilesInUse(NamedTuple):
    holders: Mapping[bytes, HeldBy]
    """By path."""
    gaps: tuple[Gap, ...] = ()


def read_files_in_use(host: Host, wanted: Mapping[FileKey, bytes], known: int = 0) -> FilesInUse:
    """`wanted`: paths by device and inode; `known`: files beside them whose user the walk named."""
    if not isinstance(host, LiveHost):
        why = "a recording does not keep who has which file open"
        if known:
            of = f"{known:,} of {known + len(wanted):,} files in memory"
            why = f"the recording names a user of {of}; who has the rest open it does not keep"
        return FilesInUse({}, (Gap(_FACT, why, "run it on the host"),))
    try:
        seen = files_in_use(wanted, host.root + b"/proc")
    except OSError as error:
        return FilesInUse({}, (refusal(_FACT, b"/proc", error),))
    holders = {wanted[key]: who for key, who in seen.holders.items()}
    if not seen.unread:
        return FilesInUse(holders)
    some = "1 process" if seen.unread == 1 else f"{seen.unread:,} processes"
    why = f"{some} could not be looked into: what is open there may be listed for deletion"
    return FilesInUse(holders, (Gap(_FACT, why, "apply asks the kernel once more and leaves alone what is in use"),))
