# SPDX-License-Identifier: Apache-2.0
"""Births, deaths and releases from a private tracefs instance: where BPF is refused. What its buffer could not hold is counted
by the kernel and said as lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, Dead, EventTier, Flow, Histogram, Lifecycle
from zombiescope.kernel.leaf_names import pattern_of
from zombiescope.kernel.trace_events import Event, EventFormat, PageReader, parse_event_format
from zombiescope.kernel.tracefs import Instance, TracefsError

EVENTS = ("cgroup_mkdir", "cgroup_rmdir", "cgroup_release")
_BUFFER_KIBIBYTES = 1024
_PACES = ((0.5, 0.1), (0.2, 0.25), (0.05, 0.5), (0.0, 1.0))
"""How full the fullest buffer was, and after how many seconds to look again."""
_MOST_PATTERNS = 4096
_MOST_DEAD = 65536
_BUCKETS = 48
_BIRTH, _DEATH = 0, 1
_LOST = (b"overrun:", b"commit overrun:", b"dropped events:")


class TraceLedger:
    tier = EventTier.TRACEFS

    def __init__(
        self,
        hierarchy_number: int,
        wall_clock: Callable[[], float],
        buffer_kibibytes: int = _BUFFER_KIBIBYTES,
        refused: tuple[Gap, ...] = (),
    ) -> None:
        """`refused`: why it is not a better tier; told with each reading."""
        self.refused = refused
        self._wall_clock = wall_clock
        self._buffer_bytes = buffer_kibibytes * 1024
        self._instance = Instance()
        self._pipes: list[int] = []
        self._total = Counts()
        self._flows: dict[tuple[bytes, bytes], tuple[bytes, list[int]]] = {}
        self._other = [0, 0, 0]
        self._died: dict[int, int] = {}
        self._zombie_times = [0] * _BUCKETS
        try:
            self._pages = self._begin(hierarchy_number, buffer_kibibytes)
            self._pipes.extend(self._instance.open(f"per_cpu/{cpu}/trace_pipe_raw") for cpu in self._instance.cpus())
        except OSError as error:
            self.close()
            why = f"the cgroup events cannot be switched on: {(error.strerror or str(error)).lower()}"
            raise TracefsError("cannot watch cgroup events", why, "") from error
        except TracefsError:
            self.close()
            raise

    @property
    def leftovers(self) -> int:
        """Instances of killed runs that were removed."""
        return self._instance.leftovers

    def read(self) -> Lifecycle:
        at = self._wall_clock()
        self._drain()
        flows = tuple(Flow(path, Counts(*counts)) for path, counts in self._flows.values())
        other = Counts(*self._other)
        self._flows, self._other = {}, [0, 0, 0]
        times = Histogram(tuple(self._zombie_times))
        return Lifecycle(
            EventTier.TRACEFS, at, self._total, flows, other, self._lost(), Histogram(), times, self.refused
        )

    def moved(self) -> None:
        """What is still in the buffers is not known."""

    def catch_up(self) -> float:
        """Take what waits before the buffer is full; seconds until that should be done again."""
        filled = self._drain()
        return next(seconds for share, seconds in _PACES if filled >= share)

    def dead(self) -> Iterator[Dead]:
        """The stream keeps no paths of the dead: nothing to tell."""
        return iter(())

    def close(self) -> None:
        for pipe in self._pipes:
            os.close(pipe)
        self._pipes = []
        with suppress(OSError):
            self._instance.write("tracing_on", "0")
        self._instance.close()

    def _begin(self, hierarchy_number: int, buffer_kibibytes: int) -> PageReader:
        instance = self._instance
        instance.write("buffer_size_kb", str(buffer_kibibytes))
        instance.write("trace_clock", "boot")
        kinds: dict[int, tuple[int, EventFormat]] = {}
        for kind, name in enumerate(EVENTS):
            form = parse_event_format(instance.read(f"events/cgroup/{name}/format"))
            if form is None:
                raise TracefsError("cannot watch cgroup events", f"the event {name} is not in a form we know", "")
            kinds[int(instance.read(f"events/cgroup/{name}/id"))] = (kind, form)
            instance.write(f"events/cgroup/{name}/filter", f"root=={hierarchy_number}")
        for name in reversed(EVENTS):
            instance.write(f"events/cgroup/{name}/enable", "1")
        return PageReader(instance.read("events/header_page", shared=True), kinds)

    def _drain(self) -> float:
        """How full the fullest buffer was, as a share."""
        seen, most = [0, 0, 0], 0
        for pipe in self._pipes:
            pages = 0
            while True:
                try:
                    page = os.read(pipe, self._pages.page_bytes)
                except BlockingIOError:
                    break
                if not page:
                    break
                pages += 1
                for event in self._pages.events(page):
                    seen[event.kind] += 1
                    self._count(event)
            most = max(most, pages)
        self._total = self._total.plus(Counts(*seen))
        return most * self._pages.page_bytes / self._buffer_bytes

    def _count(self, event: Event) -> None:
        key = pattern_of(event.path)
        flow = self._flows.get(key)
        if flow is None and len(self._flows) < _MOST_PATTERNS:
            flow = self._flows[key] = (event.path, [0, 0, 0])
        (flow[1] if flow else self._other)[event.kind] += 1
        if event.kind == _DEATH:
            if (
                len(self._died) >= _MOST_DEAD
            ):  # the oldest may never be released: they must not keep the others from being timed
                del self._died[next(iter(self._died))]
            self._died[event.id] = event.stamp_ns
        elif event.kind != _BIRTH and (died := self._died.pop(event.id, None)) is not None:
            micros = max(event.stamp_ns - died, 0) // 1000
            self._zombie_times[min(micros.bit_length(), _BUCKETS - 1)] += 1

    def _lost(self) -> int:
        lost = 0
        for cpu in self._instance.cpus():
            for line in self._instance.read(f"per_cpu/{cpu}/stats").splitlines():
                if line.startswith(_LOST):
                    lost += int(line.rpartition(b" ")[2])
        return lost
