# SPDX-License-Identifier: Apache-2.0
"""Whether this kernel gives a dead cgroup's pages to its parent [absent 7.0/present 7.1]: then what memory.stat counts at a
parent is the parent's, and no file shows the difference. Told by the name of the function that does it.
"""

from __future__ import annotations

from zombiescope.host.access import Host

_TYPES, _SYMBOLS = b"/sys/kernel/btf/vmlinux", b"/proc/kallsyms"
_MOST_BYTES = 128 << 20
_FUNCTION = b"lru_reparent_memcg"


def hands_pages_on(host: Host) -> bool:
    """False where nothing tells: kernels that do it have both files."""
    return bool(is_told_to_hand_on(host))


def is_told_to_hand_on(host: Host) -> bool | None:
    """None where a recording did not keep it."""
    outcome = host.experiment("hands_pages_on", lambda: {"hands_pages_on": _look(host)})
    return None if outcome is None else bool(outcome.get("hands_pages_on"))


def _look(host: Host) -> bool:
    """Type information first: it is a plain file, and the table of symbols is written anew for each reader."""
    try:
        return b"\0" + _FUNCTION + b"\0" in host.read(_TYPES, _MOST_BYTES)
    except OSError:
        pass
    try:
        return b" " + _FUNCTION + b"\n" in host.read(_SYMBOLS, _MOST_BYTES)
    except OSError:
        return False
