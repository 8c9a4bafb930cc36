# SPDX-License-Identifier: Apache-2.0
"""What is wrong and does not stop the agent: said once in the log; shown as long as it lasts in /healthz and as a failing probe."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.facts.gap import Gap

REMEMBERED_SECONDS = 3600.0
"""How long something that happened once is shown."""
_LEAST_JUMP_SECONDS = 5.0


class Troubles:
    def __init__(self, report: Callable[[str, Gap | None], None], forget: Callable[[str], None]) -> None:
        self._report, self._forget = report, forget
        self._last: dict[str, str] = {}
        self._until: dict[str, float] = {}
        self._offset: float | None = None

    def lasts(self, name: str, gap: Gap | None) -> str | None:
        """How it is now; what is to be said when that is new."""
        self._report(name, gap)
        reason = gap.reason if gap else ""
        before = self._last.get(name, "")
        self._last[name] = reason
        if reason == before:
            return None
        return f"{name}: {reason}; the agent keeps observing" if reason else f"{name}: it works again"

    def happened(self, name: str, reason: str, clock: float) -> None:
        self._report(name, Gap(name, reason))
        self._until[name] = clock + REMEMBERED_SECONDS

    def let_go(self, clock: float) -> None:
        """What happened long ago is no longer shown."""
        for name in [name for name, until in self._until.items() if until <= clock]:
            del self._until[name]
            self._forget(name)

    def jump(self, wall: float, clock: float) -> str | None:
        """How the wall clock went against the one that only goes forward, since the last time, when it jumped."""
        before, self._offset = self._offset, wall - clock
        moved = 0.0 if before is None else self._offset - before
        if abs(moved) < _LEAST_JUMP_SECONDS:
            return None
        return f"the wall clock went {'back' if moved < 0 else 'forward'} by {abs(moved):,.0f} s"
