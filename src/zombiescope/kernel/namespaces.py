# SPDX-License-Identifier: Apache-2.0
"""Work done inside another namespace, by a thread that enters it and ends there: the rest of the process stays where it is."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

NETWORK, IPC = 0x40000000, 0x08000000
_libc = ctypes.CDLL(None, use_errno=True)


def run_inside(link: bytes, kind: int, work: Callable[[], None]) -> None:
    """`link` is a namespace in /proc. Raises OSError where it cannot be entered, and what `work` raises."""
    failures: list[BaseException] = []

    def enter_and_work() -> None:
        try:
            _enter(link, kind)
            work()
        except BaseException as error:  # noqa: BLE001 -- raised again below, in the caller's thread
            failures.append(error)

    thread = threading.Thread(target=enter_and_work, name="zombiescope-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _enter(link: bytes, kind: int) -> None:
    descriptor = os.open(link, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, kind) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
    finally:
        os.close(descriptor)
