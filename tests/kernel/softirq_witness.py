# SPDX-License-Identifier: Apache-2.0
"""Independent witnesses of what the network waited for its core: the tracepoints' own stamps, out of a trace instance of their own,
read as text and added up here. They share no code with the product."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_SOFTIRQ = {"irq/softirq_raise": "vec == 3", "irq/softirq_entry": "vec == 3"}
_SOFTIRQ_LINE = re.compile(r" ([0-9]+\.[0-9]+): softirq_(raise|entry): vec=3 ")
_NAME = "napi/far*"
_THREAD = {
    "sched/sched_wakeup": f'comm ~ "{_NAME}"',
    "sched/sched_switch": f'next_comm ~ "{_NAME}" || prev_comm ~ "{_NAME}"',
}
_THREAD_LINE = re.compile(
    r" ([0-9]+\.[0-9]+): (?:sched_wakeup: comm=(?P<woken>napi/far\S+) "
    r"|sched_switch: prev_comm=(?P<out>.*) prev_pid=.* prev_state=(?P<state>\S+) ==> next_comm=(?P<into>.*) next_pid=)"
)
LOOK_SECONDS = 0.01
"""Of the product's clock: what it sees begins and ends between two looks."""
_libc = ctypes.CDLL(None, use_errno=True)


class Witness:
    def __init__(self, file: Path, waits_in: Callable[[str], list[float]]) -> None:
        self._file, self._waits_in = file, waits_in

    def waits(self) -> list[float]:
        """Seconds, each."""
        return self._waits_in(self._file.read_text(encoding="ascii", errors="replace"))


def agree(one: float, other: float) -> bool:
    """Within a tenth, or a look of the clock at either end, or the next bucket of powers of two."""
    return abs(one - other) <= max(0.1 * other, 2 * LOOK_SECONDS) or 0.5 <= one / other <= 2.0


@contextmanager
def softirq_witness(core: int) -> Iterator[Witness]:
    """From the first raise to the run."""
    with _traced(_SOFTIRQ) as instance:
        yield Witness(instance / f"per_cpu/cpu{core}/trace", _softirq_waits)


@contextmanager
def thread_witness() -> Iterator[Witness]:
    """From when the thread that polls the far end of a pair (tests/kernel/veth.py) was woken, or was put aside, to when it ran."""
    with _traced(_THREAD) as instance:
        yield Witness(instance / "trace", _thread_waits)


def _softirq_waits(text: str) -> list[float]:
    found, raised = [], None
    for stamp, what in _SOFTIRQ_LINE.findall(text):
        if what == "raise":
            raised = float(stamp) if raised is None else raised
        elif raised is not None:
            found.append(float(stamp) - raised)
            raised = None
    return found


def _thread_waits(text: str) -> list[float]:
    found, since, is_running = [], None, False
    for line in _THREAD_LINE.finditer(text):
        stamp = float(line[1])
        if (line["into"] or "").startswith("napi/far"):
            if since is not None:
                found.append(stamp - since)
            since, is_running = None, True
        elif not line["woken"]:
            if since is not None:  # a switch away from idle is not told here: it ran, at the latest when it went again
                found.append(stamp - since)
            since, is_running = stamp if line["state"].startswith("R") else None, False
        elif not is_running and since is None:  # one that runs is woken, too, when more packets come
            since = stamp
    return found


@contextmanager
def _traced(events: Mapping[str, str]) -> Iterator[Path]:
    """Events and their filters. Mounts tracefs where nobody looks for it, for as long as it lasts."""
    with tempfile.TemporaryDirectory() as name:
        if _libc.mount(b"tracefs", name.encode(), b"tracefs", 0, None):
            raise AssertionError(f"tracefs: {os.strerror(ctypes.get_errno())}")
        instance = Path(name) / "instances" / f"witness-{os.getpid()}"
        try:
            instance.mkdir()
            (instance / "trace_clock").write_text("mono")
            (instance / "buffer_size_kb").write_text("8192")
            for event, chosen in events.items():
                (instance / "events" / event / "filter").write_text(chosen)
                (instance / "events" / event / "enable").write_text("1")
            yield instance
        finally:
            if instance.exists():
                for event in events:
                    (instance / "events" / event / "enable").write_text("0")
                instance.rmdir()
            _libc.umount2(name.encode(), 2)
