# SPDX-License-Identifier: Apache-2.0
"""Which process has shared memory or mapped cache of the dead open or mapped: memfds, shared anonymous memory, tmpfs files with and
without a name.

Reads /proc/PID/maps, and the open files of a process where its mappings did not tell. One holder is enough: all must let go.
"""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.kernel.mount_paths import device_of, open_files
from zombiescope.probes.kernel_text import number
from zombiescope.probes.processes import read_processes, who_is

FileKey = tuple[str, int]
"""`major:minor` and inode."""
_FACT = "zombies[].pins[].holder"


def read_shared_memory_holders(host: Host, wanted: Mapping[FileKey, bytes]) -> dict[FileKey, HeldBy] | Gap:
    """`wanted`: each with its last name, by which an open file is recognised before it is looked at."""
    if not isinstance(host, LiveHost):
        return Gap(_FACT, "a recording does not keep who has which file open", "run it on the host itself")
    processes = read_processes(host, _FACT)
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


def _mapped(host: LiveHost, process: int, wanted: set[FileKey]) -> set[FileKey]:
    try:
        lines = host.read(b"/proc/%d/maps" % process, limit=64 << 20).split(b"\n")
    except OSError:
        return set()
    keys = {tuple(fields[3:5]) for fields in (line.split(None, 5) for line in lines) if len(fields) >= 5}
    return {key for key in (_key(*words) for words in keys if len(words) == 2) if key in wanted}


def _key(device: bytes, inode: bytes) -> FileKey:
    """maps writes devices in hexadecimal."""
    major, _, minor = device.partition(b":")
    try:
        return f"{int(major, 16)}:{int(minor, 16)}", number(inode) or 0
    except ValueError:
        return "", 0


def _opened(host: LiveHost, process: int, wanted: set[FileKey], names: frozenset[bytes]) -> set[FileKey]:
    held = set()
    try:
        for link, name in open_files(host.root + b"/proc/%d" % process):
            if name.startswith(b"/memfd:") or name.endswith(b" (deleted)") or name.rpartition(b"/")[2] in names:
                held.add((device_of(link), host.inode(link.removeprefix(host.root)) or 0))
    except OSError:
        return held & wanted
    return held & wanted
