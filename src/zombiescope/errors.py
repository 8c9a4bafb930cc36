# SPDX-License-Identifier: Apache-2.0
"""Every error a person may see: what went wrong, why, and the next thing to type.

ZombiescopeError
├── UsageError           2  a flag, an argument or a configuration value
├── ObservationError     3  the machine could not be looked at
├── ActionUndoneError    4  an action failed and everything was put back
└── ActionFailedError    5  an action failed and something was not put back
A bug is none of these: `cli/main.py` catches it once and exits with 70.
"""

from __future__ import annotations

from typing import ClassVar

EXIT_FINE = 0
EXIT_FINDINGS = 1
EXIT_BUG = 70


class ZombiescopeError(Exception):
    """What (with the path or unit), why, and a hint."""

    exit_code: ClassVar[int] = EXIT_BUG

    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why
        self.hint = hint


class UsageError(ZombiescopeError):
    exit_code = 2


class ObservationError(ZombiescopeError):
    exit_code = 3


class ActionUndoneError(ZombiescopeError):
    exit_code = 4


class ActionFailedError(ZombiescopeError):
    exit_code = 5
