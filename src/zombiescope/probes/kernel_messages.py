# SPDX-License-Identifier: Apache-2.0
"""One line of the kernel's log: an event we know, or None. Lockups, stalls, hung tasks, the OOM killer, throttled real-time tasks;
network cards are in `nic_messages`. Wordings since 3.x; anything else, and anything that only resembles one, is left alone."""

from __future__ import annotations

import re

from zombiescope.facts.kernel_log import LogEvent, LogEventKind
from zombiescope.facts.names import shown
from zombiescope.probes.nic_messages import parse_nic_line

_MOST_KEPT = 240
_MOST_PARSED = 2048
_WATCHDOG = r"(?:(?:NMI )?watchdog: )?"

_SOFT = re.compile(
    rf"{_WATCHDOG}BUG: soft lockup - CPU#(?P<cpu>\d{{1,5}}) stuck for (?P<seconds>\d{{1,6}})s! \[(?P<task>.*):\d+\]"
)
_HARD = re.compile(rf"{_WATCHDOG}(?:CPU\d{{1,5}}: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{{1,5}})")
_RCU_SELF = re.compile(
    r"(?:rcu: )?INFO: rcu_\w+ self-detected (?:expedited )?stalls? on CPU(?:\s?\{ ?(?P<cpu>\d{1,5})\}?.*)?"
)
_RCU = re.compile(
    r"(?:rcu: )?INFO: rcu_\w+ detected (?:expedited )?stalls on CPUs/tasks:(?: \{ ?(?P<cpu>\d{1,5})[ -].*)?\s*"
)
_HUNG = re.compile(r"INFO: task (?P<task>.+):\d+ blocked for more than (?P<seconds>\d{1,7}) seconds\.")
_WORKQUEUE = re.compile(r"BUG: workqueue lockup - pool cpus=(?P<cpu>\d{1,5})\b.* stuck for (?P<seconds>\d{1,7})s!")
_HOGGED = re.compile(r"workqueue: (?P<task>\S{1,80}) hogged CPU for >\d+us \d+ times, consider switching to WQ_UNBOUND")
_OOM = re.compile(r"(?P<task>.{0,15}) invoked oom-killer: gfp_mask=.*")
_KILLED = re.compile(r"(?:Memory cgroup out of memory|Out of memory): Kill(?:ed)? process \d+ \((?P<task>.{0,15})\).*")
_REAL_TIME = re.compile(r"(?:sched: |\[sched_delayed\] sched: )RT throttling activated")

_FORMS = (
    (_SOFT, LogEventKind.SOFT_LOCKUP),
    (_HARD, LogEventKind.HARD_LOCKUP),
    (_RCU_SELF, LogEventKind.RCU_STALL),
    (_RCU, LogEventKind.RCU_STALL),
    (_HUNG, LogEventKind.HUNG_TASK),
    (_WORKQUEUE, LogEventKind.WORKQUEUE),
    (_HOGGED, LogEventKind.WORKQUEUE),
    (_OOM, LogEventKind.OUT_OF_MEMORY),
    (_KILLED, LogEventKind.OUT_OF_MEMORY),
    (_REAL_TIME, LogEventKind.REAL_TIME),
)

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
        found = pattern.fullmatch(line)
        if found:
            said = found.groupdict()
            return LogEvent(
                at,
                kind,
                text,
                cpu=int(said["cpu"]) if said.get("cpu") else None,
                seconds=float(said["seconds"]) if said.get("seconds") else None,
                task=shown((said.get("task") or "").encode("utf-8", "surrogateescape")),
            )
    return parse_nic_line(at, line, text)
