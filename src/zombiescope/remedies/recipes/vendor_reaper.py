# SPDX-License-Identifier: Apache-2.0
"""Some vendors' kernels free zombies themselves when asked: a file to write 1 to, taken where it is there."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import Risk, SetFile, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.RECLAIM_PARENT,)


def propose(situation: Situation) -> Iterator[Draft]:
    wanted = situation.choices.of(Remedy.RECLAIM_PARENT)
    if situation.levers.vendor_reaper and wanted:
        yield Draft(
            "vendor-reaper",
            "let this vendor's kernel reap its zombies",
            SetFile(situation.levers.vendor_reaper, b"1"),
            "the kernel has a reaper for zombie memory cgroups; it scans what reclaim would",
            "pinned-page-cache",
            "zombiescope scan",
            Risk.MEDIUM,
            Undo.NONE,
            needs_consent=True,
        )
