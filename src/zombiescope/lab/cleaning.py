# SPDX-License-Identifier: Apache-2.0
"""`lab clean`: removes everything of a run, found by its journal and by its names, whatever ended the run.

Order: processes, files and segments (the pins), cgroups deepest first, then a last look at what the kernel still holds.
What was just freed may keep a few dead cgroups for a while: `draining.py` pushes it out.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

from zombiescope.errors import ActionFailedError
from zombiescope.lab import controller, draining, journal, places, sysv, units
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.lab.names import LAB, is_run_name
from zombiescope.lab.pins.files import sync_filesystem_of
from zombiescope.lab.processes import LabProcess, boot_id, end_processes, find_ours, is_named_ours, start_time
from zombiescope.lab.truth import dead_below

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
        removed = {"processes": self.processes, "cgroups": self.cgroups, "files": self.files, "segments": self.segments}
        left = [{"what": what, "why": why} for what, why in self.left]
        return {"run": self.run, "removed": removed, "in_use": self.in_use, "left": left}


def find_runs(hierarchy: MemoryHierarchy | None) -> list[str]:
    """Every run there is any trace of."""
    found = places.runs_in_folders()
    found.update(process.run for process in find_ours(places.ROOTS))
    found.update(units.runs_with_units())
    if hierarchy is not None:
        found.update(name for name in hierarchy.children(f"/{LAB}") if is_run_name(name))
    found.update(
        owner for segment in sysv.list_candidates() if (owner := sysv.owner_of(segment)) and is_run_name(owner)
    )
    return sorted(found)


def clean_run(run: str, hierarchy: MemoryHierarchy | None) -> Cleaned:
    cleaned = Cleaned(run)
    locks = journal.take_over(run)
    if locks is None:
        cleaned.in_use = True
        cleaned.left.append((f"run {run}", f"a command is still working on it (process {_command(run)}): end it first"))
        return cleaned
    try:
        _stop_units(cleaned)
        _end_staff(cleaned)
        _remove_pins(cleaned)
        if hierarchy is not None:
            _remove_cgroups(cleaned, hierarchy, f"/{LAB}/{run}")
            _remove_cgroups(cleaned, hierarchy, f"/{units.slice_of(run)}", stays=True)
        _remove_units(cleaned)
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
    _remove_orphan_segments()
    note = "" if hierarchy is None else _remove_shared_cgroup(hierarchy)
    places.remove_empty_roots()
    return note


def _remove_shared_cgroup(hierarchy: MemoryHierarchy) -> str:
    if hierarchy.children(f"/{LAB}"):
        return ""
    try:
        hierarchy.remove(f"/{LAB}", patience_seconds=0.5)
    except OSError:
        return ""
    return controller.take_back(hierarchy)


def _stop_units(cleaned: Cleaned) -> None:
    try:
        units.stop_agent(cleaned.run)
    except ActionFailedError as error:
        cleaned.left.append((f"unit {units.agent_of(cleaned.run)}", error.why))


def _remove_units(cleaned: Cleaned) -> None:
    """After their cgroups: without them systemd removes the slice, and nobody counts what is dead below it."""
    try:
        units.remove_units(cleaned.run)
    except (ActionFailedError, OSError) as error:
        cleaned.left.append((f"units of run {cleaned.run}", getattr(error, "why", str(error))))


def _command(run: str) -> str:
    return ", ".join(str(entry["pid"]) for entry in journal.entries(run) if entry.get("role") == "command") or "unknown"


def _end_staff(cleaned: Cleaned) -> None:
    """By its marks, and by the journal where a process may not have had the time to mark itself."""
    for _ in range(3):
        ours = find_ours(places.ROOTS, cleaned.run)
        ours.extend(_journalled_staff(cleaned.run, {process.pid for process in ours}))
        if not ours:
            return
        stubborn = end_processes(ours)
        cleaned.processes += len(ours) - len(stubborn)
        if stubborn:
            cleaned.left.extend((f"process {process.pid}", "it does not end when killed") for process in stubborn)
            return


def _journalled_staff(run: str, known: set[int]) -> list[LabProcess]:
    found = []
    for entry in journal.entries(run):
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
        cleaned.files += _remove_files(folder)
    staff = {entry.get("pid") for entry in journal.entries(cleaned.run) if entry.get("role") == "staff"}
    for segment in sysv.list_candidates():
        owner = sysv.owner_of(segment)
        if owner == cleaned.run or (owner == "" and segment.creator in staff):
            sysv.remove_segment(segment)
            cleaned.segments += 1


def _remove_files(folder: int) -> int:
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                count += 1
    return count


def _remove_orphan_segments() -> None:
    """Segments that no journal knows and a kill kept from being marked: ours by key, owner and size, empty, their maker gone."""
    for segment in sysv.list_candidates():
        if start_time(segment.creator) is None and sysv.owner_of(segment) == "":
            sysv.remove_segment(segment)


def _remove_cgroups(cleaned: Cleaned, hierarchy: MemoryHierarchy, subtree: str, *, stays: bool = False) -> None:
    """`stays`: the top is systemd's to remove, and so is the cgroup of the unit that keeps it."""
    if not hierarchy.exists(subtree):
        return
    kept = {subtree, f"{subtree}/{units.anchor_of(cleaned.run)}"}
    for path in hierarchy.deepest_first(subtree):
        if path not in kept:
            _remove_cgroup(cleaned, hierarchy, path)
    still = _wait_for_release(hierarchy, subtree)
    if still:
        cleaned.left.append(
            (f"{still} below {subtree}", "the kernel has not released them yet; run lab clean again in a while")
        )
        return
    if not stays:
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
    draining.drain_pages()
    attempt = 0
    while still := dead_below(hierarchy, subtree):
        if time.monotonic() > give_up and attempt >= LEAST_ATTEMPTS:
            return still
        time.sleep(0.05)
        draining.push_out(hierarchy, subtree, attempt)
        attempt += 1
    return ""
