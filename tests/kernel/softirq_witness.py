# SPDX-License-Identifier: Apache-2.0
"""An independent witness of what a core's network softirqs waited: the tracepoints' own stamps, out of a trace instance of its own,
read as text and added up here. It shares no code with the product."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_EVENTS = ("irq/softirq_raise", "irq/softirq_entry")
_LINE = re.compile(r" ([0-9]+\.[0-9]+): softirq_(raise|entry): vec=3 ")
_libc = ctypes.CDLL(None, use_errno=True)


class Witness:
    def __init__(self, instance: Path, core: int) -> None:
        self._instance, self._core = instance, core

    def waits(self) -> list[float]:
        """Seconds from the first raise to the run, each."""
        text = (self._instance / f"per_cpu/cpu{self._core}/trace").read_text(encoding="ascii", errors="replace")
        found, raised = [], None
        for stamp, what in _LINE.findall(text):
            if what == "raise":
                raised = float(stamp) if raised is None else raised
            elif raised is not None:
                found.append(float(stamp) - raised)
                raised = None
        return found


@contextmanager
def softirq_witness(core: int) -> Iterator[Witness]:
    """Mounts tracefs where nobody looks for it, for as long as it lasts."""
    with tempfile.TemporaryDirectory() as name:
        if _libc.mount(b"tracefs", name.encode(), b"tracefs", 0, None):
            raise AssertionError(f"tracefs: {os.strerror(ctypes.get_errno())}")
        instance = Path(name) / "instances" / f"witness-{os.getpid()}"
        try:
            instance.mkdir()
            (instance / "trace_clock").write_text("mono")
            (instance / "buffer_size_kb").write_text("8192")
            for event in _EVENTS:
                (instance / "events" / event / "filter").write_text("vec == 3")
                (instance / "events" / event / "enable").write_text("1")
            yield Witness(instance, core)
        finally:
            if instance.exists():
                for event in _EVENTS:
                    (instance / "events" / event / "enable").write_text("0")
                instance.rmdir()
            _libc.umount2(name.encode(), 2)
