# SPDX-License-Identifier: Apache-2.0
"""A program of ours that another one keeps running: started again when it ends, less and less often, and ended with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 10.0, 3600.0
_GOOD_SECONDS = 600.0
"""One that ran so long gets a new beginning."""
_END_SECONDS = 30.0
_KINDNESS = 5
_PR_SET_PDEATHSIG = 1
_ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class KeptChild:
    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._libc = ctypes.CDLL(None)
        self._process: int | None = None
        self._began = 0.0
        self._next = 0.0
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
        how = f"it ended with exit code {code}" if code >= 0 else f"signal {-code} ended it"
        self._pause = (
            _FIRST_PAUSE_SECONDS if now - self._began >= _GOOD_SECONDS else min(_LONGEST_PAUSE_SECONDS, 2 * self._pause)
        )
        self._next = now + self._pause
        self.why = f"{how}; it is started again in {self._pause:.0f} s"

    def _start(self, now: float) -> None:
        us = os.getpid()
        # A signal that comes before the child has its own handlers must wait, or ours would swallow it there.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED)
        try:
            process = os.fork()
            if process == 0:
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
            for number in _ASKED:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() == parent:
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
        over = time.monotonic() + _END_SECONDS
        while time.monotonic() < over:
            if os.waitpid(self._process, os.WNOHANG)[0]:
                self._process = None
                return
            time.sleep(0.05)
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        self._process = None
