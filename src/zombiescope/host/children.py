# SPDX-License-Identifier: Apache-2.0
"""Children of ours. Short-lived ones do heavy work: their memory and their mistakes end with them, and what they have to say comes
as bytes on a pipe. A kept one is a program that another keeps running: started again when it ends, less and less often, and ended
with its parent.

Of all processes a short-lived one is the first that a host short of memory may end, and it may be held to some more address space
than the one that started it: then it fails alone.
"""

import ctypes
import os
import resource
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

from zombiescope.host.bounds import address_space
from zombiescope.host.safe_paths import descriptor_of
from zombiescope.host.whole_file import write_all

_OUTPUT_LIMIT = 32 << 20
RESTART_SCHEDULED = "5eb03494b6584870a536b337290809b3"
"""The journal's id of the message with which systemd restarts a unit by itself."""


class Ran(NamedTuple):
    status: int
    output: bytes
    complaint: str


def ask_program(name: str, *arguments: str, seconds: float = 60.0) -> Ran | None:
    """What it printed; None where it is not installed. Raises OSError when it did not end in time."""
    assert name in ("systemctl", "journalctl")
    if (place := shutil.which(name)) is None:
        return None
    surroundings = {**os.environ, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
    try:
        run = subprocess.run([place, *arguments], capture_output=True, timeout=seconds, env=surroundings, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(110, f"{name} did not answer within {seconds:.0f} s") from error
    return Ran(run.returncode, run.stdout[:_OUTPUT_LIMIT], run.stderr.decode("utf-8", "replace").strip())


_KINDNESS = 5
_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_libc = ctypes.CDLL(None)
_MOST_BYTES = 4 << 20


class ShortLived:
    """`descriptor` becomes readable when there is something to `collect`. Raises OSError where no process can be started."""

    def __init__(self, work: Callable[[], bytes], memory: int | None = None, most: int = _MOST_BYTES) -> None:
        """`memory`: bytes of address space beyond what this process has now; None does not limit it. `most`: that it may say."""
        self._most = most
        self._said = bytearray()
        self.descriptor, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        us = os.getpid()
        try:
            self.process = os.fork()
        except OSError:
            os.close(self.descriptor)
            os.close(writing)
            raise
        if self.process == 0:
            _work(work, writing, memory, us)
        os.close(writing)

    def collect(self) -> bool:
        """True when the child has said everything, or more than it may."""
        while True:
            try:
                part = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return False
            self._said += part
            if not part or len(self._said) > self._most:
                return True

    def end(self, *, kill: bool = False) -> bytes | None:
        """What it said, or None where it was ended, failed or said too much. Waits: `kill` it unless it has said everything."""
        return None if (said := self.hand_over(kill=kill)) is None else bytes(said)

    def hand_over(self, *, kill: bool = False) -> bytearray | None:
        """As `end`, without a copy: for whoever takes much of it apart."""
        os.close(self.descriptor)
        if kill or len(self._said) > self._most:
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        said, self._said = self._said, bytearray()
        return said if status == 0 and len(said) <= self._most else None


class Tended:
    """A short-lived child that a loop tends: `ended` is told what it said (None where it failed), when, and whether that was too
    late; nothing of one that is stopped."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        work: Callable[[], bytes],
        until: float,
        ended: Callable[[bytearray | None, float, bool], None],
        *,
        memory: int | None = None,
        most: int = _MOST_BYTES,
    ) -> None:
        self._selector, self._until, self._ended = selector, until, ended
        self._child = ShortLived(work, memory, most)
        self._is_over = False
        selector.register(self._child.descriptor, selectors.EVENT_READ, self._spoke)

    def _spoke(self, now: float) -> None:
        if not self._is_over and self._child.collect():
            self._ended(self._let_go(kill=False), now, False)

    def drop_late(self, now: float) -> None:
        if now > self._until:
            self.cut_off(now)

    def cut_off(self, now: float) -> None:
        self._ended(self._let_go(kill=True), now, True)

    def stop(self) -> None:
        self._let_go(kill=True)

    def _let_go(self, *, kill: bool) -> bytearray | None:
        self._is_over = True
        self._selector.unregister(self._child.descriptor)
        return self._child.hand_over(kill=kill)


def _work(work: Callable[[], bytes], writing: int, memory: int | None, parent: int) -> None:
    """Ends with its parent: it holds what that one had open, a listening socket too, and nobody would hear what it says."""
    status = 1
    try:
        if not _ends_with(parent, signal.SIGKILL):
            return
        signal.set_wakeup_fd(-1)
        with suppress(OSError):
            os.nice(_KINDNESS)
        with suppress(OSError), descriptor_of("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC) as descriptor:
            os.write(descriptor, b"1000")
        if memory is not None:
            _limit(memory)
        os.set_blocking(writing, True)
        write_all(writing, memoryview(work()))
        status = 0
    finally:
        os._exit(status)


def _ends_with(parent: int, ending: signal.Signals) -> bool:
    """In a child: signals do to it what they do to any process, and it ends when its parent does. False where that one is gone."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    _libc.prctl(_PR_SET_PDEATHSIG, ending, 0, 0, 0)
    return os.getppid() == parent


def _limit(memory: int) -> None:
    """Where it cannot be limited it does not begin."""
    most, hard = address_space() + memory, resource.getrlimit(resource.RLIMIT_AS)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def run_in_child(work: Callable[[], object], seconds: float) -> int | None:
    """0, or the error number with which it failed; negative where a signal ended it; None when it was interrupted in the end."""
    us = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # a handler of ours must not run in the child
    with _noted() as noted:
        child = os.fork()
    if child == 0:
        _do_and_end(work, us, mask)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in noted:
            signal.raise_signal(number)
        status = _wait(child, seconds, signal.SIGINT)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return None if status is None else os.waitstatus_to_exitcode(status)


@contextmanager
def _noted() -> Iterator[list[int]]:
    """Signals that another thread takes meanwhile: what a handler raises in the hooks of a fork is swallowed, so it runs later."""
    noted: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in _ENDING if callable(signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _do_and_end(work: Callable[[], object], parent: int, mask: set[int | signal.Signals]) -> NoReturn:
    code = 255
    try:
        if _ends_with(parent, signal.SIGKILL):
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            work()
            code = 0
    except OSError as error:
        code = min(error.errno or 255, 255)
    finally:
        os._exit(code)


def _wait(child: int, seconds: float, ending: signal.Signals) -> int | None:
    """Its status; None when it had to be ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.kill(child, ending)
    os.waitpid(child, 0)
    return None


_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10.0, 3600.0
_GOOD_SECONDS = 600.0
"""One that ran so long gets a new beginning."""
_END_SECONDS = 30.0


class KeptChild:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: int | None = None
        self._began = self._next = 0.0
        self._pause = _FIRST_PAUSE_SECONDS
        self.starts = 0
        self.why = ""
        """Why it does not run; empty while it does."""

    def look(self, now: float) -> None:
        """Takes note of one that has ended, and starts the next one when it is time."""
        if self._process is not None:
            ended, status = os.waitpid(self._process, os.WNOHANG)
            if ended:
                self._take_note(status, now)
        if self._process is None and now >= self._next:
            self._start(now)

    def _take_note(self, status: int, now: float) -> None:
        self._process = None
        code = os.waitstatus_to_exitcode(status)
        self._pause = (
            _FIRST_PAUSE_SECONDS if now - self._began >= _GOOD_SECONDS else min(_LONGEST_PAUSE_SECONDS, 2 * self._pause)
        )
        self._next = now + self._pause
        how = f"it ended with exit code {code}" if code >= 0 else f"signal {-code} ended it"
        self.why = f"{how}; it is started again in {self._pause:.0f} s"

    def _start(self, now: float) -> None:
        us = os.getpid()
        # A signal that comes before the child has its own handlers must wait, or ours would swallow it there.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            if (process := os.fork()) == 0:
                self._become(us, before)
        except OSError as error:
            self._next, self.why = now + self._pause, f"no process could be started: {error.strerror}"
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._process, self._began, self.why = process, now, ""
        self.starts += 1

    def _become(self, parent: int, mask: Iterable[int]) -> None:
        try:
            signal.set_wakeup_fd(-1)
            if _ends_with(parent, signal.SIGTERM):
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                with suppress(OSError):
                    os.nice(_KINDNESS)
                os.execv(self._command[0], self._command)  # noqa: S606 (a program of ours)
        finally:
            os._exit(127)

    def close(self) -> None:
        """Lets it store what it has."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGTERM)
        _wait(self._process, _END_SECONDS, signal.SIGKILL)
        self._process = None
