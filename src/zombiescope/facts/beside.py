# SPDX-License-Identifier: Apache-2.0
"""What was found beside a walk, or in its place. A host whose zombies were walked has none of it, and does not load what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zombiescope.facts.page_free_pins import PageFreePins
    from zombiescope.facts.page_pins import PinnedFile


class Beside(NamedTuple):
    """What was found where the zombies could not be seen one by one: files by parent, and pins that hold no page."""

    files: tuple[PinnedFile, ...] = ()
    pins: PageFreePins | None = None


NOTHING_BESIDE = Beside()
