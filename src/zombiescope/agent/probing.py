# SPDX-License-Identifier: Apache-2.0
"""Light probes inside the agent's loop: each at its own pace, none with more than its share of the time, and none that can end the
agent. What they are stands in `watching/catalogue.py`."""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from zombiescope.diagnosis.case import Case
from zombiescope.errors import ZombiescopeError, reason_of
from zombiescope.facts.agent import ProbeRun, Reading
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.watching.catalogue import Probe
from zombiescope.watching.watch import Filling, Teller

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
        before, self._last[name] = self._last.get(name, ""), reason
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


MOST_SHARE = 0.005
"""Of a core: a probe that works long is asked less often. One that waited on a starved host is not: there it is needed most."""
_REOPEN_SECONDS = 300.0
_NEVER = float("inf")


def on_the_beat(now: float, pace: float) -> float:
    """When the next is due: all beat by one clock, so that those of one pace, and of its multiples, wake the agent once."""
    return round((now + pace) / pace) * pace


Told = Callable[[str, ProbeRun, Reading], None]


class Probing(Filling):
    def __init__(self, host: Host, probes: Iterable[Probe], tell: Told, complain: Callable[[str], None]) -> None:
        self._host, self._tell, self._complain = host, tell, complain
        self._probes = {probe.name: probe for probe in probes}
        self._due = dict.fromkeys(self._probes, 0.0)
        self._tellers: dict[str, Teller] = {}
        self._bugs: set[str] = set()
        self._failed: set[str] = set()
        """Those whose last reading did."""
        self._opened_at = 0.0
        """By what this thread worked: opening is done once, and does not put off the next reading."""

    @property
    def due(self) -> float:
        """On the monotonic clock; infinite where no probe is left."""
        return min(self._due.values(), default=_NEVER)

    def run(self, now: float) -> None:
        for name in [name for name, due in self._due.items() if due <= now]:
            probe = self._probes[name]
            start, self._opened_at = time.monotonic(), time.thread_time()
            reading = self._read(probe)
            took, worked = time.monotonic() - start, time.thread_time() - self._opened_at
            if reading is None:
                self._due[name] = _NEVER
                continue
            is_closed = name not in self._tellers
            rest = max(worked / MOST_SHARE, _REOPEN_SECONDS if is_closed else 0.0)
            later = math.ceil((now + rest) / probe.seconds) * probe.seconds
            self._due[name] = max(on_the_beat(now, probe.seconds), later if rest > probe.seconds else 0.0)
            self._tell(name, ProbeRun(took, reading.gap), reading)

    def close(self) -> None:
        for teller in self._tellers.values():
            with suppress(OSError, ZombiescopeError):
                teller.close()
        self._tellers = {}

    def fill(self, case: Case) -> Case:
        """With what was seen by those whose last reading did not fail."""
        for name, teller in self._tellers.items():
            if name not in self._failed:
                try:
                    case = teller.fill(case)
                except Exception as error:  # noqa: BLE001 (as in a reading)
                    self._bug(name, error)
        return case

    def _read(self, probe: Probe) -> Reading | None:
        self._failed.add(probe.name)
        try:
            teller = self._tellers.get(probe.name) or probe.open(self._host)
            if teller is None:
                return None
            if probe.name not in self._tellers:
                self._tellers[probe.name] = teller
                self._opened_at = time.thread_time()
            found = teller.read()
            self._failed.discard(probe.name)
        except ZombiescopeError as error:
            found = Gap(probe.name, f"{error.what}: {error.why}", error.hint)
        except OSError as error:
            found = Gap(probe.name, reason_of(error))
        except Exception as error:  # noqa: BLE001 (a probe that fails must not end the agent)
            found = self._bug(probe.name, error)
        return Reading(gap=found) if isinstance(found, Gap) else found

    def _bug(self, name: str, error: Exception) -> Gap:
        gap = Gap(name, f"a bug of zombiescope: {type(error).__name__}: {error}")
        if name not in self._bugs:
            self._bugs.add(name)
            self._complain(f"probe {name}: {gap.reason}")
        return gap
