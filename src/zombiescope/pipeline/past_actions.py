# SPDX-License-Identifier: Apache-2.0
"""Actions of the past, from their journals alone: which there are, what can be taken back of each, and taking it back."""

from collections import Counter
from typing import NamedTuple

from zombiescope.errors import ActionFailedError, UsageError, reason_of
from zombiescope.execution.checks import read_checks
from zombiescope.execution.journal import (
    FILE,
    ActionFolder,
    Entry,
    Journal,
    cannot_read,
    is_path,
    read_entries,
    restore_line,
    undo_line,
)
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import Attention, SurpriseError
from zombiescope.execution.undo import pending, undo_all, undo_state
from zombiescope.execution.way_back import KeptCopy, is_one_at_work, kept_copies, restore_all
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, unshown
from zombiescope.host.access import answers
from zombiescope.host.live import LiveHost
from zombiescope.host.writes import Writer
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.node import read_identity
from zombiescope.remedies.receipts import PastAction, PastStep, Taken, UndoState


class Opened(NamedTuple):
    """An action of the past."""

    name: str
    folder: str
    entries: list[Entry]

    @property
    def begin(self) -> Entry:
        return next((entry for entry in self.entries if entry["entry"] == "begin"), {})


def open_action(state: str, name: str | None) -> Opened:
    actions = ActionFolder(state)
    names = actions.names()
    chosen = name or (names[-1] if names else None)
    if chosen is None or chosen not in names:
        if not names:
            raise UsageError("nothing was applied yet", f"no action is recorded in {actions.place}", "zombiescope plan")
        raise UsageError(f"no such action: {name}", f"the latest are {', '.join(names[-5:])}", "zombiescope actions")
    folder = actions.folder(chosen)
    try:
        return Opened(chosen, folder, read_entries(folder))
    except OSError as error:
        raise cannot_read(folder, error) from error


class Undone(NamedTuple):
    action: str
    taken: tuple[Taken, ...]
    todo: tuple[Entry, ...]
    """What would be taken back, where it was not done."""
    kept: tuple[KeptCopy, ...] = ()
    """Deleted files of which a copy can still be put back."""
    restore: str = ""
    """What to type for that."""
    again: str = ""
    """What to type to take the rest back."""

    @property
    def lost(self) -> int:
        """Changes that took data which is not back."""
        return sum(each.outcome == "cannot-be-undone" for each in self.taken)


def undo(
    state: str, name: str | None, *, do: bool, restore: bool = False, attention: Attention | None = None
) -> Undone:
    """Once begun it goes through: no signal but SIGKILL leaves it half done. `restore`: deleted files, too."""
    if not do:
        opened = open_action(state, name)
        kept = kept_copies(opened.entries, opened.folder)
        return Undone(opened.name, (), tuple(pending(opened.entries)), tuple(kept), *_lines(opened.folder))
    with ActionFolder(state).locked():
        return _undo(open_action(state, name), attention or Attention(), restore=restore)


def _undo(opened: Opened, attention: Attention, *, restore: bool) -> Undone:
    host = LiveHost()
    root = _root_of(opened)
    journal = Journal(opened.folder, host.wall_clock, attention.point)
    hands = Hands(Writer(root, attention.point), journal)
    attention.restoring()
    try:
        boot_id, has_systemd = read_identity(host).boot_id, not root and answers(host.inode, b"/run/systemd/system")
        taken = undo_all(hands, has_systemd=has_systemd, boot_id=boot_id)
        if restore:
            hierarchy = read_memory_hierarchy(host)
            back = restore_all(hands, None if isinstance(hierarchy, Gap) or root else hierarchy)
            taken = _joined(taken, back, journal.entries())
    except (SurpriseError, OSError) as error:
        raise ActionFailedError(f"cannot undo {opened.name}", str(error), "mend that, then undo again") from error
    failed = [each for each in taken if each.outcome == "not-restored"]
    if failed:
        why = "; ".join(f"{each.what}: {each.why}" for each in failed)
        raise ActionFailedError(f"not everything of {opened.name} could be put back", why, "mend that, then undo again")
    kept = kept_copies(journal.entries(), opened.folder)
    return Undone(opened.name, tuple(taken), (), tuple(kept), *_lines(opened.folder))


def _root_of(opened: Opened) -> bytes:
    """Never this machine because the line that names another root is damaged."""
    root = opened.begin.get("root", "") if opened.begin else None
    if not is_path(root):
        raise UsageError(
            f"cannot undo {opened.name}",
            "the first line of its journal is damaged: it does not say which machine was changed",
            f"put back by hand what {opened.folder} names",
        )
    return unshown(str(root))


def _lines(folder: str) -> tuple[str, str]:
    return restore_line(folder), undo_line(folder)


def _joined(taken: list[Taken], back: list[Taken], entries: list[Entry]) -> list[Taken]:
    """A deletion all of whose files are back is no loss any more; of another one the rest still is."""
    deleted = {entry["seq"]: len(entry["files"]) for entry in entries if entry.get("do") == "delete_files"}
    came = Counter(each.seq for each in back if each.outcome != "not-restored")
    kept = [each for each in taken if each.seq not in came]
    told = {each.seq for each in taken}
    for seq, number in came.items():
        missing = deleted.get(seq, number) - number
        if missing and seq in told:
            kept.append(
                Taken(seq, f"delete {counted(missing, 'file')}", "cannot-be-undone", "no copy was kept", is_lost=True)
            )
    return [*kept, *back]


class PastActions(NamedTuple):
    state: str
    actions: tuple[PastAction, ...]
    """Newest first."""
    total: int
    taken_at: float
    identity: Identity


def past_actions(state: str, limit: int = 0) -> PastActions:
    """`limit`: the newest so many; 0 for all."""
    host = LiveHost()
    identity = read_identity(host)
    folder = ActionFolder(state)
    names = folder.names()[::-1]
    busy = is_one_at_work(state)
    wanted = names[:limit] if limit else names
    found = [_past(folder.folder(name), name, identity.boot_id, busy=busy and name == names[0]) for name in wanted]
    return PastActions(state, tuple(found), len(names), host.wall_clock(), identity)


def _past(folder: str, name: str, boot_id: str | None, *, busy: bool) -> PastAction:
    lines, journal = (undo_line(folder), restore_line(folder)), f"{folder}/{FILE}"
    try:
        opened = Opened(name, folder, read_entries(folder))
    except (OSError, UsageError) as error:
        return PastAction(
            name, None, None, "", (), UndoState.UNKNOWN, lines[0], (), lines[1], journal, reason_of(error)
        )
    ends = [entry.get("at") for entry in opened.entries if entry["entry"] in ("end", "undo-end", "surprise")]
    kept = tuple(kept_copies(opened.entries, folder))
    state = undo_state(opened.entries, boot_id)
    if busy and state is UndoState.IN_THE_MIDDLE:
        state = UndoState.AT_WORK
    return PastAction(
        name, opened.begin.get("at"), ends[0] if ends else None, str(opened.begin.get("root", "")),
        _steps(opened.entries), state, lines[0], kept, lines[1], journal, checks=read_checks(folder),
    )  # fmt: skip


def _steps(entries: list[Entry]) -> tuple[PastStep, ...]:
    ends = {entry.get("n"): entry for entry in entries if entry["entry"] == "step-end"}
    titles = {entry.get("n"): str(entry.get("title", "")) for entry in entries if entry["entry"] == "step"}
    numbers = dict.fromkeys(entry.get("n") for entry in entries if entry["entry"] in ("step", "step-end"))
    names = {entry.get("n"): str(entry.get("name", "")) for entry in entries if entry["entry"] in ("step", "step-end")}
    found = []
    for number in numbers:
        end = ends.get(number, {})
        title = titles.get(number) or names[number]
        status = str(end.get("status", "cut-short"))
        found.append(PastStep(names[number], title, status, end.get("freed"), str(end.get("note", ""))))
    return tuple(found)
