# SPDX-License-Identifier: Apache-2.0
"""Runs a lab command in a throw-away machine with its own kernel and systemd, and brings its document back.

The machines are those of the tests (`tests/vm`): built on first use from Debian's packages, booted by QEMU without hardware help.
Their recipe is part of a checkout, not of the installed package.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zombiescope.errors import ActionUndoneError, ObservationError

CELL = "6.1-v2"
_PROGRAMS = ("qemu-system-x86_64", "mke2fs", "apt-get", "setpriv")
_NOT_BUILT, _NOT_FINISHED, _NEVER_STARTED = 3, 124, 125
_DOCUMENT = "document.json"


class MachineOrder(NamedTuple):
    cell: str
    words: tuple[str, ...]
    """Of our command, without the program's name."""
    processor_seconds: float
    """What the machine may take."""


def run_in_machine(order: MachineOrder, tell: Callable[[str], None], tick: Callable[[str], None]) -> dict[str, Any]:
    """`tell` gets each line that the command says inside, `tick` what is being done, several times a second."""
    checkout = find_checkout()
    out = checkout / "build" / "vm" / "incident" / order.cell
    out.parent.mkdir(parents=True, exist_ok=True)
    code, words = _boot(checkout, order, out, tell, tick)
    if code != 0:
        raise _failure(code, order.cell, words)
    document: dict[str, Any] = json.loads((out / _DOCUMENT).read_text())
    return document


def find_checkout() -> Path:
    """Where the recipe is; a clear refusal where it is not, or where a program is missing."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / "tests" / "vm" / "run.py").is_file():
        raise ObservationError(
            "cannot boot a throw-away machine",
            "the recipe of its image is part of the sources, not of the installed package",
            "in a clone of the sources: make .venv/.ready && .venv/bin/zombiescope lab incident --vm",
        )
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        raise ObservationError(
            "cannot boot a throw-away machine",
            f"not installed: {', '.join(missing)}",
            f"{checkout}/tools/install-packages   (or: apt install qemu-system-x86 e2fsprogs util-linux)",
        )
    return checkout


def _boot(
    checkout: Path, order: MachineOrder, out: Path, tell: Callable[[str], None], tick: Callable[[str], None]
) -> tuple[int, str]:
    inside = f"python3 -m zombiescope {shlex.join(order.words)} --json >/out/{_DOCUMENT}"
    (out / "live").unlink(missing_ok=True)
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        sys.executable,
        "-m",
        "tests.vm.run",
        "--cell",
        order.cell,
        "--out",
        str(out),
    ]
    command += ["--timeout", f"{order.processor_seconds:.0f}", "--", "sh", "-c", inside]
    last = ""
    told = out.parent / f"{order.cell}.words"
    with _machine(command, checkout, told) as machine:
        began = time.monotonic()
        lines = _Growing(out / "live")
        while True:
            ended = machine.poll() is not None
            for line in lines.more():
                tell(line)
                last = line
            if ended:
                break
            doing = last or f"building or booting {order.cell}"
            tick(f"{time.monotonic() - began:.0f} s in the machine; last: {doing}")
            time.sleep(0.2)
    return machine.returncode, told.read_text(errors="replace").strip()


@contextmanager
def _machine(command: list[str], checkout: Path, words: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ended with us, however we end, and with it the machine: each asks the kernel to die with whoever started it."""
    with words.open("wb") as output:
        machine = subprocess.Popen(command, cwd=checkout, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield machine
    finally:
        if machine.poll() is None:
            machine.terminate()
        machine.wait()


class _Growing:
    """Whole lines of a file that another process writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._at = path, 0

    def more(self) -> list[str]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        whole = data.rpartition(b"\n")[0]
        if not whole:
            return []
        self._at += len(whole) + 1
        return [line.rstrip() for line in whole.decode(errors="replace").splitlines() if line.strip()]


def _failure(code: int, cell: str, words: str) -> ObservationError | ActionUndoneError:
    """The machine is gone whatever happened: nothing is left to undo."""
    lines = words.splitlines()
    errors = [at for at, line in enumerate(lines) if line.startswith("error:")]
    picked = lines[errors[-1] : errors[-1] + 2] if errors else lines[-3:]
    said = "; ".join(" ".join(line.split()) for line in picked)[-600:] or f"exit code {code}"
    if code in {_NOT_BUILT, _NEVER_STARTED} or "invalid choice" in words:
        return ObservationError(f"cannot boot the throw-away machine {cell}", said, "tests/vm/README.md")
    if code == _NOT_FINISHED:
        return ActionUndoneError(f"the machine {cell} was cut off", said, "a smaller --count")
    return ActionUndoneError(
        f"the command failed in the machine {cell}",
        said,
        "zombiescope lab incident, without --vm, shows the same stages here",
    )
