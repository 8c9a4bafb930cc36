# SPDX-License-Identifier: Apache-2.0
"""The lines of the kernel's log folded into resets: one for each time a card was reset, with the reason nearest the cause.

Lines of one card belong together while they follow each other closely; the line that says it is over ends a reset. Symptoms alone
(a few late completions) are no reset.
"""

from collections.abc import Iterable

from zombiescope.facts.kernel_log import LogEvent, LogEventKind, NicReset, NicStep, ResetReason

TOGETHER_SECONDS = 15.0
_RANK = (
    ResetReason.OTHER, ResetReason.TRANSMIT_TIMEOUT, ResetReason.MISSING_COMPLETIONS, ResetReason.MISSING_INTERRUPT,
    ResetReason.ADMIN_QUEUE, ResetReason.KEEP_ALIVE, ResetReason.POLL_STARVATION,
)  # fmt: skip
_MOST_LINES = 256
_SCHEDULED_AND_LATE_SECONDS = 5.0
"""NAPI was scheduled and had not run for as long as the driver's own limit: the driver calls it starvation from here on."""


def derive_resets(events: Iterable[LogEvent]) -> tuple[NicReset, ...]:
    lines = sorted((event for event in events if event.kind is LogEventKind.NIC), key=lambda event: event.at)
    folding = ResetFolding()
    for event in lines:
        folding.learn(event)
    found = [reset for event in lines for reset in folding.add(event)]
    found += folding.end(float("inf"))
    return tuple(sorted(found, key=lambda reset: (reset.at, reset.device)))


class ResetFolding:
    """Events go in as they come; resets come out when they are over, or when nothing more came of them."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._open: dict[str, list[LogEvent]] = {}

    def learn(self, event: LogEvent) -> None:
        """Some lines name the bus address alone."""
        if event.bus and event.device and event.device != event.bus:
            self._names[event.bus] = event.device

    def add(self, event: LogEvent) -> list[NicReset]:
        if event.kind is not LogEventKind.NIC:
            return []
        self.learn(event)
        device = self._names.get(event.bus, event.device) or event.bus or "unknown"
        found = self._end_one(device, event.at)
        lines = self._open.setdefault(device, [])
        lines.append(event)
        if len(lines) > _MOST_LINES:  # a card that complains without end: how it began and how it goes on
            del lines[_MOST_LINES // 2]
        if event.step in (NicStep.DONE, NicStep.FAILED):
            found += _folded(device, self._open.pop(device))
        return found

    def end(self, now: float) -> list[NicReset]:
        return [reset for device in list(self._open) for reset in self._end_one(device, now)]

    def _end_one(self, device: str, now: float) -> list[NicReset]:
        lines = self._open.get(device)
        if not lines or now - lines[-1].at <= TOGETHER_SECONDS:
            return []
        return _folded(device, self._open.pop(device))


def _folded(device: str, lines: list[LogEvent]) -> list[NicReset]:
    steps = [line.step for line in lines]
    if set(steps) <= {NicStep.SYMPTOM}:
        return []
    told = [line for line in lines if line.step is not NicStep.SYMPTOM]
    queue = next((line.queue for line in lines if line.queue is not None and line.cpu is None), None)
    if queue is None:
        queue = next((line.queue for line in lines if line.queue is not None), None)
    # The kernel's own watchdog tells how long the queue stood, not how long NAPI did.
    watchdogs = [line for line in lines if line.reason is ResetReason.TRANSMIT_TIMEOUT and line.is_scheduled is None]
    late = [line.seconds for line in lines if line.seconds is not None and line not in watchdogs]
    is_over = True if NicStep.DONE in steps else False if NicStep.FAILED in steps else None
    return [
        NicReset(told[0].at, device, _reason(lines), queue, _napi_cpu(lines, queue), max(late, default=None), is_over)
    ]


def _reason(lines: list[LogEvent]) -> ResetReason:
    named = [line.reason for line in lines if line.reason is not None]
    if any(line.is_scheduled and (line.seconds or 0.0) >= _SCHEDULED_AND_LATE_SECONDS for line in lines):
        named.append(ResetReason.POLL_STARVATION)
    return max(named, key=_RANK.index, default=ResetReason.OTHER)


def _napi_cpu(lines: list[LogEvent], queue: int | None) -> int | None:
    """One wording of the driver swaps queue and CPU: the number that is not the queue is the CPU."""
    for line in lines:
        if line.cpu is None:
            continue
        is_swapped = line.queue is not None and line.queue != queue and line.cpu == queue
        return line.queue if is_swapped else line.cpu
    return None
