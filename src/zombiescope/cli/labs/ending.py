# SPDX-License-Identifier: Apache-2.0
"""How a lab command ends: a signal means stop and clean, and what could not be removed is an error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from zombiescope.errors import ActionFailedError
from zombiescope.lab.cleaning import Cleaned


def complain(cleaned: Cleaned) -> None:
    if cleaned.left:
        left = "; ".join(f"{what} ({why})" for what, why in cleaned.left)
        raise ActionFailedError(
            f"cannot remove all of the lab run {cleaned.run}", left, f"zombiescope lab clean --name {cleaned.run}"
        )


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP mean what Ctrl-C means: stop and clean."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before: dict[int, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
