# SPDX-License-Identifier: Apache-2.0
"""Heavy work in a short-lived child: its memory and its mistakes end with it. The outcome is one JSON document on a pipe."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

MOST_SECONDS = 120.0
_MOST_BYTES = 4 << 20
_KINDNESS = 5


class Child:
    """`descriptor` becomes readable when there is something to `collect`."""

    def __init__(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        self.name = name
        self._parts: list[bytes] = []
        self.descriptor, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.process = os.fork()
        if self.process == 0:
            _work(work, writing)
        os.close(writing)

    def collect(self) -> bool:
        """True when the child has said everything."""
        while True:
            try:
                part = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return False
            if not part:
                return True
            self._parts.append(part)
            if sum(map(len, self._parts)) > _MOST_BYTES:
                return True

    def end(self, *, kill: bool = False) -> dict[str, Any] | str:
        """The outcome, or why there is none."""
        os.close(self.descriptor)
        if kill:
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        if kill:
            return f"it took longer than {MOST_SECONDS:.0f} s and was stopped"
        try:
            outcome = json.loads(b"".join(self._parts))
        except ValueError:
            return f"the process that looked ended without an answer (status {status})"
        return outcome if isinstance(outcome, dict) else "the process that looked gave no answer"


def _work(work: Callable[[], dict[str, Any]], writing: int) -> None:
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        with suppress(OSError):
            os.nice(_KINDNESS)
        os.set_blocking(writing, True)
        content = json.dumps(work()).encode()
        while content:
            content = content[os.write(writing, content) :]
        status = 0
    finally:
        os._exit(status)
