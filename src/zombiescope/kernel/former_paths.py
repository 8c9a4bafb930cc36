# SPDX-License-Identifier: Apache-2.0
"""Of each dead cgroup in a walk only its former path and whether pages of it are in swap: what a count by maker needs, at a
fraction of the price of an autopsy."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.kernel.raw import CSS_DYING, CSS_ONLINE, RawMemcg


def former_paths(memcgs: list[RawMemcg]) -> Iterator[tuple[bytes, bool | None]]:
    """Parents come before their children. The second is None where the kernel does not say."""
    above: dict[int, bytes] = {}
    for memcg in memcgs:
        parent = memcg.parent
        path = above.get(parent, b"") + b"/" + memcg.name if parent else b""
        above[memcg.css] = path
        flags = memcg.flags
        if flags & CSS_DYING:
            # Killed but not yet offline it still holds its own id once, which is no page in swap.
            held = memcg.swap - (memcg.swap > 0 and flags & CSS_ONLINE > 0)
            yield path or b"/", None if held < 0 else held > 0
