# SPDX-License-Identifier: Apache-2.0
"""One line of the kernel's log: an event we know, or None. Lockups, stalls, hung tasks, the OOM killer, throttled real-time tasks;
network cards are in `nic_messages`. Wordings since 3.x; anything else, and anything that only resembles one, is left alone."""

import re
from typing import NamedTuple

from zombiescope.facts.kernel_log import LogEvent, LogEventKind, NicStep, ResetReason
from zombiescope.facts.names import shown, shown_text

_PREFIX = re.compile(
    r"(?P<driver>[A-Za-z0-9_-]{1,32}) (?P<bus>[0-9A-Za-z:._-]{1,40})"
    r"(?: (?P<device>[!-\x27*-9;-~]{1,15}))?(?: \(un[a-z]+\))?: (?P<said>.+)"
)
_NET_WATCHDOG = re.compile(
    r"NETDEV WATCHDOG: (?:(?P<device>[!-\x27*-9;-~]{1,15}) \((?P<driver>[^()]{0,32})\): |CPU: (?P<on>\d{1,5}): )"
    r"transmit queue (?P<queue>\d{1,5}) timed out(?: (?P<ms>\d{1,10}) ms)?"
)
_N = r"(\d{1,10})"


class Form(NamedTuple):
    pattern: re.Pattern[str]
    step: NicStep
    reason: ResetReason | None
    scale: float = 1e-6
    """Of the group `napi`, to seconds."""


def _form(pattern: str, step: NicStep, reason: ResetReason | None = None, scale: float = 1e-6) -> Form:
    return Form(re.compile(pattern), step, reason, scale)


_Q, _NAPI = r"(?P<queue>\d{1,5})", r"(?P<napi>\d{1,10})"
_SCHEDULED, _CPU = r"(?P<scheduled>[01])", r"(?P<cpu>-?\d{1,5})"
_S, _R = NicStep, ResetReason

FORMS = (
    # The transmit watchdog reached the driver.
    _form(rf"TX q {_Q} is paused for too long \(threshold {_N}\)\. Time since last napi {_NAPI} usec\. "
          rf"napi scheduled: {_SCHEDULED}", _S.CAUSE, _R.TRANSMIT_TIMEOUT),
    _form(rf"TX q {_Q} is paused for too long \(threshold {_N}\)\. usecs since napi {_NAPI}\. napi scheduled: {_SCHEDULED}\. "
          rf"napi CPU: {_CPU}\. msecs since interrupt: {_N}", _S.CAUSE, _R.TRANSMIT_TIMEOUT),
    _form(r"Transmit time out", _S.CAUSE, _R.TRANSMIT_TIMEOUT),
    _form(rf"TX timeout on invalid queue {_Q}", _S.CAUSE, _R.TRANSMIT_TIMEOUT),
    _form(r"timeout was called, but no offending queue was found", _S.CAUSE, _R.TRANSMIT_TIMEOUT),
    _form(r"napi handler hasn't been called for a long time but is scheduled", _S.CAUSE, _R.POLL_STARVATION),
    # Completions that did not come.
    _form(rf"Found a Tx that wasn't completed on time, qid {_Q}, index {_N}\.", _S.SYMPTOM),
    _form(rf"Found a Tx that wasn't completed on time, qid {_Q}, index {_N}\. {_NAPI} usecs have passed since last napi "
          rf"execution\. Missing Tx timeout value {_N} msecs", _S.SYMPTOM),
    _form(rf"TX hasn't completed, qid {_Q}, index {_N}\. {_NAPI} usecs from last napi execution, napi scheduled: {_SCHEDULED}",
          _S.SYMPTOM),
    _form(rf"TX hasn't completed, qid: {_Q}, index: {_N}, {_N} msecs since interrupt, {_NAPI} msecs since napi, "
          rf"napi scheduled: {_SCHEDULED}", _S.SYMPTOM, None, 1e-3),
    _form(rf"\[1/2\] {_N} new missed TX completions, qid: {_Q}, {_N} msecs since interrupt, {_NAPI} msecs since napi, "
          rf"napi scheduled: {_SCHEDULED}", _S.SYMPTOM, None, 1e-3),
    _form(rf"\[2/2\] qid: {_Q}, highest TX completion pending time \(msec\): {_N}, napi sched changes: {_N}, napi CPU: {_CPU}",
          _S.SYMPTOM),
    _form(rf"The number of lost tx completions is above the threshold \({_N} > {_N}\)\. Reset the device",
          _S.CAUSE, _R.MISSING_COMPLETIONS),
    _form(rf"Lost TX completions are above the threshold \({_N} > {_N}\)\. Completion transmission timeout: {_N}\.?",
          _S.CAUSE, _R.MISSING_COMPLETIONS),
    _form(rf"\[1/2\] Lost TX completions are above threshold \({_N} > {_N}\), completion timeout: {_N} \(msec\), "
          rf"{_N} msecs since interrupt, {_NAPI} msecs since napi, qid: {_Q}", _S.CAUSE, _R.MISSING_COMPLETIONS, 1e-3),
    # This one gives its two numbers in the wrong order (2.17): whoever folds the lines knows the queue from the one before.
    _form(rf"\[2/2\] qid: {_CPU}, napi CPU: (?P<queue>-?\d{{1,5}})", _S.SYMPTOM),
    _form(rf"No completion descriptors found in CQ {_Q}", _S.CAUSE, _R.MISSING_COMPLETIONS),
    # Other reasons.
    _form(r"Keep alive watchdog timeout\.", _S.CAUSE, _R.KEEP_ALIVE),
    _form(rf"Keep alive watchdog timeout, {_N} msecs since last keep alive\.", _S.CAUSE, _R.KEEP_ALIVE),
    _form(r"ENA admin queue is not in running state!", _S.CAUSE, _R.ADMIN_QUEUE),
    _form(rf"Potential MSIX issue on [RT]x side Queue = {_Q}\.(?: Reset the device)?", _S.CAUSE, _R.MISSING_INTERRUPT),
    # The reset itself.
    _form(r"Trigger reset is on", _S.BEGUN),
    _form(r"Resetting the device", _S.BEGUN),
    _form(r"Device reset completed successfully(?:, Driver info: .{0,200})?", _S.DONE),
    _form(r"Device reset completed, status: 0, Driver info: .{0,200}", _S.DONE),
    _form(r"Device reset completed, status: (?!0,)-?\d{1,10}, Driver info: .{0,200}", _S.FAILED),
    _form(r"Reset attempt failed\. Can not reset the device", _S.FAILED),
)  # fmt: skip


def parse_nic_line(at: float, line: str, text: str) -> LogEvent | None:
    """The event in one line of the kernel's log, or None. `text` is what is kept of the line."""
    prefix = _PREFIX.fullmatch(line)
    watchdog = _NET_WATCHDOG.fullmatch(line)
    if watchdog:
        prefix = None
    elif prefix:
        watchdog = _NET_WATCHDOG.fullmatch(prefix["said"])
    if watchdog:
        return LogEvent(
            at,
            LogEventKind.NIC,
            text,
            watchdog["device"] or (prefix["device"] if prefix else "") or "",
            prefix["bus"] if prefix else "",
            NicStep.CAUSE,
            int(watchdog["queue"]),
            ResetReason.TRANSMIT_TIMEOUT,
            seconds=int(watchdog["ms"]) / 1e3 if watchdog["ms"] else None,
        )
    if prefix is None or prefix["driver"] != "ena":
        return None
    for form in FORMS:
        if found := form.pattern.fullmatch(prefix["said"]):
            return _event(at, text, prefix, form, found.groupdict())
    return None


def _event(at: float, text: str, prefix: re.Match[str], form: Form, said: dict[str, str | None]) -> LogEvent:
    queue, napi, cpu, scheduled = (said.get(name) for name in ("queue", "napi", "cpu", "scheduled"))
    return LogEvent(
        at,
        LogEventKind.NIC,
        text,
        prefix["device"] or prefix["bus"],
        prefix["bus"],
        form.step,
        int(queue) if queue and int(queue) >= 0 else None,
        form.reason,
        int(cpu) if cpu and int(cpu) >= 0 else None,
        round(int(napi) * form.scale, 6) if napi else None,
        None if scheduled is None else scheduled == "1",
    )


_MOST_KEPT, _MOST_PARSED = 240, 2048
_WATCHDOG = r"(?:(?:NMI )?watchdog: )?"
_K = LogEventKind

_FORMS = tuple((re.compile(pattern), kind) for pattern, kind in (
    (rf"{_WATCHDOG}BUG: soft lockup - CPU#(?P<cpu>\d{{1,5}}) stuck for (?P<seconds>\d{{1,6}})s! \[(?P<task>.*):\d+\]",
     _K.SOFT_LOCKUP),
    (rf"{_WATCHDOG}(?:CPU\d{{1,5}}: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{{1,5}})", _K.HARD_LOCKUP),
    (r"(?:rcu: )?INFO: rcu_\w+ self-detected (?:expedited )?stalls? on CPU(?:\s?\{ ?(?P<cpu>\d{1,5})\}?.*)?", _K.RCU_STALL),
    (r"(?:rcu: )?INFO: rcu_\w+ detected (?:expedited )?stalls on CPUs/tasks:(?: \{ ?(?P<cpu>\d{1,5})[ -].*)?\s*",
     _K.RCU_STALL),
    (r"INFO: task (?P<task>.+):\d+ blocked for more than (?P<seconds>\d{1,7}) seconds\.", _K.HUNG_TASK),
    (r"BUG: workqueue lockup - pool cpus=(?P<cpu>\d{1,5})\b.* stuck for (?P<seconds>\d{1,7})s!", _K.WORKQUEUE),
    (r"workqueue: (?P<task>\S{1,80}) hogged CPU for >\d+us \d+ times, consider switching to WQ_UNBOUND", _K.WORKQUEUE),
    (r"(?P<task>.{0,15}) invoked oom-killer: gfp_mask=.*", _K.OUT_OF_MEMORY),
    (r"(?:Memory cgroup out of memory|Out of memory): Kill(?:ed)? process \d+ \((?P<task>.{0,15})\).*", _K.OUT_OF_MEMORY),
    (r"(?:sched: |\[sched_delayed\] sched: )RT throttling activated", _K.REAL_TIME),
))  # fmt: skip

HINTS = (
    b"atchdog", b"WATCHDOG", b"ena ", b"soft lockup", b"rcu_", b"blocked for", b"workqueue", b"oom-killer", b"emory: Kill",
    b"RT throttling",
)  # fmt: skip
"""A line without any of these is none of ours: a reader may drop it unparsed."""


def parse_line(at: float, raw: bytes) -> LogEvent | None:
    if len(raw) > _MOST_PARSED or not any(hint in raw for hint in HINTS):
        return None
    line = raw.decode("utf-8", "surrogateescape").rstrip()
    text = shown(raw[:_MOST_KEPT])
    for pattern, kind in _FORMS:
        if found := pattern.fullmatch(line):
            said = found.groupdict()
            return LogEvent(
                at,
                kind,
                text,
                cpu=int(said["cpu"]) if said.get("cpu") else None,
                seconds=float(said["seconds"]) if said.get("seconds") else None,
                task=shown_text(said.get("task") or ""),
            )
    return parse_nic_line(at, line, text)
