# SPDX-License-Identifier: Apache-2.0
"""One line a zombie, for a spreadsheet: RFC 4180 quoting."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.analysis.autopsy import Body
from zombiescope.facts.names import shown
from zombiescope.presenters.document import rfc3339

COLUMNS = (
    "id", "path", "parent", "maker", "born_at", "refs", "file_pages", "shmem_pages", "anon_pages", "unevictable_pages",
    "swap_pages", "pins", "files", "freed_by",
)  # fmt: skip


def render_autopsy_csv(bodies: Iterable[Body]) -> str:
    return "\r\n".join([",".join(COLUMNS), *(",".join(map(_quoted, _row(body))) for body in bodies)])


def _row(body: Body) -> list[object]:
    zombie = body.zombie
    names = [pin.path if pin.path is not None else pin.path_in_fs for pin in zombie.pins]
    return [
        zombie.id,
        shown(zombie.path),
        shown(zombie.parent),
        body.maker,
        None if zombie.born_at is None else rfc3339(zombie.born_at),
        zombie.references.total,
        *zombie.pages,
        " ".join(pin.kind for pin in zombie.pins),
        " ".join(shown(name) for name in names if name is not None),
        " | ".join(f"{remedy.action} {remedy.target}" for remedy in body.remedies),
    ]


def _quoted(value: object) -> str:
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\r\n') else text
