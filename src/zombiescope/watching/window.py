# SPDX-License-Identifier: Apache-2.0
"""The doctor's window: what is watched while time passes, each on its own. One that fails is a gap, and the rest goes on.

To add one: a watch in this room, and its line in `SUBJECTS` with the field of `Case` that it fills.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from zombiescope.diagnosis.case import Case
from zombiescope.errors import ZombiescopeError, reason_of
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.host.recording import ReplayHost
from zombiescope.probes.readers.cpu_time import PATH, RealTimeWatch
from zombiescope.probes.readers.reclaim_rates import ReclaimWindow
from zombiescope.watching.cgroups import FlowsWatch
from zombiescope.watching.cores import LOOKS_PER_SECOND, DetailedCoresWatch
from zombiescope.watching.nics import NicsWatch, place_nics
from zombiescope.watching.pods import PodsWatch
from zombiescope.watching.reclaim import WholePressureWatch
from zombiescope.watching.services import Auditing, ServicesWatch
from zombiescope.watching.softirq import DetailedSoftirqWatch
from zombiescope.watching.sweeps import SweepsWatch
from zombiescope.watching.watch import Filling

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
_MOST_GROUPS = 10


class Watch(Protocol[T_co]):
    """One subject. Its driver says how often it looks; what costs much belongs in `seen`."""

    def look(self) -> None: ...

    def seen(self) -> T_co | Gap:
        """Since it was opened, or of the last minutes."""
        ...

    def close(self) -> None: ...


class Scene(NamedTuple):
    """Where and how a window watches."""

    host: Host
    hierarchy: Hierarchy | Gap
    began_at: float
    audit: Auditing
    groups: Sequence[bytes] = ()
    """Cgroups whose own stalls are followed, the first of them at least."""
    believe_users: bool = False
    """For the lab alone: what user space wrote to the kernel's log counts as the kernel's."""
    flows: FlowsWatch | None = None
    """Births and deaths that were watched from before."""
    pods: PodsWatch | None = None
    """The same of pods."""


class Guarded(Filling, Generic[T]):
    """A watch that may fail at any time without taking the others with it."""

    def __init__(self, name: str, opening: Callable[[], Watch[T]], place: Callable[[Case, T | Gap], Case]) -> None:
        self._name, self._place = name, place
        self._gap: Gap | None = None
        self._watch = self._try(opening)

    def look(self) -> None:
        if self._watch and self._gap is None:
            self._try(self._watch.look)

    def fill(self, case: Case) -> Case:
        """Once, at the end: it is closed."""
        seen = self._try(self._watch.seen) if self._watch and self._gap is None else None
        found = seen if self._gap is None else self._gap
        if self._watch:
            self._try(self._watch.close)
        return case if found is None else self._place(case, found)

    def _try(self, work: Callable[[], R]) -> R | None:
        try:
            return work()
        except (ZombiescopeError, OSError) as error:
            self._gap = Gap(self._name, reason_of(error), getattr(error, "hint", ""))
        return None


class Subject(NamedTuple):
    begin: Callable[[Scene], Guarded[Any]]
    every: int
    """How many looks of the window one of its own is."""


def subject(
    name: str, opening: Callable[[Scene], Watch[T]], place: Callable[[Case, T | Gap], Case], every: int = 1
) -> Subject:
    return Subject(lambda scene: Guarded(name, lambda: opening(scene), place), every)


SUBJECTS: tuple[Subject, ...] = (
    subject(
        "cores",
        lambda scene: DetailedCoresWatch(scene.host, with_blame=True),
        lambda case, seen: case._replace(cores=seen),
    ),
    subject("real_time", lambda scene: RealTimeWatch(scene.host), lambda case, seen: case._replace(real_time=seen)),
    subject(
        "services",
        lambda scene: ServicesWatch(scene.host, scene.hierarchy, scene.audit),
        lambda case, seen: case._replace(services=seen),
    ),
    subject(
        "pods",
        lambda scene: scene.pods or PodsWatch(scene.host, scene.hierarchy),
        lambda case, seen: case._replace(pods=seen),
    ),
    subject(
        "flows",
        lambda scene: scene.flows or FlowsWatch(scene.host, scene.hierarchy),
        lambda case, seen: case._replace(flows=seen),
        LOOKS_PER_SECOND,
    ),
    subject(
        "softirq",
        lambda scene: DetailedSoftirqWatch(scene.host),
        lambda case, seen: case._replace(softirq=seen),
        LOOKS_PER_SECOND,
    ),
    subject(
        "reclaim",
        lambda scene: ReclaimWindow(scene.host, scene.hierarchy),
        lambda case, seen: case._replace(reclaim=seen),
        LOOKS_PER_SECOND,
    ),
    subject(
        "nics",
        lambda scene: NicsWatch(scene.host, scene.began_at, believe_users=scene.believe_users),
        place_nics,
        LOOKS_PER_SECOND,
    ),
    subject(
        "sweepers",
        lambda scene: SweepsWatch(scene.host, scene.began_at),
        lambda case, seen: case._replace(sweepers=seen),
        LOOKS_PER_SECOND,
    ),
    subject(
        "pressure",
        lambda scene: WholePressureWatch(scene.host, scene.hierarchy, scene.groups[:_MOST_GROUPS]),
        lambda case, seen: case._replace(pressure=seen),
        LOOKS_PER_SECOND,
    ),
)


class Window:
    def __init__(self, scene: Scene, subjects: Sequence[Subject] = SUBJECTS) -> None:
        self._looks = 0
        self._subjects = [(each.begin(scene), each.every) for each in subjects]

    @property
    def watched(self) -> list[Guarded[Any]]:
        return [watch for watch, _ in self._subjects]

    def look(self) -> None:
        for watch, every in self._subjects:
            if self._looks % every == 0:
                watch.look()
        self._looks += 1


def let_pass(host: Host, seconds: float, look: Callable[[], None], progress: Callable[[float], None]) -> None:
    """Ten looks a second after the first: a short stretch must not fall between two. Always the same waits, so that a replay meets
    them; of a recording no longer than it looked: afterwards its counters stand still, which says nothing of the machine."""
    left = host.seconds_left(PATH) if isinstance(host, ReplayHost) else None
    seconds = min(seconds, left) if left else seconds
    steps = max(round(seconds * LOOKS_PER_SECOND), 1)
    for step in range(1, steps + 1):
        host.wait(seconds / steps)
        look()
        progress(seconds * step / steps)
