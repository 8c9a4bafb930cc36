# SPDX-License-Identifier: Apache-2.0
"""What each core did with its time: counters as the kernel keeps them, windows between two looks, the stretches in which a core had
no time but for the kernel (or for the hypervisor), and what all of them did together, as shares."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap


class KernelSample(NamedTuple):
    at: float
    """Seconds since the epoch."""
    core: int
    thread: int
    frames: tuple[str, ...]
    """Functions, innermost first."""


class KernelSamples(NamedTuple):
    rate_hz: int
    lost: int
    samples: tuple[KernelSample, ...]
    threads: tuple[tuple[int, str], ...]
    """Names of the threads that were sampled, as far as they still lived."""


class Share(NamedTuple):
    name: str
    share: float
    """Of the samples (0 to 1)."""


class Blamed(NamedTuple):
    """Of one stretch."""

    core: int
    begin: float
    samples: int
    functions: tuple[Share, ...]
    """By where the core was: they add up to at most 1."""
    causes: tuple[Share, ...]
    """In plain words, by any function of the call chain: one sample may count for several."""
    processes: tuple[Share, ...]


class Blame(NamedTuple):
    rate_hz: int
    samples: int
    lost: int
    stretches: tuple[Blamed, ...]

    def of(self, core: int, begin: float) -> Blamed | None:
        """Of the stretch that began then."""
        return next((each for each in self.stretches if (each.core, each.begin) == (core, begin)), None)


USER_HZ = 100
"""Unit of the counters: the kernel shows hundredths of a second on every architecture in use, whatever its own tick."""

CoreTicks = tuple[int, int, int, int, int, int, int, int]
"""user, nice, system, idle, iowait, irq, softirq, steal since boot, in the order of the kernel; guest time is inside user."""
NOT_SAMPLED = Gap("stretches[].blame", "call chains were not sampled", "zombiescope cores")


class CoreMode(StrEnum):
    """What holds a saturated core."""

    SYSTEM = "system"
    SOFTIRQ = "softirq"
    IRQ = "irq"
    STEAL = "steal"


class CoreLook(NamedTuple):
    """The counters of every core at one moment."""

    at: float
    """Seconds since the epoch."""
    steady: float
    """Seconds on a clock that nobody sets."""
    cores: Mapping[int, CoreTicks]


class CoreTime(NamedTuple):
    """Seconds. `lost`: neither busy nor idle by the kernel's account: no tick came (interrupts off, or the machine stood still)."""

    user: float = 0.0
    system: float = 0.0
    softirq: float = 0.0
    irq: float = 0.0
    steal: float = 0.0
    iowait: float = 0.0
    idle: float = 0.0
    lost: float = 0.0

    @property
    def kernel(self) -> float:
        """What keeps everybody else from the core: kernel work of every mode, and what the hypervisor took."""
        return self.system + self.softirq + self.irq + self.steal

    @property
    def total(self) -> float:
        return sum(self)

    def plus(self, other: "CoreTime") -> "CoreTime":
        return CoreTime(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class CoreWindow(NamedTuple):
    begin: float
    """Seconds since the epoch."""
    seconds: float
    time: CoreTime


class Stretch(NamedTuple):
    """A core without time but for the kernel, without a break."""

    core: int
    begin: float
    """Seconds since the epoch."""
    seconds: float
    mode: CoreMode
    """What took most of it."""
    share: float
    """Of the core's time in it, that in the kernel (0 to 1)."""
    is_cut: bool = False
    """It was there when watching began, or when watching ended: it lasted longer than this."""


class CoreUse(NamedTuple):
    """One core over everything that was watched."""

    core: int
    time: CoreTime
    windows: tuple[CoreWindow, ...] = ()
    """In order of time; a window that could not be judged (counters ran backwards, the core was away) is left out."""


class CoresSeen(NamedTuple):
    began_at: float
    seconds: float
    """How long was watched."""
    interval_seconds: float
    """Between two looks."""
    cores: int
    """Watched at the end."""
    stretches: tuple[Stretch, ...]
    """In order of their beginning."""
    uses: tuple[CoreUse, ...] = ()
    """By core; empty where only stretches are remembered."""
    blame: Blame | Gap = NOT_SAMPLED
    gaps: tuple[Gap, ...] = ()

    @property
    def longest(self) -> Stretch | None:
        return max(self.stretches, key=lambda stretch: stretch.seconds, default=None)

    @property
    def saturated_seconds(self) -> float:
        return sum(stretch.seconds for stretch in self.stretches)


class CoreShares(NamedTuple):
    at: float
    seconds: float
    user: float
    steal: float
    idle: float
    """With waiting for disks: nobody wanted the core."""
    worst_steal: float
    worst_steal_core: int
    lost: float
    """Of all time: accounted to nobody."""


def shares_of(seen: CoresSeen | Gap) -> CoreShares | Gap:
    if isinstance(seen, Gap):
        return seen
    if not seen.uses:
        return Gap("cores", "only stretches were kept, not what the cores did otherwise")
    total = CoreTime()
    for use in seen.uses:
        total = total.plus(use.time)
    accounted = total.total - total.lost
    if accounted <= 0:
        return Gap("cores", "no time passed")
    worst = max(seen.uses, key=lambda use: _steal(use.time))
    return CoreShares(
        seen.began_at + seen.seconds,
        seen.seconds,
        total.user / accounted,
        total.steal / accounted,
        (total.idle + total.iowait) / accounted,
        _steal(worst.time),
        worst.core,
        total.lost / total.total,
    )


def _steal(time: CoreTime) -> float:
    accounted = time.total - time.lost
    return time.steal / accounted if accounted > 0 else 0.0
