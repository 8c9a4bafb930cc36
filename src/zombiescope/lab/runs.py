# SPDX-License-Identifier: Apache-2.0
"""One lab run from start to truth: journal, subtree, staff, account; and back to nothing when it fails."""

import itertools
import math
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from zombiescope.errors import ActionFailedError, ActionUndoneError, ObservationError, UsageError, ZombiescopeError
from zombiescope.facts.gap import Gap
from zombiescope.lab import hierarchy as controller
from zombiescope.lab.cleaning import Cleaned, clean_run, find_runs, hierarchy_or_none, remove_shared_names
from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy
from zombiescope.lab.pins.files import Child, DirtyFile, MappedFile, PageCache, Swap, Tmpfs
from zombiescope.lab.pins.pin import Bench, Pin
from zombiescope.lab.pins.references import Memfd, SharedAnon, Socket, SysvShm, Unreaped, Visible
from zombiescope.lab.places import LAB, checked_run_name, new_run_name, refusal, require_root
from zombiescope.lab.processes import in_child
from zombiescope.lab.staff import Report, Work, all_made, read_mapped_files, zombie_work
from zombiescope.lab.truth import Made, RunJournal, Truth, dead_count, open_journal

SETTLE_SECONDS, ORDINARY_DEATH_SECONDS = 3.0, 1.0
Advance = Callable[[int], None]


@dataclass(slots=True)
class Run:
    """A run that is being worked on. `end` lets go of it, `undo` removes all of it."""

    name: str
    hierarchy: MemoryHierarchy
    journal: RunJournal
    below: str = ""
    """Another cgroup that everything is made below."""

    @property
    def subtree(self) -> str:
        return self.below or f"/{LAB}/{self.name}"

    def end(self) -> None:
        self.journal.close()

    def undo(self) -> Cleaned:
        """Once begun it goes through: a second Ctrl-C would leave half of it."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.journal.close()
        (cleaned,), _ = clean(self.name)
        return cleaned


def begin(name: str | None) -> Run:
    require_root()
    run = checked_run_name(name) if name is not None else new_run_name()
    hierarchy = find_hierarchy()
    if hierarchy.exists(f"/{LAB}/{run}"):
        raise UsageError(
            f"cannot start the lab run {run}",
            "a run of that name is there already",
            f"zombiescope lab clean --name {run}",
        )
    journal = open_journal(run)
    journal.intend("cgroups", path=f"/{LAB}/{run}", hierarchy=hierarchy.version)
    begun = Run(run, hierarchy, journal)
    try:
        controller.hand_down(hierarchy)
    except ZombiescopeError as error:
        raise _after_undo(begun, error) from error
    return begun


@contextmanager
def guarded(run: Run) -> Iterator[None]:
    """Whatever goes wrong, or whoever interrupts, what the run made is removed."""
    try:
        yield
    except (ZombiescopeError, OSError) as error:
        known = error if isinstance(error, ZombiescopeError) else refusal("cannot go on with the lab run", error)
        raise _after_undo(run, known) from error
    except BaseException:
        run.undo()
        raise


def _after_undo(run: Run, error: ZombiescopeError) -> ZombiescopeError:
    cleaned = run.undo()
    if cleaned.left:
        left = "; ".join(f"{what} ({why})" for what, why in cleaned.left)
        return ActionFailedError(
            error.what, f"{error.why}. Left behind: {left}", f"zombiescope lab clean --name {run.name}"
        )
    if isinstance(error, ObservationError | UsageError):
        return error
    return ActionUndoneError(error.what, f"{error.why}. Everything the run made was removed", error.hint)


def make_zombies(run: Run, kind: str, count: int, advance: Advance) -> Truth:
    bench = Bench(run.name, run.hierarchy, run.subtree, run.journal, count)
    started = time.monotonic()
    pin = pin_of(kind)(bench)
    pin.refuse()
    pin.announce()
    run.hierarchy.make_parents(run.subtree)
    made = all_made(run.journal, zombie_work(pin), advance, stays=pin.is_held)
    return account(run, "zombies", made, time.monotonic() - started, pin)


def account(run: Run, action: str, made: list[Made], seconds: float, pin: Pin | None = None) -> Truth:
    is_visible = isinstance(pin, Visible)
    expected = 0 if is_visible else len(made)
    truth = Truth(run.name, run.subtree, run.hierarchy.version, action, tuple(made), is_visible, None, seconds)
    if (seen := _seen(run, expected)) is None:
        return replace(
            truth,
            gaps=(
                Gap(
                    "counts.seen_by_kernel",
                    "a v1 memory hierarchy counts no zombies below one cgroup",
                    "zombiescope autopsy",
                ),
            ),
        )
    lost = (
        f"the kernel holds only {seen} of the {expected} removed cgroups: it hands pages of the dead to their parent, "
        "or something freed the pins"
    )
    return replace(truth, seen=seen, note=lost if seen < expected else "")


def _seen(run: Run, expected: int) -> int | None:
    """The kernel's count trails by a moment, both ways, and an ordinary death takes up to a second: the lower of two looks."""
    give_up = time.monotonic() + SETTLE_SECONDS
    while True:
        seen = dead_count(run.hierarchy, run.subtree)
        if seen is None or not expected:
            return seen
        if seen >= expected or time.monotonic() > give_up:
            time.sleep(ORDINARY_DEATH_SECONDS)
            return min(seen, dead_count(run.hierarchy, run.subtree) or 0)
        time.sleep(0.05)


def clean(name: str | None = None) -> tuple[list[Cleaned], str]:
    """One run, or all of them; and what stays of that which they share, with the reason."""
    require_root()
    hierarchy = hierarchy_or_none()
    runs = find_runs(hierarchy) if name is None else [checked_run_name(name)]
    return [clean_run(run, hierarchy) for run in runs], remove_shared_names(hierarchy)


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
    container, task = secrets.token_hex(32), secrets.token_hex(16)
    return {
        "service": [f"system.slice/{order.maker}.service"],
        "docker": [f"docker/{container}"],
        "ecs": [f"ecs/{task}", f"ecs/{task}/{container}"],
    }[order.style]


def leak(run: Run, order: LeakOrder, advance: Callable[[int], None]) -> Truth:
    started = time.monotonic()
    pin = pin_of(order.kind)(Bench(run.name, run.hierarchy, run.subtree, run.journal, 0))
    pin.announce()
    run.hierarchy.make_parents(f"{run.subtree}/{os.path.dirname(fresh_path(order)[0])}")
    made = all_made(run.journal, _leak_work(pin, order), advance, stays=False)
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
    for path in paths:
        ids.append(hierarchy.make(path))
        if path != paths[-1]:
            hierarchy.make_parents(path)

    def live() -> None:
        hierarchy.enter(paths[-1])
        pin.charge(index, hierarchy.folder(paths[-1]))

    if os.waitpid(in_child(live), 0)[1] != 0:
        raise ActionFailedError(
            f"cannot leak in the cgroup {paths[-1]}", "the process inside it failed", "zombiescope lab clean"
        )
    for path in reversed(paths):
        hierarchy.remove(path)
    outer = [Made(number, path, "child", None, 0) for number, path in zip(ids[:-1], paths[:-1], strict=True)]
    return [*outer, Made(ids[-1], paths[-1], pin.kind, pin.file(index), pin.bytes_each)]


def churn(run: Run, per_second: float, seconds: float, progress: Callable[[float], None]) -> Truth:
    """`progress` is told the seconds that are over."""
    run.hierarchy.make_parents(run.subtree)
    start = time.monotonic()
    births = 0
    while (now := time.monotonic() - start) < seconds:
        due = births / per_second
        if due > now:
            time.sleep(min(due - now, seconds - now, 0.2))
            progress(now)
            continue
        path = f"{run.subtree}/c{births:07d}"
        run.hierarchy.make(path)
        run.hierarchy.remove(path)
        births += 1
    took = time.monotonic() - start
    truth = account(run, "churn", [], took)
    truth.more["churn"] = {
        "births": births,
        "deaths": births,
        "asked_per_second": per_second,
        "achieved_per_second": round(births / took, 2),
    }
    return truth


PINS: dict[type[Pin], str] = {
    PageCache: "clean cached pages of a file on disk",
    DirtyFile: "a file with unwritten data",
    MappedFile: "cached pages that a process maps",
    Tmpfs: "a file in /dev/shm",
    Memfd: "a nameless file in memory that a process holds",
    SharedAnon: "shared memory that a process maps",
    SysvShm: "a System V segment",
    Socket: "an open TCP socket",
    Child: "a dead child cgroup",
    Unreaped: "a process that nobody waited for",
    Swap: "memory in swap",
    Visible: "a directory that nobody removed: not a zombie",
}
"""Every kind that can be made, and what it is."""
KINDS = tuple(pin.kind for pin in PINS)


def pin_of(kind: str) -> type[Pin]:
    return next(pin for pin in PINS if pin.kind == kind)


def list_kinds() -> list[dict[str, str]]:
    return [{"kind": pin.kind, "what": what} for pin, what in PINS.items()]
