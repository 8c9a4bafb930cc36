# SPDX-License-Identifier: Apache-2.0
"""Work that may take very long, in a child: it can be interrupted, and never outlives us."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_in_child(work: Callable[[], object], seconds: float) -> int | None:
    """0, or the error number with which it failed; negative where a signal ended it; None when it was interrupted in the end."""
    us, libc = os.getpid(), ctypes.CDLL(None)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # a handler of ours must not run in the child
    with _noted() as noted:
        child = os.fork()
    if child == 0:
        _do_and_end(work, us, libc, mask)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in noted:
            signal.raise_signal(number)
        status = _wait(child, seconds)
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


def _do_and_end(
    work: Callable[[], object], parent: int, libc: ctypes.CDLL, mask: set[int | signal.Signals]
) -> NoReturn:
    code = 255
    try:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if os.getppid() == parent:
            work()
            code = 0
    except OSError as error:
        code = min(error.errno or 255, 255)
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> int | None:
    """Its status; None when it had to be interrupted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.kill(child, signal.SIGINT)
    os.waitpid(child, 0)
    return None
