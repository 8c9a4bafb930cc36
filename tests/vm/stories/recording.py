# SPDX-License-Identifier: Apache-2.0
"""Makes a few zombies of several kinds, records the machine, and writes down the truth: `python3 -m tests.vm.stories.recording`.

Leaves /out/node.tar.gz and /out/truth.json. The truth is the kernel's own count, read here and not by the product.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.vm.cells import Cell, Hierarchy, cell_named
from tests.vm.stories.groves import Grove, dying, memory_mount, quiet, settled, zombies_on_v1
from tests.vm.stories.pins import PINS, SWAP
from tests.vm.stories.product import document

KINDS = {"page_cache": 6, "tmpfs": 8, "socket": 3, "task": 2}


def count(cell: Cell) -> int:
    return zombies_on_v1() if cell.memory_is_v1 else dying(memory_mount(cell))


def main() -> int:
    cell = cell_named(os.environ["ZOMBIESCOPE_VM_CELL"])
    wanted = [(pin, KINDS[pin.kind]) for pin in PINS if pin.kind in KINDS]
    if cell.swap_megabytes and cell.hierarchy is Hierarchy.V2:
        wanted.append((SWAP, 4))
    before = quiet(lambda: count(cell))
    groves = {pin.kind: Grove(cell, f"story-{pin.kind}") for pin, _ in wanted}
    try:
        for pin, number in wanted:
            for each in range(number):
                groves[pin.kind].bury(f"dead{each}", pin.bury)
        expected = before + sum(number for pin, number in wanted if pin.keeps(cell))
        zombies = settled(lambda: count(cell), expected)
        document("record", "/out/node.tar.gz", "--seconds", "2", "--force", "--keep-names")
        assert count(cell) == zombies, "the number of zombies changed while it was recorded"
        parents = {} if cell.memory_is_v1 else {grove.path: dying(grove.folder) for grove in groves.values()}
        Path("/out/truth.json").write_text(json.dumps({"zombies": zombies, "parents": parents}))
    finally:
        for grove in groves.values():
            grove.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
