# SPDX-License-Identifier: Apache-2.0
"""Who has a file open or mapped, asked of a /proc that is a folder."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from zombiescope.host.files import files_in_use

MAPPED = "7f0000000000-7f0000001000 r--p 00000000 fe:01 {inode}                     /{name}\n"


def process(proc: Path, maps: str) -> None:
    folder = proc / "4242"
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text("hoarder\n")
    (folder / "maps").write_text(maps)


def test_a_mapped_file_is_in_use(tmp_path: Path) -> None:
    process(tmp_path, MAPPED.format(inode=11, name="a b (deleted)") + "ffff-10000 r-xp 00000000 00:00 0 [vsyscall]\n")
    seen = files_in_use({("254:1", 11), ("254:1", 12)}, bytes(tmp_path))
    assert {key: who.process for key, who in seen.holders.items()} == {("254:1", 11): 4242}
    assert seen.unread == 0


def test_a_process_with_very_many_maps_takes_little_memory(tmp_path: Path) -> None:
    process(tmp_path, "".join(MAPPED.format(inode=1 + each % 9, name="x" * 4000) for each in range(6000)))
    tracemalloc.start()
    try:
        seen = files_in_use({("254:1", 9)}, bytes(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert set(seen.holders) == {("254:1", 9)}
    assert peak < 8 << 20  # of 24 MB
