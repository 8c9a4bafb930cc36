# SPDX-License-Identifier: Apache-2.0
"""Files that stand for the kernel's tables of pages: a word a frame, in plain files."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path

from zombiescope.kernel.pages import PageFrames


def word_file(folder: Path, name: str, words: Mapping[int, int]) -> int:
    length = max(words, default=0) + 1
    table = array("Q", [words.get(index, 0) for index in range(length)])
    (folder / name).write_bytes(table.tobytes())
    return os.open(folder / name, os.O_RDONLY)


def page_frames(
    folder: Path,
    owners: Mapping[int, int],
    flags: Mapping[int, int] | None = None,
    own: Mapping[int, int] | None = None,
    page_bytes: int = 4096,
) -> PageFrames:
    return PageFrames(
        word_file(folder, "owners", owners),
        word_file(folder, "flags", flags or {}),
        word_file(folder, "own", own or {}),
        page_bytes,
    )


class OneOwner(PageFrames):
    """Every page that is mapped in belongs to the one memory cgroup; frames are counted up."""

    def __init__(self, owner: int) -> None:
        super().__init__(-1, -1, -1)
        self._owner = owner
        self._frame = 0
        self.resident: set[int] = set()

    def at(self, first_page: int, pages: int) -> list[int]:
        found = []
        for page in range(first_page, first_page + pages):
            self._frame += 1
            found.append(self._frame if is_mapped_in(page) else 0)
        return found

    def owners(self, frames: Iterable[int]) -> dict[int, int]:
        return dict.fromkeys(frames, self._owner)


def is_mapped_in(page: int) -> bool:
    """Our own page table tells anybody whether a page is there, if not where."""
    with open("/proc/self/pagemap", "rb", buffering=0) as table:
        table.seek(page * 8)
        return bool(int.from_bytes(table.read(8), "little") >> 63)
