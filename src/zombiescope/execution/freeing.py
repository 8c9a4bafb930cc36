# SPDX-License-Identifier: Apache-2.0
"""Changes that free memory: in batches, journalled batch by batch, watching memory pressure, and over when nothing is gained."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from zombiescope.execution.grip import Deletion
from zombiescope.execution.journal import Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.rewriting import Rewriting
from zombiescope.execution.surprise import SurpriseError, refused
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import shown
from zombiescope.host.removal import Identity, InUseError
from zombiescope.host.writes import NUDGE
from zombiescope.remedies.plan import (
    DeleteFiles,
    DropFiles,
    Flush,
    NamedFile,
    Reclaim,
    ReclaimWay,
    RemoveSegments,
    RewriteFiles,
    SwapIn,
)

_BATCH = 256
_PRESSURE_LIMIT = 20.0
"""Percent of the last ten seconds in which some task waited for memory."""
_LEAST_REQUEST, _MOST_REQUEST = 16 << 20, 256 << 20
_ROUNDS = 64
_FRUITLESS_ROUNDS = 3
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
        for batch in self._batches(change.files):
            number = self._intend(Write.DROP_FILES, files=[shown(file.path) for file in batch])
            for file in batch:
                skipped += not self._quietly(self._drop, file)
            self._hands.journal.done(number)
        return _left_alone(skipped, len(change.files))

    def _drop(self, file: NamedFile) -> None:
        self._hands.writer.drop_cache(file.path, Identity(file.inode, file.device))

    def rewrite_files(self, change: RewriteFiles) -> str:
        return Rewriting(self._hands, self._batches, self._around.hierarchy).run(change)

    def delete_files(self, change: DeleteFiles) -> str:
        return Deletion(self._hands, self._batches).run(change)

    def remove_segments(self, change: RemoveSegments) -> str:
        skipped, attached = 0, 0
        for batch in self._batches(change.ids):
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
        hierarchy = self._around.hierarchy
        if hierarchy is None:
            raise SurpriseError("cannot flush", "the memory hierarchy is not known")
        folder = hierarchy.place(change.parent)
        number = self._intend(Write.FLUSH, parent=shown(change.parent), path=shown(folder + b"/" + NUDGE))
        try:
            self._hands.writer.sync()
            self._hands.writer.let_one_die(folder)
        except OSError as error:
            raise refused("cannot let one cgroup die", error) from error
        self._hands.journal.done(number)
        return ""

    def swap_in(self, change: SwapIn) -> str:
        for device in change.devices:
            try:
                priority = swap_priority(self._hands.writer.read_value(b"/proc/swaps"), device)
                if priority is None:
                    raise SurpriseError(f"cannot switch {shown(device)} off and on", "it is no swap area any more")
                number = self._intend(Write.SWAP_IN, device=shown(device), priority=priority)
                self._hands.writer.swap(device, on=False)
                self._hands.writer.swap(device, on=True, priority=priority)
            except OSError as error:
                raise refused(f"cannot switch {shown(device)} off and on", error) from error
            self._hands.journal.done(number)
        return ""

    def set_trigger(self, path: bytes, value: bytes) -> str:
        """A file of the kernel that does something when it is written, and has no value to put back."""
        number = self._intend(Write.TRIGGER, path=shown(path))
        try:
            self._hands.writer.set_file(path, value)
        except OSError as error:
            raise refused(f"cannot write to {shown(path)}", error) from error
        self._hands.journal.done(number)
        return ""

    def reclaim(self, change: Reclaim) -> str:
        rounds, fruitless = 0, 0
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
        try:
            before = writer.read_value(file)
            value = before.decode("ascii", "replace")
            number = self._intend(Write.SET_FILE_FOR_A_MOMENT, path=shown(file), before=value, value=LOWERED.decode())
            try:
                writer.set_file(file, LOWERED)
            finally:
                if before != LOWERED and writer.read_value(file) == LOWERED:
                    writer.set_file(file, before)
        except OSError as error:
            raise refused(f"cannot lower {shown(file)} and raise it again", error) from error
        self._hands.journal.done(number)

    def _batches(self, items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
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
    for line in table.split(b"\n")[1:]:
        words = line.split()
        if len(words) >= 5 and words[0] == device:
            return int(words[4])
    return None


def _left_alone(skipped: int, of: int) -> str:
    return f"{skipped:,} of {of:,} were gone, were others of the same name, or refused" if skipped else ""
