# SPDX-License-Identifier: Apache-2.0
"""A kernel that drops clean pages nobody has read for a while, of its own accord: DAMON with a scheme `pageout`.

Where one runs, a page-cache zombie can go at any moment, and a test may find some of them gone; everywhere else each must be
there. Who drops a page can be seen with the tracepoint filemap:mm_filemap_delete_from_page_cache: `kdamond.0`, nobody else.
"""

from __future__ import annotations

from pathlib import Path

_DAMON = Path("/sys/kernel/mm/damon/admin/kdamonds")
_MODULE = Path("/sys/module/damon_reclaim/parameters/enabled")


def drops_idle_pages() -> bool:
    for thread in _DAMON.glob("[0-9]*"):
        actions = thread.glob("contexts/*/schemes/*/action")
        if (thread / "state").read_text().strip() == "on" and any(
            path.read_text().strip() == "pageout" for path in actions
        ):
            return True
    return _MODULE.exists() and _MODULE.read_text().strip() == "Y"


def most_lost(count: int) -> int:
    """How many of `count` page-cache zombies a test may find gone: none, unless somebody drops idle pages here."""
    return max(count // 20, 1) if drops_idle_pages() else 0
