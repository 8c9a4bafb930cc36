# SPDX-License-Identifier: Apache-2.0
"""Whether anybody opens a file, told by the kernel (inotify): naming it, or asking what it is, does not count."""

from __future__ import annotations

import ctypes
import os
import select
from pathlib import Path
from types import TracebackType
from typing import Self

_IN_OPEN = 0x20
_libc = ctypes.CDLL(None, use_errno=True)


class Opens:
    def __init__(self, path: Path) -> None:
        self._watch = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        assert self._watch >= 0
        assert _libc.inotify_add_watch(self._watch, os.fsencode(path), _IN_OPEN) >= 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._watch)

    @property
    def happened(self) -> bool:
        return bool(select.select([self._watch], [], [], 0)[0])
