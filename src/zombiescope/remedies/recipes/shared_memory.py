# SPDX-License-Identifier: Apache-2.0
"""Files in memory and SysV segments hold zombies: what nobody uses is rewritten, deleted or removed, each with consent of its own;
what a live program uses is left to people."""

from collections import defaultdict
from collections.abc import Iterator

from zombiescope.facts.names import counted, shown
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import HeldBy
from zombiescope.remedies.choice import Draft, Lever, Situation, least_harm_first, may_be_deleted
from zombiescope.remedies.plan import (
    KEPT_BYTES,
    KEPT_BYTES_IN_ALL,
    AskHuman,
    DeleteFiles,
    NamedFile,
    RemoveSegments,
    RewriteFiles,
    Risk,
    Undo,
)

_NAMED = 5


def rewrite_shared_files(situation: Situation) -> Iterator[Draft]:
    """Files in memory can be kept and their zombies freed all the same: a copy charged to the root cgroup takes the place
    of each. The zombies go; the memory stays in use, and so does the file."""
    for folder, levers in _unused_by_folder(situation):
        yield Draft(
            f"rewrite:{shown(folder)}",
            f"rewrite {counted(len(levers), 'file')} in {shown(folder)} in place, keeping what is in them",
            RewriteFiles(tuple(NamedFile(lever.target, lever.inode, lever.device) for lever in levers)),
            "memory of these files is charged to dead cgroups; a copy of each, charged to the root cgroup, which never dies, takes "
            "its place with the same content, owner, mode and times. The cost: room for one more copy at a time, a new inode "
            "number, and memory that no limit counts from then on. It stays in use: only the zombies go",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.MEDIUM,
            Undo.EXACT,
            needs_consent=True,
            pulls=frozenset(levers),
            instead_of=(f"delete:{shown(folder)}",),
        )


def delete_shared_files(situation: Situation) -> Iterator[Draft]:
    """Files in memory (tmpfs, /dev/shm) go only when they are deleted: by name, folder by folder. What is still being written is
    left alone, whatever it holds."""
    for folder, levers in _unused_by_folder(situation):
        yield Draft(
            f"delete:{shown(folder)}",
            f"delete {counted(len(levers), 'file')} in {shown(folder)}",
            DeleteFiles(tuple(NamedFile(lever.target, lever.inode, lever.device) for lever in levers)),
            f"memory of these files is charged to dead cgroups; reclaim frees none of it without swap, and with swap only moves it "
            f"there. The cost: "
            f"{Remedy.DELETE_FILE.cost}; copies of those up to {KEPT_BYTES >> 10} KiB are kept in the state folder, "
            f"{KEPT_BYTES_IN_ALL >> 20} MiB in all",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(levers),
        )


def _unused_by_folder(situation: Situation) -> list[tuple[bytes, list[Lever]]]:
    """Most files first. What is still being written is left out, whatever it holds."""
    folders: dict[bytes, list[Lever]] = defaultdict(list)
    used = situation.still_written | situation.levers.files_in_use.keys()
    for lever in situation.choices.of(Remedy.DELETE_FILE):
        if may_be_deleted(lever.target) and lever.target not in used:
            folders[lever.target.rpartition(b"/")[0]].append(lever)
    most = sorted(folders.items(), key=lambda item: (-len(item[1]), item[0]))[:20]
    return [(folder, sorted(levers, key=least_harm_first)) for folder, levers in most]


def remove_segments(situation: Situation) -> Iterator[Draft]:
    """SysV segments outlive their makers: removed by id, with consent, where no process is attached."""
    attached = situation.levers.segments
    wanted = [
        lever
        for lever in situation.choices.of(Remedy.REMOVE_SEGMENT)
        if lever.inode is not None and attached.get(lever.inode) == 0  # one that is not listed is another namespace's
    ]
    if wanted:
        yield Draft(
            "remove-segments",
            f"remove {counted(len(wanted), 'SysV segment')} that no process has attached",
            RemoveSegments(tuple(sorted(lever.inode for lever in wanted if lever.inode is not None))),
            f"segments of dead cgroups; the cost: {Remedy.REMOVE_SEGMENT.cost}",
            "pinned-shared-memory",
            "ipcs -m",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(wanted),
        )


def in_use(situation: Situation) -> Iterator[Draft]:
    """Shared memory that a live program has open, mapped or attached is not deleted: people decide what becomes of the program."""
    holders = situation.levers.files_in_use
    files = [
        lever
        for lever in situation.choices.of(Remedy.DELETE_FILE)
        if lever.target in holders and may_be_deleted(lever.target)
    ]
    if files:
        yield _files(files, list(dict.fromkeys(holders[lever.target] for lever in files)))
    attached = situation.levers.segments
    segments = [lever for lever in situation.choices.of(Remedy.REMOVE_SEGMENT) if attached.get(lever.inode or 0, 0)]
    if segments:
        yield Draft(
            "segments-in-use",
            f"look at {counted(len(segments), 'SysV segment')} that processes have attached",
            AskHuman(("ipcs -m -p",)),
            "what is in them is in use; they can be removed when the processes have let go of them",
            "pinned-shared-memory",
            "ipcs -m",
            Risk.MEDIUM,
            Undo.NONE,
        )


def _files(files: list[Lever], holders: list[HeldBy]) -> Draft:
    more = f" and {len(holders) - _NAMED:,} more" if len(holders) > _NAMED else ""
    first = holders[:_NAMED]
    who = ", ".join(holder.said for holder in first)
    return Draft(
        "files-in-use",
        f"look at {counted(len(files), 'file')} that live programs have open or mapped: {who}{more}",
        AskHuman(tuple(f"ps -o pid,ppid,unit,cmd -p {holder.process}" for holder in first if holder.process)),
        f"such as {shown(files[0].target)}: when the program has ended or let go of it, apply deletes it",
        "pinned-shared-memory",
        "zombiescope autopsy --by file",
        Risk.MEDIUM,
        Undo.NONE,
    )
