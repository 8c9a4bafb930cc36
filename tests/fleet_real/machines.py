# SPDX-License-Identifier: Apache-2.0
"""Machines of the kernel matrix with a network card: one port of this host's loopback leads to the agent in each."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.fleet_real.in_machine import PORT
from tests.server.running import free_port
from tests.vm.build import Store
from tests.vm.cells import cell_named
from tests.vm.job import stage
from tests.vm.machine import CARD, STOP, run_job
from tests.vm.modules import kernel_modules

_MOST_PROCESSOR_SECONDS = 3600.0
_PROGRAM = Path(__file__).with_name("in_machine.py")


@contextmanager
def machine(folder: Path, cell_name: str, image: str, *, looping: bool) -> Iterator[str]:
    """Its agent's address on this host; the machine is gone afterwards."""
    store, port = Store(), free_port()
    cell = replace(cell_named(cell_name), forwarded=((port, PORT),))
    store.ensure([cell.image], [cell.kernel_part])
    folder.mkdir()
    modules = kernel_modules(store, cell.kernel_part, CARD, built_in=CARD[:1])
    inside = [f"/job/{module.name}" for module in modules]
    words = ["python3", "/job/in_machine.py", image, "looping" if looping else "quiet", *inside]
    job = stage(folder / "job", cell, words)
    for path in (*modules, _PROGRAM):
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
