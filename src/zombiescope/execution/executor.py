# SPDX-License-Identifier: Apache-2.0
"""One step at a time; at the first surprise it stops. How each primitive of a plan is done.

What frees memory is done in batches, journalled batch by batch, watching memory pressure, and over when nothing is gained.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar, assert_never

from zombiescope.execution.grip import Deletion, Rewriting
from zombiescope.execution.journal import Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused, refusing
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import shown
from zombiescope.host.removal import Identity, InUseError
from zombiescope.host.writes import NUDGE
from zombiescope.remedies.plan import (
    AskHuman,
    Change,
    DeleteFiles,
    DropCaches,
    DropFiles,
    Flush,
    NamedFile,
    PlaceFile,
    PlaceLink,
    Reclaim,
    ReclaimWay,
    RemoveLinks,
    RemoveSegments,
    RewriteFiles,
    SetFile,
    Step,
    StopUnit,
    SwapIn,
    Undo,
)
from zombiescope.remedies.receipts import StepReceipt

_BATCH = 256
_PRESSURE_LIMIT = 20.0
"""Percent of the last ten seconds in which some task waited for memory."""
_LEAST_REQUEST, _MOST_REQUEST = 16 << 20, 256 << 20
_ROUNDS, _FRUITLESS_ROUNDS = 64, 3
_ROUNDS_FOR_SWAPPED = 6
"""No zombie goes while its swap entry is there, so nothing shows what was gained; a page just written out is young to the
multi-generational LRU, which gave it up at the third request."""
_FORCE_EMPTY_SECONDS = 60.0
LOWERED = b"0"
"""What memory.high is for a moment; the kernel shows it as it is written."""
_TRANSIENT = (errno.EAGAIN, errno.EBUSY, errno.EINTR)
_Item = TypeVar("_Item")


class Surroundings(NamedTuple):
    stock: Callable[[], int | None]
    """How many of the zombies that the plan is about are still there; None where that cannot be told."""
    pressure: Callable[[], float | None]
    wait: Callable[[float], None]
    hierarchy: Hierarchy | None


class Freeing:
    def __init__(self, hands: Hands, around: Surroundings) -> None:
        self._hands, self._around = hands, around

    def drop_files(self, change: DropFiles) -> str:
        skipped = 0
        for batch in self.batches(change.files):
            number = self._intend(Write.DROP_FILES, files=[shown(file.path) for file in batch])
            for file in batch:
                skipped += not self._quietly(self._drop, file)
            self._hands.journal.done(number)
        return _left_alone(skipped, len(change.files))

    def _drop(self, file: NamedFile) -> None:
        self._hands.writer.drop_cache(file.path, Identity(file.inode, file.device))

    def remove_segments(self, change: RemoveSegments) -> str:
        skipped = attached = 0
        for batch in self.batches(change.ids):
            number = self._intend(Write.REMOVE_SEGMENTS, segments=list(batch))
            for segment in batch:
                try:
                    skipped += not self._quietly(self._hands.writer.remove_segment, segment)
                except InUseError:
                    attached += 1
            self._hands.journal.done(number)
        said = f"{attached:,} of {len(change.ids):,} left alone: a process has attached them by now" if attached else ""
        return ". ".join(filter(None, (said, _left_alone(skipped, len(change.ids)))))

    def flush(self, change: Flush) -> str:
        if (hierarchy := self._around.hierarchy) is None:
            raise SurpriseError("cannot flush", "the memory hierarchy is not known")
        folder = hierarchy.place(change.parent)
        number = self._intend(Write.FLUSH, parent=shown(change.parent), path=shown(folder + b"/" + NUDGE))
        with refusing("cannot let one cgroup die"):
            self._hands.writer.sync()
            self._hands.writer.let_one_die(folder)
        self._hands.journal.done(number)
        return ""

    def swap_in(self, change: SwapIn) -> str:
        for device in change.devices:
            with refusing(f"cannot switch {shown(device)} off and on"):
                priority = swap_priority(self._hands.writer.read_value(b"/proc/swaps"), device)
                if priority is None:
                    raise SurpriseError(f"cannot switch {shown(device)} off and on", "it is no swap area any more")
                number = self._intend(Write.SWAP_IN, device=shown(device), priority=priority)
                self._hands.writer.swap(device, on=False)
                self._hands.writer.swap(device, on=True, priority=priority)
            self._hands.journal.done(number)
        return ""

    def set_trigger(self, path: bytes, value: bytes) -> str:
        """A file of the kernel that does something when it is written, and has no value to put back."""
        number = self._intend(Write.TRIGGER, path=shown(path))
        with refusing(f"cannot write to {shown(path)}"):
            self._hands.writer.set_file(path, value)
        self._hands.journal.done(number)
        return ""

    def reclaim(self, change: Reclaim) -> str:
        rounds = fruitless = 0
        patience = _ROUNDS_FOR_SWAPPED if change.takes_swapped else _FRUITLESS_ROUNDS
        before = self._around.stock()
        while rounds < _ROUNDS and fruitless < patience and before != 0:
            if self._is_pressed():
                return f"stopped after {rounds} rounds: memory pressure is above {_PRESSURE_LIMIT:.0f} %"
            self._one_round(change)
            rounds += 1
            self._hands.writer.settle()
            self._around.wait(0.2)
            after = self._around.stock()
            if after is None or change.way in (ReclaimWay.FORCE_EMPTY, ReclaimWay.MEMORY_HIGH):
                fruitless += 2  # nobody can tell whether more helps, or it was all in one go
            else:
                fruitless = 0 if before is None or after < before else fruitless + 1
            before = after
        return f"{rounds} round{'s' if rounds != 1 else ''}"

    def _one_round(self, change: Reclaim) -> None:
        request = min(max(2 * change.size, _LEAST_REQUEST), _MOST_REQUEST)
        for file in change.files:
            if change.way is ReclaimWay.MEMORY_HIGH:
                self._lower_for_a_moment(file)
                continue
            number = self._intend(Write.RECLAIM, path=shown(file), bytes=request)
            try:
                if change.way is ReclaimWay.FORCE_EMPTY:
                    self._hands.writer.set_file_in_child(file, b"0", _FORCE_EMPTY_SECONDS)
                else:
                    self._ask(file, request, files_alone=not change.takes_swapped)
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    raise refused(f"cannot write to {shown(file)}", error) from error
            self._hands.journal.done(number)

    def _ask(self, file: bytes, request: int, *, files_alone: bool) -> None:
        """File pages alone where they are enough and the kernel takes the word; what it could not free in full is no error."""
        if files_alone:
            try:
                self._hands.writer.set_file(file, b"%d swappiness=0" % request)
                return
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
        self._hands.writer.set_file(file, b"%d" % request)

    def _lower_for_a_moment(self, file: bytes) -> None:
        """Put back whatever happens; after a kill `undo` puts it back. What somebody set meanwhile stays."""
        writer = self._hands.writer
        with refusing(f"cannot lower {shown(file)} and raise it again"):
            before = writer.read_value(file)
            value = before.decode("ascii", "replace")
            number = self._intend(Write.SET_FILE_FOR_A_MOMENT, path=shown(file), before=value, value=LOWERED.decode())
            try:
                writer.set_file(file, LOWERED)
            finally:
                if before != LOWERED and writer.read_value(file) == LOWERED:
                    writer.set_file(file, before)
        self._hands.journal.done(number)

    def batches(self, items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
        for start in range(0, len(items), _BATCH):
            if start and self._is_pressed():
                self._around.wait(5.0)
                if self._is_pressed():
                    raise SurpriseError(
                        f"stopped after {start:,} of {len(items):,}",
                        f"memory pressure is above {_PRESSURE_LIMIT:.0f} %",
                    )
            yield items[start : start + _BATCH]

    def _is_pressed(self) -> bool:
        return (self._around.pressure() or 0.0) > _PRESSURE_LIMIT

    def _intend(self, do: Write, **facts: object) -> int:
        return self._hands.journal.intend(self._hands.step, do, **facts)

    @staticmethod
    def _quietly(work: Callable[[_Item], object], item: _Item) -> bool:
        """What vanished meanwhile needs nothing."""
        try:
            work(item)
        except InUseError:
            raise
        except OSError:
            return False
        return True


def swap_priority(table: bytes, device: bytes) -> int | None:
    """As /proc/swaps tells; None where the device is not in it."""
    rows = map(bytes.split, table.split(b"\n")[1:])
    return next((int(words[4]) for words in rows if len(words) >= 5 and words[0] == device), None)


def _left_alone(skipped: int, of: int) -> str:
    return f"{skipped:,} of {of:,} were gone, were others of the same name, or refused" if skipped else ""


_SETTLE_LOOKS, _SETTLE_SECONDS = 300, 0.1
_STILL_LOOKS = 20
"""So often in a row the same number: the kernel frees in the background, and on a busy machine that pauses."""


class Executor:
    def __init__(self, hands: Hands, around: Surroundings, *, has_systemd: bool) -> None:
        self._hands, self._around, self._has_systemd = hands, around, has_systemd
        self._freeing = Freeing(hands, around)

    def skip(self, step: Step, note: str, status: str = "skipped") -> StepReceipt:
        with refusing("cannot keep the journal"):
            self._hands.journal.add("step-end", n=step.n, name=step.name, status=status, note=note)
        return StepReceipt(step, status, None, note)

    def run(self, step: Step) -> StepReceipt:
        """Raises SurpriseError; what the journal cannot hold is one too."""
        with refusing(f"cannot keep the journal of {step.title!r}"):
            if step.is_for_people:
                return self.skip(step, "printed, never done here", "for-people")
            self._hands.step = step.n
            self._hands.journal.add("step", n=step.n, name=step.name, title=step.title, undo=step.undo)
            before = self._around.stock() if step.expected else None
            note = self._do(step.change, step.undo)
            freed = self._freed(before, step.expected.zombies_freed if step.expected else None)
            self._hands.journal.add("step-end", n=step.n, name=step.name, status="done", freed=freed, note=note)
            return StepReceipt(step, "done", freed, note)

    def _freed(self, before: int | None, wanted: int | None) -> int | None:
        """The kernel frees a little later than it lets go: looked at until what is expected is there, or it stands still."""
        if before is None:
            return None
        last, still = before, 0
        for _ in range(_SETTLE_LOOKS):
            self._hands.writer.settle()
            self._around.wait(_SETTLE_SECONDS)
            if (now := self._around.stock()) is None:
                return None
            still = still + 1 if now == last else 0
            last = now
            if (wanted is not None and before - now >= wanted) or still >= _STILL_LOOKS:
                break
        return before - last

    def _do(self, change: Change, undo: Undo) -> str:  # noqa: C901, PLR0911, PLR0912 (one line a primitive)
        match change:
            case StopUnit(unit=unit):
                return self._hands.stop_unit(unit)
            case PlaceLink(path=path, target=target):
                self._hands.place_link(path, target)
                return self._reload()
            case RemoveLinks(paths=paths):
                for path in paths:
                    self._hands.remove_link(path)
                return self._reload()
            case PlaceFile(path=path, content=content):
                self._hands.place_file(path, content)
                return self._reload()
            case SetFile(path=path, value=value):
                if undo is Undo.NONE:
                    return self._freeing.set_trigger(path, value)
                self._hands.set_value(path, value)
                return ""
            case Reclaim():
                return self._freeing.reclaim(change)
            case DropFiles():
                return self._freeing.drop_files(change)
            case RewriteFiles():
                return Rewriting(self._hands, self._freeing.batches, self._around.hierarchy).run(change)
            case DeleteFiles():
                return Deletion(self._hands, self._freeing.batches).run(change)
            case RemoveSegments():
                return self._freeing.remove_segments(change)
            case Flush():
                return self._freeing.flush(change)
            case SwapIn():
                return self._freeing.swap_in(change)
            case DropCaches(path=path):
                self._hands.writer.sync()
                return self._freeing.set_trigger(path, b"1")
            case AskHuman():
                raise SurpriseError("cannot do a step that you do by hand", "a bug in the plan")
            case _:
                assert_never(change)

    def _reload(self) -> str:
        if self._has_systemd:
            self._hands.reload()
        return "" if self._has_systemd else "systemd was not told: it does not run here"
