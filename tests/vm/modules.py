# SPDX-License-Identifier: Apache-2.0
"""Modules of a machine's kernel, for a job that needs a driver which the kernel does not have built in."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.vm.archive import PrivateApt
from tests.vm.build import Store
from tests.vm.initramfs import _in_order, _read_modules  # a change in that file would build every kernel anew
from tests.vm.recipe import KERNEL_SUITES


def kernel_modules(store: Store, part: str, wanted: Sequence[str], built_in: Sequence[str] = ()) -> list[Path]:
    """Out of the very package that the kernel came from, in the order in which they are loaded. `built_in`: those of them that some
    kernels have inside."""
    facts = json.loads((store.kernel(part).parent / "part.json").read_text())
    key = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:8]
    kept = store.folder / f"modules-{part}-{facts['version']}-{key}"
    if not (kept / "order").exists():
        with tempfile.TemporaryDirectory() as folder:
            apt = PrivateApt(Path(folder), KERNEL_SUITES)
            apt.update()
            found = _read_modules(apt.download_one(f"{facts['package']}={facts['version']}"))
        order = _in_order([name for name in wanted if name in found or name not in built_in], found)
        kept.mkdir(exist_ok=True)
        for name in order:
            (kept / f"{name}.ko").write_bytes(found[name])
        (kept / "order").write_text("\n".join(order))
    return [kept / f"{name}.ko" for name in (kept / "order").read_text().split()]
