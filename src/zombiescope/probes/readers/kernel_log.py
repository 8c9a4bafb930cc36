# SPDX-License-Identifier: Apache-2.0
"""The kernel's log: /dev/kmsg, and the journal for what its ring has forgotten or where it may not be read.

Only the kernel's own lines (facility 0) are believed; the journal keeps the facility, and user space cannot set it to the kernel's.
What crosses is plain JSON with the lines we know alone, so that a recording holds no more of the log than that.
"""

import json
from collections.abc import Iterable
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, LogEvent, LogSource
from zombiescope.facts.names import shown, unshown
from zombiescope.facts.plain import made_of_outcome
from zombiescope.host.access import Host
from zombiescope.host.children import ask_program
from zombiescope.kernel.kmsg import PLACE, Klog, Kmsg
from zombiescope.probes.kernel_messages import parse_line
from zombiescope.probes.kernel_text import read_or_gap, refusal

FACT = "kernel_log"
_RESTRICTION = b"/proc/sys/kernel/dmesg_restrict"
_MOST_LINES, _MOST_KEPT = 400_000, 5_000
_JOURNAL = ("-k", "-b", "-o", "json", "-n", "200000", "--no-pager", "_TRANSPORT=kernel")
_FIELDS = "--output-fields=MESSAGE,SYSLOG_FACILITY,_SOURCE_MONOTONIC_TIMESTAMP,_TRANSPORT"
_NOT_HERE = Gap(FACT, "a folder has no kernel log, and its recording did not keep it", "run it on the live host")
_GARBLED = Gap(FACT, "the recorded kernel log is not in a form we know", "record the host again")

Line = tuple[float, bool, bytes]
"""When, whether the kernel wrote it, and the text."""


def read_kernel_log(host: Host, *, believe_users: bool = False) -> KernelLog | Gap:
    """`believe_users`: take lines of user space for the kernel's, as the lab needs it; never by default."""
    if isinstance(said := read_or_gap(host, _RESTRICTION, FACT), Gap):
        return said  # a machine without this file is a folder, or hides its kernel
    outcome = host.experiment("kernel_log", lambda: _look(host, believe_users=believe_users))
    return _NOT_HERE if outcome is None else made_of_outcome(outcome, _kept, _GARBLED)


class LogFollower:
    """The kernel's log from now on."""

    def __init__(self, host: Host, *, believe_users: bool) -> None:
        self._believe_users = believe_users
        self._log = _open_log(host, from_end=True)

    @property
    def lost(self) -> int:
        return self._log.lost

    def read(self) -> list[LogEvent]:
        """What was said since the reading before, of what we know."""
        records = (each for each in self._log.read(_MOST_LINES) if each.is_kernel or self._believe_users)
        return [event for each in records if (event := parse_line(each.at, each.text)) is not None]

    def close(self) -> None:
        self._log.close()


def open_kernel_log(host: Host, *, believe_users: bool = False) -> LogFollower | Gap:
    if not host.is_live:
        return _NOT_HERE
    try:
        return LogFollower(host, believe_users=believe_users)
    except OSError as error:
        return refusal(FACT, PLACE, error)._replace(hint="run as root, or with CAP_SYSLOG")


def digest(source: LogSource, lines: Iterable[Line], lost: int, until: float, *, believe_users: bool) -> dict[str, Any]:
    """Counts, and the lines that say something we know."""
    since = until
    own = foreign = 0
    said: list[list[Any]] = []
    for at, is_kernel, text in lines:
        since = min(since, at)
        own, foreign = own + is_kernel, foreign + (not is_kernel)
        if (is_kernel or believe_users) and parse_line(at, text) is not None:
            said.append([round(at, 6), shown(text)])
    return {
        "source": source.value,
        "since": since,
        "until": until,
        "lines": own,
        "foreign": foreign,
        "lost": lost,
        "believes_users": believe_users,
        "said": said[-_MOST_KEPT:],
    }


def _look(host: Host, *, believe_users: bool) -> dict[str, Any]:
    root: bytes = getattr(host, "root", b"")
    now = host.wall_clock()
    try:
        log = _open_log(host)
    except OSError as error:
        return _journal(root, refusal(FACT, root + PLACE, error), now, believe_users=believe_users)
    try:
        records = list(log.read(_MOST_LINES))
    except OSError as error:
        return {"gap": list(refusal(FACT, root + PLACE, error))}
    finally:
        log.close()
    lines: list[Line] = [(record.at, record.is_kernel, record.text) for record in records]
    oldest = lines[0][0] if lines else now
    if (
        isinstance(log, Kmsg) and records and records[0].sequence > 0 and not root
    ):  # the ring has forgotten the beginning
        older = _journal_lines()
        lines = [line for line in older if line[0] < oldest - 0.5] + lines if isinstance(older, list) else lines
    return digest(
        LogSource.KMSG if isinstance(log, Kmsg) else LogSource.KLOG, lines, log.lost, now, believe_users=believe_users
    )


def _open_log(host: Host, *, from_end: bool = False) -> Kmsg | Klog:
    """The device, else the call that a container may make; raises what the device said where both are refused."""
    try:
        return Kmsg(host.wall_clock, getattr(host, "root", b"") + PLACE, from_end=from_end)
    except OSError as error:
        try:
            return Klog(host.wall_clock, from_end=from_end)
        except OSError:
            raise error from None


def _journal(root: bytes, reason: Gap, now: float, *, believe_users: bool) -> dict[str, Any]:
    lines = "the journal of a host mounted elsewhere is not read" if root else _journal_lines()
    if isinstance(lines, str):
        return {
            "gap": list(reason._replace(reason=f"{reason.reason}; {lines}", hint="run as root, or with CAP_SYSLOG"))
        }
    return digest(LogSource.JOURNAL, lines, 0, now, believe_users=believe_users)


def _journal_lines() -> list[Line] | str:
    """This boot's lines, or why there are none."""
    try:
        ran = ask_program("journalctl", *_JOURNAL[:-1], _FIELDS, _JOURNAL[-1])
    except OSError as error:
        return f"journalctl: {error.strerror or error}"
    if ran is None:
        return "journalctl is not installed"
    if not ran.output.strip():
        return ran.complaint.splitlines()[0] if ran.complaint else "the journal has no line of the kernel"
    return [line for line in map(parse_journal_line, ran.output.splitlines()) if line is not None]


def parse_journal_line(raw: bytes) -> Line | None:
    """The time is when the kernel wrote it, not when the journal got it."""
    try:
        entry = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("_TRANSPORT") != "kernel":
        return None
    stamps = [
        entry.get(name) for name in ("__REALTIME_TIMESTAMP", "__MONOTONIC_TIMESTAMP", "_SOURCE_MONOTONIC_TIMESTAMP")
    ]
    numbers = [int(text) for text in stamps if isinstance(text, str) and text.isascii() and text.isdecimal()]
    text = _message(entry.get("MESSAGE"))
    if not numbers or text is None:
        return None
    late = max(numbers[1] - numbers[2], 0) if len(numbers) == 3 else 0
    return (numbers[0] - late) / 1e6, entry.get("SYSLOG_FACILITY") == "0", text


def _message(value: object) -> bytes | None:
    """Text, or a list of bytes where it is not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value)
    return None


def _kept(outcome: dict[str, Any]) -> KernelLog:
    events = [parse_line(float(at), unshown(str(line))) for at, line in outcome["said"]]
    return KernelLog(
        LogSource(outcome["source"]),
        float(outcome["since"]),
        float(outcome["until"]),
        int(outcome["lines"]),
        int(outcome["foreign"]),
        int(outcome["lost"]),
        tuple(event for event in events if isinstance(event, LogEvent)),
        bool(outcome["believes_users"]),
    )
