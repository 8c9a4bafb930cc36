# SPDX-License-Identifier: Apache-2.0
"""The doctor's window: what is watched while time passes, each on its own. One that fails is a gap, and the rest goes on.

To add one: a class with `look` (called ten times a second) and `seen` (a fact or a gap, at the end), and its line in `WATCHES`
under the name of its field in `Case`. What costs much belongs into `seen`: it is asked after the window is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from zombiescope.errors import ZombiescopeError
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.pipeline.cores import LOOKS_PER_SECOND, CoresWindow, watchable
from zombiescope.pipeline.flow_watch import FlowWatch
from zombiescope.pipeline.services import ServicesWatch
from zombiescope.pipeline.starvation import StarvationWindow
from zombiescope.probes.readers.real_time_tasks import RealTimeWatch


class Watch(Protocol):
    def seen(self) -> Any:
        """A fact, or a gap."""
        ...


class Looking(Watch, Protocol):
    def look(self) -> None: ...


Opening = Callable[[Host, Hierarchy | Gap], Watch]
WATCHES: Mapping[str, Opening] = MappingProxyType(
    {
        "cores": lambda host, _: CoresWindow(host, with_blame=True),
        "real_time": lambda host, _: RealTimeWatch(host),
        "services": ServicesWatch,
        "flows": FlowWatch,
        "starvation": StarvationWindow,
    }
)
_MOST_GROUPS = 10


def watches_over(groups: Sequence[bytes], *, believe_users: bool = False) -> Mapping[str, Opening]:
    """With the stalls of these cgroups, the first of them at least. `believe_users`, for the lab alone: what user space wrote to
    the kernel's log counts as the kernel's."""

    def starvation(host: Host, hierarchy: Hierarchy | Gap) -> StarvationWindow:
        return StarvationWindow(host, hierarchy, groups[:_MOST_GROUPS], believe_users=believe_users)

    return {**WATCHES, "starvation": starvation}


_SEVERAL = frozenset({"starvation"})
_SLOW = frozenset({"starvation", "flows"})
"""Looked at once a second."""


class _Guarded:
    """A watch that may fail at any time without taking the others with it."""

    def __init__(self, field: str, opening: Opening, host: Host, hierarchy: Hierarchy | Gap) -> None:
        self._field = field
        self._gap: Gap | None = None
        self._watch = self._try(lambda: opening(host, hierarchy))
        self._look: Callable[[], None] | None = getattr(self._watch, "look", None)

    @property
    def inside(self) -> Any:
        return self._watch

    def look(self) -> None:
        if self._look and self._gap is None:
            self._try(self._look)

    def seen(self) -> Any:
        watch = self._watch
        found = self._try(watch.seen) if watch is not None and self._gap is None else None
        return found if self._gap is None else self._gap

    def _try(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except ZombiescopeError as error:
            self._gap = Gap(self._field, error.why, error.hint)
        except OSError as error:
            self._gap = Gap(self._field, (error.strerror or str(error)).lower())
        return None


class Window:
    def __init__(self, host: Host, hierarchy: Hierarchy | Gap, watches: Mapping[str, Opening] = WATCHES) -> None:
        self._host = host
        self._looks = 0
        self._watches = {field: _Guarded(field, opening, host, hierarchy) for field, opening in watches.items()}

    def let_pass(self, seconds: float, progress: Callable[[float], None]) -> None:
        """Ten looks a second: a short stretch must not fall between two. Always the same waits, so that a replay meets them."""
        seconds = watchable(self._host, seconds)
        steps = max(round(seconds * LOOKS_PER_SECOND), 1)
        self._look()
        for step in range(1, steps + 1):
            self._host.wait(seconds / steps)
            self._look()
            progress(seconds * step / steps)

    def watch(self, field: str) -> Any:
        """The watch itself, where it could be opened."""
        return self._watches[field].inside

    def facts(self) -> dict[str, Any]:
        """By field of a case. A watch of several fields gives a record of them; where it failed they keep their own gaps."""
        found: dict[str, Any] = {}
        for field, watch in self._watches.items():
            seen = watch.seen()
            if field not in _SEVERAL:
                found[field] = seen
            elif not isinstance(seen, Gap):
                found.update(seen._asdict())
        return found

    def _look(self) -> None:
        for field, watch in self._watches.items():
            if field not in _SLOW or self._looks % LOOKS_PER_SECOND == 0:
                watch.look()
        self._looks += 1
