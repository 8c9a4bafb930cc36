# SPDX-License-Identifier: Apache-2.0
"""A believable leaker: a service that is restarted, or containers that come and go, each leaving one page behind.

Every zombie is made by a child of its own, which enters, writes and ends: nothing else of it stays charged.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from zombiescope.errors import ActionFailedError, UsageError
from zombiescope.lab.pins.catalogue import pin_of
from zombiescope.lab.pins.pin import Bench, Pin
from zombiescope.lab.runs import Run, account
from zombiescope.lab.staff import Report, Staff, Work, read_mapped_files
from zombiescope.lab.truth import Made, Truth

STYLES = ("service", "docker", "ecs")
LEAKING_PINS = ("tmpfs", "page-cache")
_MAKER = re.compile(r"[A-Za-z0-9][A-Za-z0-9@:._-]{0,99}")


def checked_maker(name: str) -> str:
    if not _MAKER.fullmatch(name):
        raise UsageError(
            f"cannot use {name!r} as a maker",
            "a maker is 1 to 100 letters, digits and @ : . _ - and begins with a letter or digit",
            "--maker crashy-agent",
        )
    return name


@dataclass(frozen=True, slots=True)
class LeakOrder:
    maker: str
    per_minute: float
    seconds: float | None
    """None: until somebody stops it."""
    style: str
    kind: str
    place: str | None = None
    """The cgroup of every life, below the run's subtree; None: as the style says."""

    @property
    def expected(self) -> int | None:
        return None if self.seconds is None else max(1, math.ceil(self.seconds * self.per_minute / 60))


def fresh_path(order: LeakOrder) -> list[str]:
    """The cgroups of one life, outermost first, below the lab's subtree. A service comes back under its own name."""
    if order.place is not None:
        return [order.place]
    container = secrets.token_hex(32)
    if order.style == "service":
        return [f"system.slice/{order.maker}.service"]
    if order.style == "docker":
        return [f"docker/{container}"]
    task = secrets.token_hex(16)
    return [f"ecs/{task}", f"ecs/{task}/{container}"]


def leak(run: Run, order: LeakOrder, advance: Callable[[int], None]) -> Truth:
    started = time.monotonic()
    bench = Bench(run.name, run.hierarchy, run.subtree, run.journal, 0)
    pin = pin_of(order.kind)(bench)
    pin.announce()
    run.hierarchy.make_parents(f"{run.subtree}/{os.path.dirname(fresh_path(order)[0])}")
    staff = Staff(run.journal, _leak_work(pin, order), stays=False)
    made = staff.follow(advance)
    staff.keep()
    truth = account(run, "leak", made, time.monotonic() - started)
    truth.more["leak"] = {"maker": order.maker, "style": order.style, "asked_per_minute": order.per_minute}
    return truth


def _leak_work(pin: Pin, order: LeakOrder) -> Work:
    def work(report: Report) -> None:
        read_mapped_files()
        start = time.monotonic()
        for index in itertools.count() if order.expected is None else range(order.expected):
            time.sleep(max(0.0, start + index * 60 / order.per_minute - time.monotonic()))
            report.made(_one_life(pin, index, [f"{pin.bench.subtree}/{path}" for path in fresh_path(order)]))

    return work


def _one_life(pin: Pin, index: int, paths: list[str]) -> list[Made]:
    hierarchy = pin.bench.hierarchy
    pin.prepare(range(index, index + 1))
    ids = []
    for depth, path in enumerate(paths):
        ids.append(hierarchy.make(path))
        if depth + 1 < len(paths):
            hierarchy.make_parents(path)
    child = os.fork()
    if child == 0:
        _live_and_end(pin, index, paths[-1])
    if os.waitpid(child, 0)[1] != 0:
        raise ActionFailedError(
            f"cannot leak in the cgroup {paths[-1]}", "the process inside it failed", "zombiescope lab clean"
        )
    for path in reversed(paths):
        hierarchy.remove(path)
    outer = [Made(number, path, "child", None, 0) for number, path in zip(ids[:-1], paths[:-1], strict=True)]
    return [*outer, Made(ids[-1], paths[-1], pin.kind, pin.file(index), pin.bytes_each)]


def _live_and_end(pin: Pin, index: int, path: str) -> None:
    code = 1
    try:
        pin.bench.hierarchy.enter(path)
        pin.charge(index, pin.bench.hierarchy.folder(path))
        code = 0
    finally:
        os._exit(code)


def churn(run: Run, per_second: float, seconds: float, progress: Callable[[float], None]) -> Truth:
    """`progress` is told the seconds that are over."""
    run.hierarchy.make_parents(run.subtree)
    start = time.monotonic()
    births = deaths = 0
    while (now := time.monotonic() - start) < seconds:
        due = births / per_second
        if due > now:
            time.sleep(min(due - now, seconds - now, 0.2))
            progress(now)
            continue
        path = f"{run.subtree}/c{births:07d}"
        run.hierarchy.make(path)
        births += 1
        run.hierarchy.remove(path)
        deaths += 1
    took = time.monotonic() - start
    truth = account(run, "churn", [], took)
    truth.more["churn"] = {
        "births": births,
        "deaths": deaths,
        "asked_per_second": per_second,
        "achieved_per_second": round(births / took, 2),
    }
    return truth
