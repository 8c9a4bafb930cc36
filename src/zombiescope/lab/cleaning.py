# SPDX-License-Identifier: Apache-2.0
"""`lab clean`: removes everything of a run, found by its journal and by its names, whatever ended the run.

Order: processes, files and segments (the pins), cgroups deepest first, then a last look at what the kernel still holds.
What was just freed may keep a few dead cgroups for a while: `draining.py` pushes it out.
"""

import mmap
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.host.page_size import PAGE_BYTES, every_cpu
from zombiescope.host.safe_paths import held_open
from zombiescope.lab import hierarchy as controller
from zombiescope.lab import places
from zombiescope.lab import processes as units
from zombiescope.lab.hierarchy import MemoryHierarchy, find_hierarchy, reclaim
from zombiescope.lab.pins import references
from zombiescope.lab.pins.files import sync_filesystem, sync_filesystem_of
from zombiescope.lab.places import LAB, has_swap, is_run_name
from zombiescope.lab.processes import LabProcess, boot_id, end_processes, find_ours, in_child, is_named_ours, start_time
from zombiescope.lab.truth import dead_below, entries, kept_truth, take_over

_BATCH_PAGES, _SWAP_BATCH_PAGES = 64, 160
_MADV_PAGEOUT = 21
_STOCK_CGROUPS = 24


def drain_pages() -> None:
    """Fresh pages through every CPU's batch."""
    _on_every_cpu(lambda descriptor: os.write(descriptor, b"d" * PAGE_BYTES * _BATCH_PAGES))


def _swap_out_and_free(descriptor: int) -> None:
    """Fresh swap entries: the 65th that a CPU frees pushes the first 64 out of its cache."""
    size = PAGE_BYTES * _SWAP_BATCH_PAGES
    os.ftruncate(descriptor, size)
    with mmap.mmap(descriptor, size) as view:
        view[:] = b"d" * size
        view.madvise(_MADV_PAGEOUT)
        # Read back, page by page: that waits for the write to end and frees the entry. To free one that is still being written
        # leaves it behind, in the swap cache, and nothing is pushed out.
        for start in range(0, size, PAGE_BYTES):
            view[start]
    os.ftruncate(descriptor, 0)


def _on_every_cpu(work: Callable[[int], object]) -> None:
    with held_open(os.memfd_create(LAB)) as descriptor, closing(every_cpu()) as cpus:
        for _ in cpus:
            work(descriptor)


def push_out(hierarchy: MemoryHierarchy, subtree: str, attempt: int) -> None:
    """The cheap ways at once, the dear ones when they were not enough."""
    drain_pages()
    reclaim(hierarchy.folder(subtree))
    if attempt % 20 == 2:
        sync_filesystem("/")
        charge_elsewhere(hierarchy, subtree)
        if has_swap():
            _on_every_cpu(_swap_out_and_free)


def charge_elsewhere(hierarchy: MemoryHierarchy, subtree: str) -> None:
    """No CPU's stock of charges remembers the dead below `subtree` any more."""
    for cpu in list(every_cpu()):
        _charge_on(hierarchy, subtree, cpu)


def _charge_on(hierarchy: MemoryHierarchy, subtree: str, cpu: int) -> None:
    """Other cgroups take the places of a CPU's stock. Their deaths also make the kernel look at dead writeback structures."""
    paths = [f"{subtree}/nudge{number}" for number in range(_STOCK_CGROUPS)]
    for path in paths:
        hierarchy.make(path)

    def hop_and_charge() -> None:
        os.sched_setaffinity(0, {cpu})
        for path in paths:
            hierarchy.enter(path)
            with mmap.mmap(-1, PAGE_BYTES, mmap.MAP_PRIVATE) as page:
                page[0] = 1

    os.waitpid(in_child(hop_and_charge), 0)
    for path in paths:
        hierarchy.remove(path)


RELEASE_SECONDS = 8.0
LEAST_ATTEMPTS = 24
"""On a starved host the time is up before the dear ways of `draining.py` were tried twice."""


@dataclass(slots=True)
class Cleaned:
    """What went and what did not."""

    run: str
    processes: int = 0
    cgroups: int = 0
    files: int = 0
    segments: int = 0
    in_use: bool = False
    left: list[tuple[str, str]] = field(default_factory=list)

    def as_document(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "removed": {name: getattr(self, name) for name in ("processes", "cgroups", "files", "segments")},
            "in_use": self.in_use,
            "left": [{"what": what, "why": why} for what, why in self.left],
        }


def find_runs(hierarchy: MemoryHierarchy | None) -> list[str]:
    """Every run there is any trace of."""
    named = hierarchy.children(f"/{LAB}") if hierarchy else []
    named += [references.owner_of(segment) or "" for segment in references.list_candidates()]
    processes = {process.run for process in find_ours(places.ROOTS)}
    return sorted({*places.runs_in_folders(), *units.runs_with_units(), *processes, *filter(is_run_name, named)})


def clean_run(run: str, hierarchy: MemoryHierarchy | None) -> Cleaned:
    cleaned = Cleaned(run)
    if (locks := take_over(run)) is None:
        cleaned.in_use = True
        commands = [str(entry["pid"]) for entry in entries(run) if entry.get("role") == "command"]
        who = ", ".join(commands) or "unknown"
        cleaned.left.append((f"run {run}", f"a command is still working on it (process {who}): end it first"))
        return cleaned
    try:
        _try(cleaned, f"unit {units.agent_of(run)}", units.stop_agent)
        _end_staff(cleaned)
        _remove_pins(cleaned)
        if hierarchy is not None:
            _remove_cgroups(cleaned, hierarchy, f"/{LAB}/{run}")
            _remove_cgroups(cleaned, hierarchy, f"/{units.slice_of(run)}", stays=True)
        # After their cgroups: without them systemd removes the slice, and nobody counts what is dead below it.
        _try(cleaned, f"units of run {run}", units.remove_units)
        # The state folder goes last: until here a second attempt finds the journal.
        files, left = places.remove_run_folders(run) if not cleaned.left else (0, [])
        cleaned.files += files
        cleaned.left.extend(left)
    finally:
        for lock in locks:
            os.close(lock)
    return cleaned


def remove_shared_names(hierarchy: MemoryHierarchy | None) -> str:
    """The folders, the cgroup and the controller that all runs share, once no run is left. Empty, or what stays and why."""
    # Segments that no journal knows and a kill kept from being marked: ours by key, owner and size, empty, their maker gone.
    for segment in references.list_candidates():
        if start_time(segment.creator) is None and references.owner_of(segment) == "":
            references.remove_segment(segment)
    note = ""
    if hierarchy is not None and not hierarchy.children(f"/{LAB}"):
        try:
            hierarchy.remove(f"/{LAB}", patience_seconds=0.5)
        except OSError:
            note = ""
        else:
            note = controller.take_back(hierarchy)
    places.remove_empty_roots()
    return note


def _try(cleaned: Cleaned, what: str, work: Callable[[str], None]) -> None:
    try:
        work(cleaned.run)
    except (ActionFailedError, OSError) as error:
        cleaned.left.append((what, getattr(error, "why", str(error))))


def _end_staff(cleaned: Cleaned) -> None:
    """By its marks, and by the journal where a process may not have had the time to mark itself."""
    for _ in range(3):
        ours = find_ours(places.ROOTS, cleaned.run)
        ours.extend(_journalled_staff(cleaned.run, {process.pid for process in ours}))
        stubborn = end_processes(ours)
        cleaned.processes += len(ours) - len(stubborn)
        cleaned.left.extend((f"process {process.pid}", "it does not end when killed") for process in stubborn)
        if stubborn or not ours:
            return


def _journalled_staff(run: str, known: set[int]) -> list[LabProcess]:
    found = []
    for entry in entries(run):
        pid, start = entry.get("pid"), entry.get("start")
        if entry.get("role") != "staff" or not isinstance(pid, int) or not isinstance(start, int) or pid in known:
            continue
        is_of_this_boot = entry.get("boot", boot_id()) == boot_id()  # earlier versions did not say
        if start and is_of_this_boot and is_named_ours(pid) and start_time(pid) == start:
            found.append(LabProcess(pid, start, run))
    return found


def _remove_pins(cleaned: Cleaned) -> None:
    for folder in places.pin_folders(cleaned.run):
        # On v2 a dirty file would keep the dead cgroup through its writeback structure.
        sync_filesystem_of(folder)
        with os.scandir(folder) as files:
            for file in files:
                if not file.is_dir(follow_symlinks=False):
                    os.unlink(file.name, dir_fd=folder)
                    cleaned.files += 1
    staff = {entry.get("pid") for entry in entries(cleaned.run) if entry.get("role") == "staff"}
    for segment in references.list_candidates():
        owner = references.owner_of(segment)
        if owner == cleaned.run or (owner == "" and segment.creator in staff):
            references.remove_segment(segment)
            cleaned.segments += 1


def _remove_cgroups(cleaned: Cleaned, hierarchy: MemoryHierarchy, subtree: str, *, stays: bool = False) -> None:
    """`stays`: the top is systemd's to remove, and so is the cgroup of the unit that keeps it."""
    if not hierarchy.exists(subtree):
        return
    kept = {subtree, f"{subtree}/{units.anchor_of(cleaned.run)}"}
    for path in hierarchy.deepest_first(subtree):
        if path not in kept:
            _remove_cgroup(cleaned, hierarchy, path)
    if still := _wait_for_release(hierarchy, subtree):
        cleaned.left.append(
            (f"{still} below {subtree}", "the kernel has not released them yet; run lab clean again in a while")
        )
    elif not stays:
        _remove_cgroup(cleaned, hierarchy, subtree)


def _remove_cgroup(cleaned: Cleaned, hierarchy: MemoryHierarchy, path: str) -> None:
    try:
        cleaned.cgroups += hierarchy.remove(path)
    except OSError as error:
        guests = hierarchy.processes(path)
        why = f"processes that are not the lab's are in it: {guests}" if guests else str(error.strerror)
        cleaned.left.append((f"cgroup {path}", why))


def _wait_for_release(hierarchy: MemoryHierarchy, subtree: str) -> str:
    """Empty once the kernel holds nothing dead below the subtree, else what it still holds."""
    give_up = time.monotonic() + RELEASE_SECONDS
    drain_pages()
    attempt = 0
    while still := dead_below(hierarchy, subtree):
        if time.monotonic() > give_up and attempt >= LEAST_ATTEMPTS:
            return still
        time.sleep(0.05)
        push_out(hierarchy, subtree, attempt)
        attempt += 1
    return ""


class Seen(NamedTuple):
    """A run that left any trace."""

    run: str
    action: str | None
    """`zombies`, `leak` or `churn`; None where the run did not get so far as to write down what it made."""
    made: int | None
    by_pin: dict[str, int]
    at_work: bool
    """A command is working on it."""


def list_runs() -> list[Seen] | Gap:
    if os.geteuid() != 0:
        return Gap("runs", "the lab's folders are root's", "sudo zombiescope lab list")
    return [_seen(run) for run in find_runs(hierarchy_or_none())]


def hierarchy_or_none() -> MemoryHierarchy | None:
    try:
        return find_hierarchy()
    except ObservationError:
        return None


def _seen(run: str) -> Seen:
    truth = kept_truth(run)
    counts: dict[str, Any] = truth["counts"] if isinstance(truth.get("counts"), dict) else {}
    return Seen(run, truth.get("action"), counts.get("made"), dict(counts.get("by_pin") or {}), _is_at_work(run))


def _is_at_work(run: str) -> bool:
    """The command that the journal names is alive, by number and start."""
    return any(
        entry.get("role") == "command"
        and entry.get("boot") == boot_id()
        and isinstance(entry.get("pid"), int)
        and start_time(int(entry["pid"])) == entry.get("start")
        for entry in entries(run)
    )
