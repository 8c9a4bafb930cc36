# SPDX-License-Identifier: Apache-2.0
"""Births, deaths and releases by the best tier this host allows: counted in the kernel by BPF, else streamed from a private
tracefs instance, else seen by polling. Each tier that was not available leaves its reason among the gaps.

On v2 cgroups without the memory controller are counted too: nothing in the event tells them apart.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier, Flow, Lifecycle
from zombiescope.host.access import Host
from zombiescope.kernel.ledgers import BpfLedger, Ledger, TraceLedger
from zombiescope.probes.cgroups import ControllerRow, inodes_of, read_controller_row
from zombiescope.probes.kernel_text import refusal

_LOOK_SECONDS = 0.25


def watch_births(host: Host, hierarchy: Hierarchy) -> "BirthsWatch | Gap":
    """A gap where the cgroups cannot be listed: then nothing is watched."""
    try:
        return BirthsWatch(host, hierarchy)
    except OSError as error:
        return refusal("units[].births", hierarchy.place(b"/"), error)


class BirthsWatch:
    """`look` often; `births` by path so far."""

    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host, self._hierarchy = host, hierarchy
        self.births: Counter[bytes] = Counter()
        self._quickest = float("inf")
        self._known = self._seen()
        self._next = host.monotonic()

    @property
    def pause(self) -> float:
        """Between two looks: a large tree is looked at less often. The quickest look tells how large it is: any one of them may
        have waited for its turn on a busy machine."""
        return max(_LOOK_SECONDS, 10 * self._quickest)

    def _seen(self) -> dict[bytes, int]:
        start = self._host.monotonic()
        seen = _look(self._host, self._hierarchy)
        self._quickest = min(self._quickest, self._host.monotonic() - start)
        return seen

    def look(self) -> None:
        try:
            seen = self._seen()
        except OSError:
            return  # unmounted while we watch: what was seen before counts
        self.births.update(path for path, inode in seen.items() if self._known.get(path) != inode)
        self._known.update(seen)

    def look_if_due(self) -> None:
        if self._host.monotonic() >= self._next:
            self.look()
            self._next = self._host.monotonic() + self.pause


def read_cgroup_births(
    host: Host, hierarchy: Hierarchy, seconds: float, progress: Callable[[float], None] = lambda _: None
) -> Counter[bytes] | Gap:
    """Births by path."""
    if not host.is_live or seconds <= 0:
        return Counter()
    start = host.monotonic()
    if isinstance(watch := watch_births(host, hierarchy), Gap):
        return watch
    while (over := host.monotonic() - start) < seconds:
        progress(over)
        host.wait(min(watch.pause, seconds - over))
        watch.look()
    progress(seconds)
    return watch.births


def _look(host: Host, hierarchy: Hierarchy) -> dict[bytes, int]:
    return dict(inodes_of(host, hierarchy, host.directories(hierarchy.place(b"/")).paths))


_LOWER_BOUND = Gap(
    "births",
    "directories are only looked at from time to time: what lives for less than a look is missed",
    "run as root",
)
_UNCOUNTED = Gap("lost", "nothing counts what lives for less than a look", "run as root")
_NO_RELEASES = Gap(
    "releases", "no file tells when a dead cgroup is released", "run as root, or with CAP_BPF and CAP_PERFMON"
)


class PollingLedger(Ledger):
    tier = EventTier.POLLING

    def __init__(self, host: Host, hierarchy: Hierarchy, why: tuple[Gap, ...]) -> None:
        self._host, self._hierarchy = host, hierarchy
        self.refused = why
        self._gaps = (*why, _LOWER_BOUND, _UNCOUNTED, _NO_RELEASES)
        self._known: dict[bytes, int] = {}
        self._known = self._look()
        self._total = Counts()

    def read(self) -> Lifecycle:
        at = self._host.wall_clock()
        seen = self._look()
        born = {path for path, inode in seen.items() if self._known.get(path) != inode}
        died = {path for path, inode in self._known.items() if seen.get(path) != inode}
        flows = tuple(Flow(path, Counts(path in born, path in died, 0)) for path in sorted(born | died))
        self._known = seen
        self._total = self._total.plus(Counts(len(born), len(died), 0))
        return Lifecycle(EventTier.POLLING, at, self._total, flows, Counts(), None, gaps=self._gaps)

    def _look(self) -> dict[bytes, int]:
        try:
            return _look(self._host, self._hierarchy)
        except OSError:
            return self._known


ALL_TIERS = tuple(EventTier)


def open_ledger(host: Host, hierarchy: Hierarchy, tiers: Sequence[EventTier] = ALL_TIERS) -> Ledger | Gap:
    """Starts to watch. `tiers` limits what may be tried."""
    if not host.is_live:
        return Gap("births", "nothing happens in a folder", "run on the host itself")
    refused: list[Gap] = []
    for tier in [each for each in (EventTier.BPF, EventTier.TRACEFS) if each in tiers]:
        try:
            number = _hierarchy_number(host, hierarchy)
            if tier is EventTier.BPF:
                return BpfLedger(number, host.wait, host.wall_clock)
            return TraceLedger(number, host.wall_clock, refused=tuple(refused))
        except ObservationError as error:
            refused.append(Gap(f"events.{tier}", error.why, error.hint))
    if EventTier.POLLING in tiers:
        return PollingLedger(host, hierarchy, tuple(refused))
    return refused[-1] if refused else Gap("births", "no way to see events was allowed")


def _hierarchy_number(host: Host, hierarchy: Hierarchy) -> int:
    """The kernel's number of the hierarchy; the unified one is 0, also where /proc/cgroups has no row for memory."""
    if hierarchy.version is HierarchyVersion.V2:
        return 0
    if isinstance(row := read_controller_row(host), ControllerRow):
        return row.hierarchy
    raise ObservationError("cannot watch cgroup events", row.reason, row.hint)
