# SPDX-License-Identifier: Apache-2.0
"""What a lab run says of itself. Its journal: what will be made, written and synced before it is made. And its account,
`zombiescope.lab/1`: what was made, independent of every reader that is tested against it.

One JSON object a line. A line cut short by a kill is the last one and announces nothing that exists. The lock beside it is held by
the command that works on the run (the kernel drops it when the command dies), and every process of the run keeps it open: that is
how `lab clean` tells our processes from others. A journal names processes to end: only one in a folder of ours alone is believed,
whoever else can make files of that name.
"""

import fcntl
import json
import os
import platform
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.own_folder import open_own_file
from zombiescope.host.whole_file import sync_folder
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.lab.places import FORMER_ROOTS, STATE_ROOTS, own_run, state_folder, text_of
from zombiescope.lab.processes import BOOT_ID, boot_id, mark_self, start_time

JOURNAL, LOCK, TRUTH = "journal.jsonl", "lock", "truth.json"
_MOST_BYTES = 64 << 20
"""A thousand times the longest one seen."""
_KEEPERS = (*STATE_ROOTS, *FORMER_ROOTS)
Entry = dict[str, str | int]


@dataclass(slots=True)
class RunJournal:
    run: str
    folder: str
    lock: int
    lines: int

    def intend(self, what: str, **facts: str | int) -> None:
        """Says on disk what comes next."""
        os.write(self.lines, (json.dumps({"intent": what, **facts}, sort_keys=True) + "\n").encode())
        os.fsync(self.lines)

    def intend_process(self, role: str, pid: int) -> None:
        self.intend("process", role=role, pid=pid, start=start_time(pid) or 0, boot=boot_id())

    def keep_truth(self, document: str) -> None:
        path = Path(self.folder, TRUTH)
        path.touch(mode=0o600)  # `lab list` believes only what is root's alone
        path.write_text(document)

    def close(self) -> None:
        for descriptor in (self.lines, self.lock):
            with suppress(OSError):
                os.close(descriptor)


def open_journal(run: str) -> RunJournal:
    mark_self()
    folder = state_folder(run)
    lock = os.open(f"{folder}/{LOCK}", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    lines = os.open(f"{folder}/{JOURNAL}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    sync_folder(folder)
    sync_folder(os.path.dirname(folder))
    journal = RunJournal(run, folder, lock, lines)
    journal.intend_process("command", os.getpid())
    return journal


def entries(run: str) -> list[Entry]:
    """What a run announced, as far as its journal can be read; nothing when it is lost."""
    lines = (line for root in _KEEPERS for line in _text(root, run, JOURNAL).splitlines())
    return [entry for entry in map(_parsed, lines) if entry is not None]


def kept_truth(run: str) -> dict[str, Any]:
    """What it wrote down of what it made; nothing where it did not get so far."""
    found = (_parsed(_text(root, run, TRUTH)) for root in _KEEPERS)
    return next((truth for truth in found if truth is not None), {})


def _parsed(text: str) -> dict[str, Any] | None:
    """None for what is no object of JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(root: str, run: str, name: str) -> str:
    try:
        with own_run(root, run) as folder, os.fdopen(open_own_file(folder, name), "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def take_over(run: str) -> list[int] | None:
    """Locks a run for cleaning and returns the descriptors to close after; None while a command still works on it."""
    taken: list[int] = []
    for root in _KEEPERS:
        try:
            with own_run(root, run) as folder:
                taken.append(open_own_file(folder, LOCK, os.O_RDWR))
        except OSError:
            continue
        try:
            fcntl.lockf(taken[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for each in taken:
                os.close(each)
            return None
    return taken


SCHEMA = "zombiescope.lab/1"


@dataclass(frozen=True, slots=True)
class Made:
    id: int
    """Inode of its directory, which is the kernel's id of the cgroup."""
    path: str
    pin: str
    file: str | None
    bytes: int


@dataclass(frozen=True, slots=True)
class Truth:
    run: str
    subtree: str
    hierarchy: str
    action: str
    made: tuple[Made, ...]
    visible: bool = False
    """Directories left in place instead of zombies."""
    seen: int | None = None
    """Zombies the kernel itself counts below the subtree, where it does."""
    seconds: float = 0.0
    note: str = ""
    gaps: tuple[Gap, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


def truth_document(truth: Truth) -> dict[str, Any]:
    return {
        **stamp(truth.gaps),
        "action": truth.action,
        "run": truth.run,
        "hierarchy": truth.hierarchy,
        "subtree": truth.subtree,
        "seconds": round(truth.seconds, 3),
        "counts": {
            "made": len(truth.made),
            "zombies": _zombies(truth),
            "visible": len(truth.made) if truth.visible else 0,
            "bytes": sum(made.bytes for made in truth.made),
            "by_pin": dict(Counter(made.pin for made in truth.made)),
            "seen_by_kernel": truth.seen,
        },
        "note": truth.note or None,
        **truth.more,
        "made": [asdict(made) for made in truth.made],
    }


def _zombies(truth: Truth) -> int:
    """What was made, unless the kernel says that fewer became zombies: newer ones let some kinds go."""
    made = 0 if truth.visible else len(truth.made)
    return made if truth.seen is None else min(truth.seen, made)


def stamp(gaps: Sequence[Gap] = ()) -> dict[str, Any]:
    """The beginning of every document of the lab: when, where, and what could not be told."""
    told = {"boot_id": boot_id() or None, "uptime_seconds": _uptime()}
    unread = [Gap(f"host.{name}", f"{_PLACES[name]} cannot be read") for name, value in told.items() if value is None]
    return {
        "schema": SCHEMA,
        "taken_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "host": {
            "name": shown(os.fsencode(os.uname().nodename)),
            "kernel": platform.release(),
            **told,
        },
        "gaps": [gap._asdict() for gap in (*unread, *gaps)],
    }


_UPTIME = "/proc/uptime"
_PLACES = {"boot_id": BOOT_ID, "uptime_seconds": _UPTIME}


def _uptime() -> float | None:
    words = text_of(_UPTIME).split()
    return float(words[0]) if words else None


_V1_KINDS = ("cache", "rss", "swap")


def dead_count(hierarchy: MemoryHierarchy, path: str) -> int | None:
    """Zombies below `path`, self excluded; None where the kernel does not count them (v1)."""
    if not hierarchy.is_unified:
        return None
    facts = _numbers(hierarchy.file(path, "cgroup.stat"))
    return next((facts[name] for name in ("nr_dying_subsys_memory", "nr_dying_descendants") if name in facts), None)


def dead_bytes(hierarchy: MemoryHierarchy, path: str) -> int | None:
    """v1: bytes charged below `path` that no live cgroup owns. The kernel's figures may be two seconds old."""
    if hierarchy.is_unified or not (own := _numbers(hierarchy.file(path, "memory.stat"))):
        return None
    dead = sum(own.get(f"total_{kind}", 0) - own.get(kind, 0) for kind in _V1_KINDS)
    for name in hierarchy.children(path):
        child = _numbers(hierarchy.file(f"{path}/{name}", "memory.stat"))
        dead -= sum(child.get(f"total_{kind}", 0) for kind in _V1_KINDS)
    return max(dead, 0)


def dead_below(hierarchy: MemoryHierarchy, path: str) -> str:
    """What is dead and held, in words; empty for nothing."""
    if count := dead_count(hierarchy, path):
        return f"{count} zombies"
    held = dead_bytes(hierarchy, path)
    return f"{held} bytes of zombies" if held else ""


def _numbers(path: str) -> dict[str, int]:
    pairs = (line.split() for line in text_of(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


class Stage(NamedTuple):
    name: str
    seconds: float
    told: str
    figures: dict[str, Any]
    outputs: dict[str, str] = {}  # noqa: RUF012 (nobody writes to it)
    """What our own commands printed, by what was typed."""


class Setting(NamedTuple):
    command: str
    """As a person types it again."""
    kernel: str
    hierarchy: str
    cpus: int
    load: float
    """Of the last minute, when it began: times of a busy machine are no times."""
    who: str
    where: str = "this host, in the lab's own subtree"


def account_of(setting: Setting, stages: Sequence[Stage]) -> str:
    where = f"{setting.where}; Linux {setting.kernel}, memory on cgroup {setting.hierarchy}, {setting.cpus} CPUs"
    lines = [
        "# The incident, reproduced and healed",
        "",
        f"Written by `{setting.command}`: what the run did and what it printed, nothing added.",
        "",
        f"* where: {where}, load {setting.load:.1f} when it began",
        "* the cause: an unused agent crash-loops; each life leaves one file on a tmpfs, and its page keeps a dead memory cgroup",
        f"* who: {setting.who}",
        "* who suffers: a neighbour that reads a file on one core, under a limit on the parent that holds the dead",
        f"* how long: {sum(stage.seconds for stage in stages):.0f} s in all",
        "",
        "| stage | seconds | what was seen |",
        "|---|---|---|",
        *(f"| {stage.name} | {stage.seconds:.1f} | {_cell(stage.told)} |" for stage in stages),
    ]
    for stage in stages:
        for typed, output in stage.outputs.items():
            lines += ["", f"## `{typed}`", "", "```"]
            lines += [line.rstrip() for line in output.strip("\n").splitlines()] + ["```"]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
