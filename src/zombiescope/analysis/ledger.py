# SPDX-License-Identifier: Apache-2.0
"""Accounts of births, deaths, releases and zombies by maker: the backlog of a walk plus the flow of the ledger.

Makers are named as an autopsy names them. `label_of` is what may stand in a metric: ids of pods and people are folded.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from zombiescope.analysis.maker import NO_PODS, Makers, pod_uid_of
from zombiescope.facts.lifecycle import Counts, Flow

OTHER = "other"
_NOTHING = Counts()
_MOST_MAKERS, _MOST_BACKLOG, _FORGOTTEN_AT_ONCE = 512, 4096, 64
_LONGEST_LABEL, _PASSING_SECONDS = 100, 120.0


class Account(NamedTuple):
    maker: str
    zombies: int
    counts: Counts
    """Since the accounts were opened."""


class Accounts:
    """Grows with each reading; knows at most 512 makers by name, the rest is `other`.

    When there is no room for a new one, those that did nothing lately and have no zombies make way, the longest idle first: what
    they had is `other` from then on, so that the sums stay. They come back with their name when they are seen again.
    """

    def __init__(self, pods: Mapping[str, str] = NO_PODS) -> None:
        """`pods`: makers by the uid of a pod; it may grow meanwhile."""
        self._makers = Makers(pods)
        self._counts: dict[str, Counts] = {}
        """Those booked longest ago first."""
        self._backlog: dict[str, int] = {}
        self._lately: dict[str, Counts] = {}
        self._moved: dict[str, int] = {}
        """Balance that became `other` since the snapshot for the walk under way."""
        self._is_crowded = self._was_crowded = False
        self._sees_releases = True
        self.is_backlog_known = False

    def add(self, flows: Iterable[Flow], other: Counts = _NOTHING, *, sees_releases: bool = True) -> None:
        """One reading of the ledger. Without releases nobody's zombies are known, and nobody is kept for the sake of them."""
        self._lately, self._sees_releases = {}, sees_releases
        for flow in flows:
            self._book(flow_maker(self._makers, flow.path), flow.counts)
        if any(other):
            self._book(OTHER, other)

    def rename(self, names: Mapping[str, str]) -> None:
        """What was booked before a pod's workload was known is the workload's from now on."""
        for old, new in names.items():
            for counts in (self._counts, self._lately):
                if old in counts:
                    counts[new] = counts.get(new, _NOTHING).plus(counts.pop(old))
            for numbers in (self._backlog, self._moved):
                if old in numbers:
                    numbers[new] = numbers.get(new, 0) + numbers.pop(old)

    def snapshot(self) -> dict[str, Counts]:
        """What is booked as a walk begins, for `open_with` when it ends."""
        self._moved, self._was_crowded = {}, False
        return dict(self._counts)

    def open_with(self, zombies: Mapping[str, int], since: Mapping[str, Counts]) -> None:
        """A walk found these by maker. What the ledger had counted by then is in them: only the rest is backlog."""
        backlog = {
            maker: zombies.get(maker, 0) - since.get(maker, _NOTHING).balance + self._moved.get(maker, 0)
            for maker in {*zombies, *since, *self._moved}
        }
        backlog[OTHER] = backlog.get(OTHER, 0) - sum(self._moved.values())
        named = [maker for maker, count in backlog.items() if count and maker != OTHER]
        for maker in sorted(named, key=lambda each: (each not in self._counts, -backlog[each]))[_MOST_BACKLOG:]:
            backlog[OTHER] += backlog.pop(maker)
        self._backlog = {maker: count for maker, count in backlog.items() if count}
        self._moved, self._is_crowded = {}, self._was_crowded
        self.is_backlog_known = True

    @property
    def counts(self) -> Mapping[str, Counts]:
        return self._counts

    def zombies(self) -> dict[str, int]:
        """By maker; never below zero, as an older one may be released before a walk has counted it."""
        found = {maker: self._zombies_of(maker) for maker in {*self._backlog, *self._counts}}
        if self._is_crowded and found.get(OTHER, 0) > 0:
            # Who died while there was no room for a name is `other`, and is released by the name that there is room for now.
            found[OTHER] += sum(count for maker, count in found.items() if count < 0 and maker != OTHER)
        return {maker: max(count, 0) for maker, count in found.items()}

    def _zombies_of(self, maker: str) -> int:
        return self._backlog.get(maker, 0) + self._counts.get(maker, _NOTHING).balance

    def settled(self) -> dict[str, int]:
        """At least so many by maker are no ordinary deaths on their way: whoever died since the reading before may be one."""
        return {
            maker: max(count - self._lately.get(maker, _NOTHING).deaths, 0) for maker, count in self.zombies().items()
        }

    @property
    def died_lately(self) -> int:
        return sum(counts.deaths for counts in self._lately.values())

    @property
    def lately(self) -> Mapping[str, Counts]:
        """Of the last reading."""
        return self._lately

    def list(self) -> list[Account]:
        """Those with most zombies first, then those with most births."""
        accounts = [Account(maker, count, self._counts.get(maker, _NOTHING)) for maker, count in self.zombies().items()]
        return sorted(accounts, key=lambda each: (-each.zombies, -each.counts.births, each.maker))

    def _book(self, maker: str, counts: Counts) -> None:
        if maker not in self._counts and maker != OTHER and len(self._counts) >= _MOST_MAKERS:
            self._forget_idle()
            if len(self._counts) >= _MOST_MAKERS:
                maker, self._is_crowded, self._was_crowded = OTHER, True, True
        self._counts[maker] = self._counts.pop(maker, _NOTHING).plus(counts)
        self._lately[maker] = self._lately.get(maker, _NOTHING).plus(counts)

    def _may_have_any(self, maker: str) -> bool:
        """Below zero, as long as no walk has counted those from before: then they are not told anyway."""
        zombies = self._zombies_of(maker)
        return self._sees_releases and (zombies > 0 or (zombies < 0 and self.is_backlog_known))

    def _forget_idle(self) -> None:
        idle = (
            each for each in self._counts if each != OTHER and each not in self._lately and not self._may_have_any(each)
        )
        for maker in list(islice(idle, _FORGOTTEN_AT_ONCE)):
            counts, backlog = self._counts.pop(maker), self._backlog.pop(maker, 0)
            self._counts[OTHER] = self._counts.get(OTHER, _NOTHING).plus(counts)
            if backlog:
                self._backlog[OTHER] = self._backlog.get(OTHER, 0) + backlog
            if counts.balance:
                self._moved[maker] = self._moved.get(maker, 0) + counts.balance


class Passing:
    """Who passes on slowly: of each maker the deaths and releases of the last two minutes."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Mapping[str, Counts]]] = deque()
        self._sums: dict[str, Counts] = {}

    def add(self, at: float, lately: Mapping[str, Counts]) -> None:
        """`at`: seconds on a clock that only goes forward."""
        self._readings.append((at, lately))
        for maker, counts in lately.items():
            self._sums[maker] = self._sums.get(maker, _NOTHING).plus(counts)
        while at - self._readings[0][0] > _PASSING_SECONDS:
            for maker, counts in self._readings.popleft()[1].items():
                rest = self._sums[maker].less(counts)
                if any(rest):
                    self._sums[maker] = rest
                else:
                    del self._sums[maker]

    def rename(self, names: Mapping[str, str]) -> None:
        self._readings = deque((at, renamed_counts(lately, names)) for at, lately in self._readings)
        self._sums = renamed_counts(self._sums, names)

    def of(self, maker: str) -> int:
        """As many as were released may be on their way again; none where nobody is ever released."""
        counts = self._sums.get(maker, _NOTHING)
        return min(counts.deaths, counts.releases)


def renamed_counts(counts: Mapping[str, Counts], names: Mapping[str, str]) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    for maker, count in counts.items():
        name = names.get(maker, maker)
        found[name] = found.get(name, _NOTHING).plus(count)
    return found


def flow_maker(makers: Makers, path: bytes) -> str:
    """The maker of a flow. Where the folded leaf was the pod's own name, the flow is that of many pods."""
    uid = pod_uid_of(path)
    is_of_many = uid is not None and uid.encode() in path.rpartition(b"/")[2].replace(b"_", b"-")
    return "pod:*" if is_of_many else makers.of(path)


def label_of(maker: str) -> str:
    kind = maker.partition(":")[0]
    return f"{kind}:*" if kind in ("pod", "session") else maker[:_LONGEST_LABEL]


def by_label(zombies: Mapping[str, int], most: int = 10) -> dict[str, int]:
    """The largest, and the rest as `other`: what a metric can bear."""
    labelled: Counter[str] = Counter()
    for maker, count in zombies.items():
        labelled[label_of(maker)] += count
    other = labelled.pop(OTHER, 0)
    ranked = sorted(labelled.items(), key=lambda each: (-each[1], each[0]))
    kept = {name: count for name, count in ranked[:most] if count > 0}
    return {**kept, OTHER: other + sum(count for _, count in ranked[most:])}
