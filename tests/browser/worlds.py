# SPDX-License-Identifier: Apache-2.0
"""Worlds for the page: a recording with very many zombies and a month of history, the incident, and an agent over real zombies.

`python -m tests.browser.worlds big DIR` lays one out for `zombiescope serve --root DIR`; `incident --state DIR` serves the incident
of the case and prints its address.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import selectors
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.build import Cgroup, ScriptedHost, Use, v1_machine
from tests.profiler.perf_files import TOOLS, small_capture
from tests.scenarios.facts import (
    case,
    incident_facts,
    kernel_log,
    loop,
    reclaim,
    reset,
    services,
    slow_sweep,
    unneeded,
)

from zombiescope.analysis.autopsy import derive_autopsy
from zombiescope.analysis.held import derive_remains
from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.engine import diagnose
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import CountSource, Hierarchy, LiveTree
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, Sample
from zombiescope.facts.page_pins import NOTHING_BESIDE
from zombiescope.facts.plain import to_outcome
from zombiescope.facts.reaping import Levers
from zombiescope.facts.zombies import HeldBy, Pages, Pin, PinKind, References, Tier, Walk, Zombie
from zombiescope.history.chunks import Chunks
from zombiescope.history.log import AppendLog
from zombiescope.host.known_names import read_known_names
from zombiescope.host.recorder import RecordingHost
from zombiescope.host.recording import MEMBER, Header, encode
from zombiescope.host.scrub import Scrubber
from zombiescope.pipeline import doctor
from zombiescope.pipeline.autopsy import NAME, Dissected, Gathered, keep
from zombiescope.pipeline.doctor import Examined
from zombiescope.pipeline.page_look import Looked, Subject, documents, read_day, stories
from zombiescope.pipeline.plan import activity_of
from zombiescope.pipeline.scan import growth_of
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.profiler.files.store import save
from zombiescope.profiler.formats.capture_file import encode as encode_capture
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.capture import Clock
from zombiescope.remedies.planner import propose
from zombiescope.web.site import PageServer, Site, laid_out
from zombiescope.web.standing import Standing

NOW = 1_700_000_000.0
DAY, HOUR = 86_400.0, 3600.0
HOSTILE = b"/kubepods/tok-\x1b[31m<img src=x onerror=alert(1)>\n\xff"
PAGE = 4096
BOOT = "11111111-2222-3333-4444-555555555555"
_LIVE = 32


def zombie(number: int, share: float) -> Zombie:
    """Most were left by one unit with a file of shared memory each; the others differ in maker, pin and name. `share`: 0 to 1, how
    far through all of them."""
    died = NOW - 20.5 * HOUR * (1 - share)
    serial, inode = 10_000 + number, 6_245_667 + number
    one = References(1, 1, 0, 0, 0)
    if number % 100 < 90:
        pages = Pages(0, 1, 0, 0, 0)
        path = b"/dev/shm/unused-agent/%06d" % number
        pin = Pin(PinKind.TMPFS, path, path.removeprefix(b"/dev/shm"), "tmpfs", "0:25", 7_000 + number, 1, False, 0, 0)
        maker = b"/system.slice/unused-agent.service"
        return Zombie(inode, serial, maker, 2, b"/system.slice", died - 3.1, None, one, pages, (pin,), None, None)
    if number % 100 < 96:
        pages = Pages(1 + number % 64, 0, 0, 0, 0)
        path = b"/var/log/batch/%d.log" % (number % 40)
        pin = Pin(PinKind.PAGE_CACHE, path, path, "ext4", "8:1", 90 + number % 40, pages.file, False, number % 3, 0)
        former = b"/kubepods/burstable/pod%08x/ctr%d" % (number, number)
        held = References(pages.file, pages.file, 0, 0, 0)
        return Zombie(
            inode, serial, former, 4, b"/kubepods/burstable", died - 60, None, held, pages, (pin,), None, None
        )
    if number % 100 < 98:
        pin = Pin(PinKind.SOCKET, None, None, None, None, None, None, False, holder=HeldBy(400 + number, b"sshd"))
        pages = Pages(0, 0, 0, 0, 0)
        former = b"/user.slice/user-1000.slice/session-%d.scope" % number
        return Zombie(inode, serial, former, 3, b"/user.slice", died - 900, None, one, pages, (pin,), None, None)
    pages = Pages(0, 0, 3, 0, 2)
    pin = Pin(PinKind.SWAP, None, None, None, None, None, 2, False)
    return Zombie(inode, serial, HOSTILE, 2, b"/kubepods", None, None, one, pages, (pin,), None, None)


def evidence(zombies: int, hierarchy: Hierarchy) -> Gathered:
    found = tuple(zombie(number, number / max(zombies - 1, 1)) for number in range(zombies))
    walk = Walk(Tier.BPF, found, _LIVE, page_bytes=PAGE)
    population = Population(zombies + _LIVE, _LIVE, CountSource.PROC_CGROUPS)

    residuals = Gap("parents[].bytes", "a built world does not add them up")
    census = Gap("memcg", "a built world is counted by its walk")
    return Gathered(NOW, hierarchy, census, walk, population, residuals, NOTHING_BESIDE, ())


@dataclass
class World(ScriptedHost):
    outcomes: dict[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)

    def wall_clock(self) -> float:
        return NOW + self.waited

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        return self.outcomes[name]() if name in self.outcomes else None


def machine(zombies: int) -> World:
    """A v1 host whose plain files and walk tell of so many."""
    many = int(zombies * 0.9)
    groups = {
        b"/system.slice": Cgroup(Use(file=1 << 20), Use(shmem=many * PAGE), many),
        b"/kubepods": Cgroup(),
        b"/kubepods/burstable": Cgroup(Use(anon=1 << 22), Use(file=1 << 24), zombies - many),
        b"/user.slice": Cgroup(),
        **{b"/system.slice/live-%d.service" % number: Cgroup(Use(anon=1 << 20)) for number in range(_LIVE - 5)},
    }
    world = World(v1_machine(groups), is_live=False, label="a built world")
    hierarchy = read_memory_hierarchy(world)
    assert isinstance(hierarchy, Hierarchy)
    seen = evidence(zombies, hierarchy)
    autopsy = derive_autopsy(seen.walk, seen.population, None)
    world.outcomes = {
        NAME: lambda: keep(seen, lambda path: path),
        doctor.FACT: lambda: to_outcome(derive_remains(autopsy.bodies, "bpf", NOW, NOW - 10)),
    }
    return world


def big(folder: str, zombies: int = 20_000, days: float = 30.0, coarse: float = 60.0) -> str:
    """A recording unpacked in a folder, with its history: what `serve --root` opens."""

    os.makedirs(folder, exist_ok=True)
    host = machine(zombies)
    recorder = RecordingHost(host, Scrubber(read_known_names(host), keeps_names=True))
    doctor.examine(recorder, 1.0)
    recorder.keep_outcome(NAME, host.outcomes[NAME]())
    with open(os.path.join(folder, MEMBER), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in encode(Header("tests", "a built world"), recorder.answers))
    history(folder, zombies, days, coarse=coarse)
    return folder


def history(folder: str, zombies: int, days: float = 30.0, *, now: float = NOW, coarse: float = 10.0) -> None:
    """As an agent keeps it: calm, then a loop that leaves zombies for the last day; a pause of 24 minutes four hours ago. `coarse`:
    seconds between two samples before the last two days; an agent has ten."""
    os.makedirs(folder, exist_ok=True)
    generator = random.Random(7)
    chunks = Chunks(os.path.join(folder, "history.db"))
    number = 0
    first = math.floor((now - days * DAY) / HOUR) * HOUR
    hour = first
    happenings = list(_happenings(now, days, zombies))
    place = 0
    while hour < math.floor(now / HOUR) * HOUR:
        step = 10.0 if hour > now - 2 * DAY else coarse
        samples, number = _samples((hour, HOUR, step), (now, zombies), generator, number)
        inside = []
        while place < len(happenings) and happenings[place][0] < hour + HOUR:
            number += 1
            at, what, detail = happenings[place]
            inside.append(Happening(number, at, BOOT, what, detail))
            place += 1
        chunks.fold(samples, inside, number)
        hour += HOUR
    chunks.close()
    log = AppendLog(os.path.join(folder, "history.log"))
    samples, number = _samples((hour, now - hour, 10.0), (now, zombies), generator, number)
    rest = [Happening(number + n, at, BOOT, what, detail) for n, (at, what, detail) in enumerate(happenings[place:], 1)]
    log.append([*samples, *rest])
    log.close()


def _samples(
    span: tuple[float, float, float], story: tuple[float, int], generator: random.Random, number: int
) -> tuple[list[Sample], int]:
    begin, seconds, step = span
    now, zombies = story
    found = []
    at = begin
    while at < begin + seconds:
        if not now - 4 * HOUR - 24 * 60 <= at < now - 4 * HOUR:
            number += 1
            found.append(Sample(number, at, BOOT, _values(at, now, zombies, generator)))
        at += step
    return found, number


def _values(at: float, now: float, zombies: int, generator: random.Random) -> dict[str, float]:
    """The loop began 20.5 hours ago and ended an hour ago."""
    begin, end = now - 20.5 * HOUR, now - HOUR
    share = min(max((at - begin) / (end - begin), 0.0), 1.0)
    stock = 8 + round((zombies - 8) * share)
    age = at - (now - 40 * DAY)
    hot = max(share - 0.6, 0.0) * 2.2
    values = {
        "counted": stock + _LIVE, "live": _LIVE, "zombies": stock, "ids": _LIVE, "uptime": round(age),
        "births": round(age / 40) + stock * 2, "deaths": round(age / 40) + stock * 2 - 20, "releases": round(age / 40) + stock,
        "maker.unit:unused-agent.service": round(stock * 0.9), "maker.workload:batch/Job/tok": round(stock * 0.06),
        "maker.session:1000": round(stock * 0.04),
        "born.unit:unused-agent.service": round(stock * 0.9) + 1, "died.unit:unused-agent.service": round(stock * 0.9),
        "released.unit:unused-agent.service": 0,
        "sweep_seconds": round(0.0016 + 0.0026 * share + generator.random() * 3e-4, 6),
        "kernel_bytes": stock * 18_000, "bytes.shmem": round(stock * 0.9) * PAGE, "bytes.file": round(stock * 0.06) * 8 * PAGE,
        "reclaim_pass_seconds": round(0.0005 + 0.019 * hot, 6), "reclaim_cpu_seconds": round(9 * hot * generator.random(), 4),
        "pressure.memory.some": round(min(0.01 + 0.8 * hot, 0.97), 4), "pressure.memory.full": round(0.4 * hot, 4),
        "pressure.cpu.some": round(0.05 + 0.2 * generator.random(), 4), "throttled_seconds": 0.0,
        "saturated_seconds": round(max(at - (now - 7 * HOUR), 0.0) * 0.4, 3), "softirq_wait_seconds": round(age * 1e-4, 4),
        "nic_resets": float(max(int((at - (now - 6 * HOUR)) // 430), 0)),
    }  # fmt: skip
    for core in range(16):
        busy = 95 if core == 1 and hot > 0.2 else 60 if core in (4, 5, 9) and hot > 0.3 else 3
        values[f"core.{core}"] = min(round(busy * (0.9 + 0.2 * generator.random())), 100)
    return values


def _happenings(now: float, days: float, zombies: int) -> Iterator[tuple[float, str, str]]:
    found = [(now - min(days, 19.0) * DAY, "agent-began", "events by bpf")]
    found += [(now - 4 * HOUR - 24 * 60, "agent-ended", "asked to"), (now - 4 * HOUR, "agent-began", "events by bpf")]
    for name, since in (
        ("zombie-population", 19.0),
        ("costly-reclaim-walk", 9.0),
        ("saturated-core", 7.0),
        ("nic-reset", 6.0),
    ):
        found.append((now - since * HOUR, "finding-present", f"{name}: {zombies:,} dead memory cgroups"))
        found.append((now - since * HOUR + 1, "finding-severity", f"{name}: warning"))
        found.append((now - since / 2 * HOUR, "finding-severity", f"{name}: critical"))
        if since > 4.4:
            found.append((now - 4 * HOUR + 30, "finding-present", f"{name}: {zombies:,} dead memory cgroups"))
            found.append((now - 4 * HOUR + 31, "finding-severity", f"{name}: critical"))
    at = now - 6 * HOUR
    while at < now:
        if not now - 4 * HOUR - 24 * 60 <= at < now - 4 * HOUR:
            found.append((at, "nic-reset", "eth0 queue 3: transmit timeout, its poll on CPU 1"))
            found.append((at - 6, "core-saturated", "core 1: 5.0 s, 99% system"))
            found.append((at - 7, "reclaim-pass", "direct: 3.1 s, 40 calls"))
        at += 430
    return iter(sorted(found))


def incident_looked(folder: str, zombies: int = 20_008) -> Looked:
    """The case of the incident, with its zombies one by one and its history: what a look at that host would have found."""

    history(folder, zombies, days=30.0, coarse=60.0)
    world = machine(zombies)
    hierarchy = read_memory_hierarchy(world)
    assert isinstance(hierarchy, Hierarchy)
    seen = evidence(zombies, hierarchy)
    autopsy = derive_autopsy(seen.walk, seen.population, None)
    facts = {
        **incident_facts(),
        "kernel_log": kernel_log(*(each for number in range(50) for each in reset(9 + number * 430))),
    }
    sick = case(
        zombies,
        live=_LIVE,
        services=services(loop("unused-agent.service", need="unneeded"), unneeded=(unneeded(),)),
        reclaim=reclaim(calls=252, pages=12, seconds=6.4, longest=3.1),
        **facts,
        snapshot={"sweep": slow_sweep(240)},
    )
    growth = growth_of(world, os.fsencode(folder))
    sick = sick._replace(growth=growth, remains=derive_remains(autopsy.bodies, "bpf", NOW, NOW - 10))
    diagnosis = diagnose(sick)
    plan = propose(diagnosis, autopsy, None, Levers(), activity=activity_of(sick))
    dissected = Dissected(sick.last.snapshot, seen.walk, autopsy, (), NOTHING_BESIDE)
    live = LiveTree((b"/", b"/system.slice", b"/kubepods", b"/kubepods/burstable", b"/user.slice"), ())

    audit = Gap("units", "the case does not tell of every unit", "zombiescope audit, on the host")
    day = read_day(os.fsencode(folder), NOW)
    return Looked(Examined(sick, diagnosis, autopsy, None, dissected), dissected, plan, audit, live, day)


def store_capture(folder: str, at: float) -> None:
    """A small capture as if it had been recorded when a core saturated."""
    found = import_perf(small_capture().file(), TOOLS, "the incident")
    sample = int(found.time[0])
    about = found.about._replace(clock=Clock(round(at * 1e9), sample), ring="saturated-core")
    save(os.fsencode(folder), b"saturated", encode_capture(replace(found, about=about)))


def serve_incident(folder: str, port: int = 0, zombies: int = 20_008) -> None:
    """Until it is ended; its address is its first line."""

    looked = incident_looked(folder, zombies)
    store_capture(os.path.join(folder, "captures"), NOW - 30 * 60)
    host = machine(10)
    state = os.fsencode(folder)
    subject = Subject(host, None, Thresholds(), state, 0.0, os.path.join(state, b"captures"))

    def make() -> bytes:
        about = {"at": NOW, "severity": looked.examined.diagnosis.worst}
        return laid_out(documents(subject, looked), stories(looked), about)

    def opened(selector: selectors.BaseSelector) -> Site:
        return Site(Standing(subject, selector, make))

    server = PageServer(("127.0.0.1", port), opened)
    print(server.address, flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve()


def main(arguments: list[str]) -> None:
    what, folder, *more = arguments
    if what == "big":
        print(big(folder, int(more[0]) if more else 20_000))
    elif what == "incident":
        serve_incident(folder, int(more[0]) if more else 0)
    else:
        sys.exit("big DIR [ZOMBIES] | incident DIR [PORT]")


if __name__ == "__main__":
    main(sys.argv[1:])
