# SPDX-License-Identifier: Apache-2.0
"""What stops an action: something is not as the plan saw it, the machine refused, or a signal asked it to end. It stops at a safe
point and everything is put back.

Safe points are those that the journal and the writer tell (`point`): a kill between any two of them can be taken back, so can an
interruption. Where the kernel or a person may take long, a signal is heard at once. While things are put back none is heard.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self


class SurpriseError(Exception):
    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__(f"{what}: {why}")
        self.what, self.why, self.hint = what, why, hint


def refused(what: str, error: OSError) -> SurpriseError:
    why = error.strerror or str(error)
    return SurpriseError(what, why[:1].lower() + why[1:])


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """What the machine refuses is a surprise."""
    try:
        yield
    except OSError as error:
        raise refused(what, error) from error


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_MAY_BLOCK = ("set_file", "set_file_in_child", "sync", "swapoff", "swapon", "systemctl")
_BETWEEN_STEPS = ("journal:step", "journal:step-end", "journal:end")


class InterruptedActionError(SurpriseError):
    """`what` names the signal."""


class Attention:
    """Listens from `with` on; without it no signal is heard. What was ignored before (`nohup`) stays ignored."""

    def __init__(self, fault: Callable[[str], None] = lambda _: None) -> None:
        self._fault = fault
        self._before: dict[signal.Signals, Any] = {}
        self.heard: str | None = None
        self._is_waiting = self._was_raised = False
        self._under_way = self._raised_in = ""
        """The change that was begun, and the one in which a signal was heard at once."""

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def point(self, name: str) -> None:
        """Told before and after each change and after each line of the journal. Raises InterruptedActionError, once."""
        self._fault(name)
        moment, _, what = name.partition(":")
        self._is_waiting = moment == "before" and what.split()[0] in _MAY_BLOCK
        if moment == "before":
            self._under_way, self._raised_in = what, ""
        # A change that ended well although a signal was raised in it: some callback of Python's swallowed that.
        was_swallowed = moment == "after" and what == self._raised_in
        if self.heard and (not self._was_raised or was_swallowed or name in _BETWEEN_STEPS):
            self._raise()

    @contextmanager
    def at_ease(self) -> Iterator[None]:
        """While nothing is changed: a signal is heard at once."""
        self._is_waiting = True
        try:
            if self.heard:
                self._raise()
            yield
        finally:
            self._is_waiting = False
        if self.heard:  # what it raised was swallowed
            self._raise()

    def restoring(self) -> None:
        """From here on nothing ends us but SIGKILL, nor the programs that we ask: they inherit it."""
        self._was_raised = True
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _hear(self, number: int, _: FrameType | None) -> None:
        self.heard = self.heard or signal.Signals(number).name
        if self._is_waiting and not self._was_raised:
            self._raised_in = self._under_way
            self._raise()

    def _raise(self) -> None:
        self._was_raised = True
        raise InterruptedActionError(f"interrupted by {self.heard}", "a signal asked it to end")
