# SPDX-License-Identifier: Apache-2.0
"""Every error a person may see: what went wrong, why, and the next thing to type.

ZombiescopeError
├── UsageError           2  a flag, an argument or a configuration value
├── ObservationError     3  the machine could not be looked at
├── ActionUndoneError    4  an action failed and everything was put back
└── ActionFailedError    5  an action failed and something was not put back
A bug is none of these: `cli/main.py` catches it once and exits with 70.
"""

import sys
from typing import ClassVar

EXIT_FINE = 0
EXIT_FINDINGS = 1
EXIT_BUG = 70
EXIT_INTERRUPTED = 130


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


def reason_of(error: Exception) -> str:
    """Why it failed: as we say it, else as the system does, in lower case as within a sentence."""
    return (
        error.why if isinstance(error, ZombiescopeError) else (getattr(error, "strerror", None) or str(error)).lower()
    )


IS_ONE_FILE = "_tail_data" in sys.builtin_module_names
"""Whether this is the static build (tools/onefile), which leaves out what it cannot load."""


def absent_part(what: str, package: str, extra: str, instead: str) -> UsageError:
    """Of an optional part. `instead`: what to do with the one file, where nothing can be installed."""
    if IS_ONE_FILE:
        return UsageError(what, "not in the one-file build", instead)
    return UsageError(what, f"{package} is not installed", f"pip install 'zombiescope[{extra}]'")


class UnknownFormatError(ValueError):
    """A file of ours that a later version wrote: not damaged, and not ours to change."""


KEPT_BY_NEWER = "use the zombiescope that wrote it, or a newer one; nothing was changed"
"""The hint of whatever states a format that this program does not know."""


def unknown_format(found: object, known: object) -> str:
    """Why a file of ours is refused: a later version wrote it."""
    return f"its format is {found}, and this program reads {known}"
