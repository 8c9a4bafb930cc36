# SPDX-License-Identifier: Apache-2.0
"""Builders of what a window sees: remains, services, cores, tasks. For scenarios and for the tests of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.build import observed, snapshot

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import Sweep
from zombiescope.facts.cores import CoreMode, CoresSeen, CoreTime, CoreUse, Stretch
from zombiescope.facts.kernel_log import KernelLog, LogEvent, LogEventKind, LogSource, NicStep, ResetReason
from zombiescope.facts.lifecycle import FlowsSeen, Histogram, MakerFlow
from zombiescope.facts.reclaim import (
    PressurePoint,
    PressureSeen,
    ReclaimCalls,
    ReclaimGroup,
    ReclaimKind,
    ReclaimSeen,
    SweepersSeen,
    ThrottledGroup,
)
from zombiescope.facts.softirq import CoreLatency, DeviceCounters, NicCounters, SoftirqSeen, WaitTimes
from zombiescope.facts.units import RealTimeSeen, RealTimeTask, ServiceLoop, ServicesSeen, UnneededService
from zombiescope.facts.zombies import MakerRemains, PinExample, Remains

NOW = 1_700_000_000.0
DAY = 86_400.0
ACTIONS = {
    "page_cache": "reclaim_parent",
    "tmpfs": "delete_file",
    "memfd": "restart_process",
    "shared_anon": "restart_process",
    "sysv_shm": "remove_segment",
    "swap": "swap_in",
    "writeback": "flush",
    "socket": "close_socket",
    "task": "reap_process",
    "namespace": "unmount",
    "anon": "restart_process",
    "unevictable": "restart_process",
    "other": "reboot",
}
Left = Mapping[str, tuple[str, int]]
"""By maker: the kind of pin, and how many zombies."""


def remains(left: Left, *, days: float = 8.0) -> Remains:
    makers = tuple(
        MakerRemains(maker, count, {kind: count}, NOW - days * DAY, NOW - 5, {"/system.slice": count})
        for maker, (kind, count) in sorted(left.items(), key=lambda each: -each[1][1])
    )
    by_pin: dict[str, int] = {}
    actions: dict[str, dict[str, int]] = {}
    for kind, count in left.values():
        by_pin[kind] = by_pin.get(kind, 0) + count
        actions[kind] = {ACTIONS[kind]: by_pin[kind]}
    examples = tuple(PinExample(kind, maker, f"/{kind}/left") for maker, (kind, _) in left.items())
    parents = {"/system.slice": sum(count for _, count in left.values())}
    return Remains(NOW, "bpf", parents["/system.slice"], makers, by_pin, actions, examples, parents)


def loop(name: str, restarts: int = 70_000, *, kind: str = "unit", **more: Any) -> ServiceLoop:
    words = {"unit": "360 automatic restarts in the last hour", "inside": f"{restarts} children came and went"}
    facts = {
        "why": words.get(kind, "restarted in place"),
        "source": "journal",
        "every_seconds": 10.0,
        "need": "unknown",
    }
    return ServiceLoop(name, kind, restarts, **{**facts, **more})


def unneeded(name: str = "ecs.service", **more: Any) -> UnneededService:
    facts: dict[str, Any] = {
        "enabled": "enabled",
        "why": "Amazon ECS agent: this node belongs to Kubernetes",
        "path": f"/usr/lib/systemd/system/{name}",
        "may_loop": True,
        "from_vendor": True,
        "restarts_a_day": 8_640.0,
    }
    return UnneededService(name, **{**facts, **more})


def services(*loops: ServiceLoop, unneeded: tuple[UnneededService, ...] = (), **more: Any) -> ServicesSeen:
    facts = {"at": NOW, "seconds": 10.0, "starting": 60, "was_systemd_asked": True, "were_files_read": True}
    return ServicesSeen(**{**facts, **more}, loops=loops, unneeded=unneeded)


def cores(*stretches: Stretch, seconds: float = 10.0, **each: float) -> CoresSeen:
    """Four cores that did the same; `each`: seconds by mode, the rest idle."""
    time = CoreTime(**each)
    time = time._replace(idle=max(seconds - time.total, 0.0))
    return CoresSeen(NOW, seconds, 0.1, 4, stretches, tuple(CoreUse(core, time) for core in range(4)))


def stretch(seconds: float = 6.0, mode: CoreMode = CoreMode.SYSTEM, core: int = 3) -> Stretch:
    return Stretch(core, NOW + 2, seconds, mode, 0.98)


def real_time(*tasks: RealTimeTask, seconds: float = 10.0) -> RealTimeSeen:
    return RealTimeSeen(NOW, seconds, tasks)


def kernel_log(*events: LogEvent) -> KernelLog:
    return KernelLog(LogSource.KMSG, NOW - DAY, NOW, 4_000, 0, 0, events)


def reset(minutes_ago: float, cpu: int | None = 3) -> tuple[LogEvent, ...]:
    at = NOW - 60 * minutes_ago
    text = "ena 0000:00:05.0 eth0: TX q 5 is paused for too long (threshold 5000000). Time since last napi 6200000 usec"
    cause = LogEvent(
        at, LogEventKind.NIC, text, "eth0", step=NicStep.CAUSE, queue=5, reason=ResetReason.POLL_STARVATION, cpu=cpu
    )
    return (cause, cause._replace(at=at + 0.1, step=NicStep.BEGUN, text="ena: reset"))


def oom(minutes_ago: float) -> LogEvent:
    text = "trainer invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    return LogEvent(NOW - 60 * minutes_ago, LogEventKind.OUT_OF_MEMORY, text, task="trainer")


def softirq(longest: float = 4e-5, core: int = 3) -> SoftirqSeen:
    """One softirq of the network waited so long; the files agree."""
    calm = WaitTimes(Histogram((9, 1)), 3e-5, NOW + 1)
    late = CoreLatency(core, WaitTimes(Histogram((1,)), longest, NOW + 2), calm, calm, calm)
    return SoftirqSeen(NOW, 10.0, longest, None, 0, 0, (late,))


def flows(*makers: tuple[str, int, int, int | None], seconds: float = 10.0, tier: str = "bpf") -> FlowsSeen:
    """Each maker with births, deaths and releases."""
    return FlowsSeen(NOW, seconds, tier, tuple(MakerFlow(*maker) for maker in makers), 0)


def placed_reclaim(limit: str, calls: int, pages: int, seconds: float) -> ReclaimSeen:
    """Of one job at a limit, in a window of five seconds."""
    group = ReclaimGroup(f"{limit}/job", (limit,), calls, pages, seconds)
    kind = ReclaimCalls(ReclaimKind.LIMIT, calls, 0, pages, seconds, seconds, 0.004, NOW + 2)
    return ReclaimSeen(5.0, (kind,), groups=(group,))


def reclaim(calls: int = 0, pages: int = 0, seconds: float = 0.0, longest: float = 0.0) -> ReclaimSeen:
    """Of a memory cgroup at its limit, all of it on a core."""
    limit = ReclaimCalls(ReclaimKind.LIMIT, calls, 0 if pages else calls, pages, seconds, seconds, longest, NOW + 2)
    return ReclaimSeen(10.0, (ReclaimCalls(ReclaimKind.DIRECT, 0, 0, 0, 0.0, 0.0, 0.0, None), limit))


def pressure(*throttled: ThrottledGroup, stall: float = 0.0, kswapd: float = 0.0) -> PressureSeen:
    """Shares of the time: some task stalled on memory; kswapd on a core."""
    point = PressurePoint(NOW, 10.0, 0.0, 0.0, 0.0, 0.0, kswapd, {"memory.some": stall})
    return PressureSeen(NOW, 10.0, 4, (point,), throttled)


def slow_sweep(live: int) -> Sweep:
    """As a kernel that walks the dead for each read would show it: a labelled case, reproduced nowhere here."""
    return Sweep(130.0, live, 31, "/sys/fs/cgroup/memory/kubepods/memory.numa_stat", 1.9)


def incident_facts() -> dict[str, Any]:
    """What the machine of the case showed: a core in the kernel for seconds, and resets."""
    return {
        "cores": cores(stretch(6.2), user=2.0, system=1.0),
        "kernel_log": kernel_log(*reset(50), *reset(30), *reset(9)),
        "softirq": softirq(6.1),
    }


NICS = (DeviceCounters("eth0", 0, {}),)
QUIET: dict[str, Any] = {"cores": cores(user=1.0), "services": services(), "real_time": real_time(),
    "kernel_log": kernel_log(), "flows": FlowsSeen(NOW, 10.0, "bpf", (), 0), "nic_counters": NicCounters(NOW, 10.0, NICS, NICS),
    "softirq": softirq(), "reclaim": reclaim(), "sweepers": SweepersSeen(NOW, 10.0, ()), "pressure": pressure()}  # fmt: skip


def case(zombies: int = 12, *, live: int = 240, left: Left | None = None, grown: int = 0, **facts: Any) -> Case:
    """A quiet machine but for what is given. Without `left` its zombies are page cache of a unit that does not loop. `grown`: of
    the zombies, those that came within the window of ten seconds."""
    held = remains(left if left is not None else ({"unit:old.service": ("page_cache", zombies)} if zombies else {}))
    seen = {"remains": held, **QUIET, **facts}
    more = seen.pop("snapshot", {})
    begin = observed(snapshot(zombies - grown, live, **more, taken_at=NOW - 10.0))
    return Case((begin, observed(snapshot(zombies, live, **more, taken_at=NOW))), Thresholds(), **seen)
