# SPDX-License-Identifier: Apache-2.0
"""Which of some files a live process has open or mapped. Reads /proc/PID/fd and /proc/PID/maps once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.access import Host
from zombiescope.host.files_in_use import FileKey, files_in_use
from zombiescope.host.live import LiveHost
from zombiescope.probes.kernel_text import refusal

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
