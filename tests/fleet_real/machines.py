# SPDX-License-Identifier: Apache-2.0
"""Machines of the kernel matrix with a network card: one port of this host's loopback leads to the agent in each."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.server.running import free_port
from tests.vm.archive import PrivateApt
from tests.vm.build import Store
from tests.vm.cells import cell_named
from tests.vm.initramfs import _in_order, _read_modules  # a change in that file would build every kernel anew
from tests.vm.job import stage
from tests.vm.machine import STOP, run_job
from tests.vm.recipe import KERNEL_SUITES

CARD = "virtio_net"
MODULES = ("virtio_pci", CARD)
"""The first is built into newer kernels."""
_MOST_PROCESSOR_SECONDS = 3600.0
_PROGRAM = Path(__file__).with_name("in_machine.py")


def card_modules(store: Store, series: str, folder: Path) -> list[str]:
    """The card's modules out of the very package that the machine's kernel came from, in the order in which they are loaded."""
    facts = json.loads((store.kernel(series).parent / "part.json").read_text())
    kept = store.folder / f"card-{series}-{facts['version']}"
    if not (kept / "order").exists():
        apt = PrivateApt(folder / "apt", KERNEL_SUITES)
        apt.update()
        found = _read_modules(apt.download_one(f"{facts['package']}={facts['version']}"))
        order = _in_order([name for name in MODULES if name in found or name == CARD], found)
        kept.mkdir(exist_ok=True)
        for name in order:
            (kept / f"{name}.ko").write_bytes(found[name])
        (kept / "order").write_text("\n".join(order))
    return [str(kept / f"{name}.ko") for name in (kept / "order").read_text().split()]


@contextmanager
def machine(folder: Path, cell_name: str, image: str, *, looping: bool) -> Iterator[str]:
    """Its agent's address on this host; the machine is gone afterwards."""
    store, port = Store(), free_port()
    cell = replace(cell_named(cell_name), forwarded_port=port)
    store.ensure([cell.image], [cell.kernel_part])
    folder.mkdir()
    modules = card_modules(store, cell.kernel_part, folder)
    inside = [f"/job/{Path(module).name}" for module in modules]
    words = ["python3", "/job/in_machine.py", image, "looping" if looping else "quiet", *inside]
    job = stage(folder / "job", cell, words)
    for path in (*modules, str(_PROGRAM)):
        shutil.copy(path, job)
    running = threading.Thread(target=run_job, args=(store, cell, job, folder / "out", _MOST_PROCESSOR_SECONDS))
    running.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        STOP.set()
        running.join()


def told(folder: Path) -> str:
    """What a machine said so far, for a test that fails."""
    live = folder / "out" / "live"
    return live.read_text(errors="replace")[-3000:] if live.exists() else "nothing"
