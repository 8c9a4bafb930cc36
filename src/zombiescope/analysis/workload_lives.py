# SPDX-License-Identifier: Apache-2.0
"""How often a declared workload lives: is it started for ever, how often a day by cron's line or a timer's settings, and does each
life leave a cgroup behind? None: it could not be told.

Delays are those of the starters themselves: Docker doubles from 100 ms to a minute, kubelet from 10 s to 5 minutes, podman
does not wait. supervisord starts its programs inside its own cgroup: they loop, and leave none.
"""

import re
from typing import NamedTuple

from zombiescope.facts.units import Starter, Workload, parse_time_span

_WORDS = {
    "@reboot": 0.0, "@hourly": 24.0, "@daily": 1.0, "@midnight": 1.0, "@weekly": 1 / 7, "@monthly": 1 / 30.4, "@yearly": 1 / 365,
    "@annually": 1 / 365, "hourly": 24.0, "daily": 1.0, "weekly": 1 / 7, "monthly": 1 / 30.4, "yearly": 1 / 365,
}  # fmt: skip
_CALENDAR_WORDS = {
    "minutely": 1440.0, "hourly": 24.0, "daily": 1.0, "weekly": 1 / 7, "monthly": 1 / 30.4, "quarterly": 4 / 365,
    "semiannually": 2 / 365, "yearly": 1 / 365, "annually": 1 / 365,
}  # fmt: skip
_NAMES = {
    names[at : at + 3]: first + at // 3
    for first, names in ((0, "sunmontuewedthufrisat"), (1, "janfebmaraprmayjunjulaugsepoctnovdec"))
    for at in range(0, len(names), 3)
}
_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTH_DAYS, _MONTHS, _WEEK_DAYS = 30.4, 12, 7


def cron_runs_per_day(when: str) -> float | None:
    """`*/5 * * * *`, `@hourly`, or the name of a period."""
    word = when.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    fields = word.split()
    if len(fields) != len(_FIELDS):
        return None
    counts = [_count(text, low, high) for text, (low, high) in zip(fields, _FIELDS, strict=True)]
    if any(count is None for count in counts):
        return None
    minutes, hours, days, months, weekdays = (float(count or 0) for count in counts)
    in_month, in_week = min(days / _MONTH_DAYS, 1.0), min(weekdays / _WEEK_DAYS, 1.0)
    # cron runs when either day matches, unless one of them is a star
    on_days = min(in_month, in_week) if "*" in (fields[2], fields[4]) else min(1.0, in_month + in_week)
    return minutes * hours * on_days * months / _MONTHS


def _count(text: str, low: int, high: int) -> int | None:
    found: set[int] = set()
    for part in text.split(","):
        said = re.fullmatch(r"(\*|[a-z0-9]{1,3}(?:-[a-z0-9]{1,3})?)(?:/(\d{1,3}))?", part)
        if said is None:
            return None
        first, _, last = said[1].partition("-")
        start = low if first == "*" else _number(first)
        end = high if first == "*" or (said[2] and not last) else _number(last or first)
        step = int(said[2] or 1)
        if start is None or end is None or not low <= start <= end <= high or step < 1:
            return None
        found.update(range(start, end + 1, step))
    return len(found)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else _NAMES.get(text)


def timer_runs_per_day(elapses: str) -> float | None:
    """`OnCalendar=…, OnUnitActiveSec=…` as the audit lists them; those that come once per boot count for nothing."""
    total: float | None = None
    for said in re.split(r", (?=On[A-Z])", elapses):
        key, _, value = said.partition("=")
        if key == "OnCalendar":
            runs = calendar_runs_per_day(value)
        elif key in ("OnUnitActiveSec", "OnUnitInactiveSec"):
            seconds = parse_time_span(value)
            runs = _DAY / max(seconds, 1e-3) if seconds is not None else None
        else:
            continue
        if runs is None:
            return None
        total = (total or 0.0) + runs
    return 0.0 if total is None and elapses else total


def calendar_runs_per_day(text: str) -> float | None:
    """systemd.time(7): `Mon..Fri *-*-* 06,18:00/15:30 UTC` and its shorter forms."""
    word = text.strip()
    if word.lower() in _CALENDAR_WORDS:
        return _CALENDAR_WORDS[word.lower()]
    share, time, zones = 1.0, "", 0
    for part in word.split():
        if re.fullmatch(r"[A-Za-z]{3,9}((\.\.|,)[A-Za-z]{3,9})*", part) and part[:3].lower() in _NAMES:
            share *= _weekdays(part) / _WEEK_DAYS
        elif ":" in part:
            time = part
        elif re.fullmatch(r"[\d*,./~-]+", part) and part.count("-") in (1, 2):
            days = _date_share(part)
            if days is None:
                return None
            share *= days
        elif re.fullmatch(r"[A-Za-z]+(/[A-Za-z_]+)*", part):
            zones += 1
        else:
            return None
    if len(word.split()) <= zones:
        return None
    runs = _times(time) if time else 1.0
    return None if runs is None else runs * share


def _weekdays(text: str) -> int:
    found: set[int] = set()
    for part in text.lower().split(","):
        first, _, last = part.partition("..")
        begin, end = _NAMES.get(first[:3], 0), _NAMES.get((last or first)[:3], 0)
        found.update(number % _WEEK_DAYS for number in range(begin, end + 1 if end >= begin else end + 8))
    return len(found)


def _date_share(text: str) -> float | None:
    if "~" in text:
        return 1 / _MONTH_DAYS
    *years, month, day = text.split("-")
    months, days = _values(month, 1, 12), _values(day, 1, 31)
    if months is None or days is None:
        return None
    is_one_year = bool(years) and years[0] != "*"
    return 0.0 if is_one_year else min(days / _MONTH_DAYS, 1.0) * months / _MONTHS


def _times(text: str) -> float | None:
    parts = text.split(":")
    if len(parts) not in (2, 3):
        return None
    seconds = parts[2].partition(".")[0] if len(parts) == 3 else "0"
    counts = [_values(part, 0, most) for part, most in zip((*parts[:2], seconds), (23, 59, 59), strict=True)]
    if any(count is None for count in counts):
        return None
    hours, minutes, second = (float(count or 0) for count in counts)
    return hours * minutes * second


def _values(text: str, low: int, high: int) -> int | None:
    """`*`, `5`, `0/15`, `9..17`, `1,3`: how many of the range."""
    found: set[int] = set()
    for part in text.split(","):
        said = re.fullmatch(r"(\*|\d{1,2})(?:\.\.(\d{1,2}))?(?:/(\d{1,2}))?", part)
        if said is None:
            return None
        start = low if said[1] == "*" else int(said[1])
        repeats = said[1] == "*" or said[3] is not None
        end = int(said[2]) if said[2] else (high if repeats else start)
        if not low <= start <= end <= high or said[3] == "0":
            return None
        found.update(range(start, end + 1, int(said[3] or 1)))
    return len(found)


_DAY = 86400.0
_DOCKER_SECONDS, _KUBELET_SECONDS = 60.0, 300.0
RUNTIMES = re.compile(
    r"(?:^|[/\s\"'])(docker|podman|nerdctl|ctr|runc|crun|crictl|systemd-run|systemd-nspawn|lxc-start|machinectl)(?:\s|$)"
)


class Lives(NamedTuple):
    for_ever: bool | None
    """Started again without end; None: cannot be told."""
    per_day: float | None
    """Of one that fails at once, or by the clock; None: not known."""
    leaves_cgroups: bool | None
    """One memory cgroup per life."""
    why: str


def derive_lives(workload: Workload, *, cron_makes_sessions: bool) -> Lives:
    runs_runtime = RUNTIMES.search(workload.command) is not None
    match workload.starter:
        case Starter.CRON:
            leaves = cron_makes_sessions or runs_runtime
            how = "a session's cgroup per run" if cron_makes_sessions else "its command makes containers"
            why = how if leaves else "runs inside cron's own cgroup"
            return _scheduled(workload, cron_runs_per_day(workload.policy), leaves, why)
        case Starter.TIMER:
            return _scheduled(workload, timer_runs_per_day(workload.policy), True, "a service's cgroup per run")
        case Starter.SYSV:
            return Lives(False, None, False, "started once at boot")
        case Starter.SUPERVISORD:
            return _supervised(workload, runs_runtime)
        case Starter.DOCKER | Starter.COMPOSE:
            return _docker(workload)
        case Starter.PODMAN:
            return _podman(workload)
        case Starter.KUBELET:
            return _pod(workload)


def _scheduled(workload: Workload, per_day: float | None, leaves: bool, how: str) -> Lives:
    rate = "how often could not be told" if per_day is None else f"{per_day:,.4g} runs per day"
    for_ever = True if per_day is not None else (None if leaves else False)
    return Lives(for_ever, per_day, leaves, f"{workload.policy}: {rate}, {how}")


def _supervised(workload: Workload, leaves: bool) -> Lives:
    if workload.policy == "false":
        return Lives(False, None, leaves, "autorestart=false")
    where = "its command makes containers" if leaves else "inside supervisord's own cgroup"
    return Lives(True, None, leaves, f"autorestart={workload.policy}, without a delay; {where}")


def _docker(workload: Workload) -> Lives:
    said = workload.policy or "no"
    if said == "no":
        return Lives(False, None, True, "restart policy: no")
    if said not in ("always", "unless-stopped", "on-failure"):
        return Lives(None, None, True, f"restart policy {said}: not one that Docker knows")
    if said == "on-failure" and workload.retries:
        return Lives(False, None, True, f"restart policy: on-failure, at most {workload.retries} times")
    per_day = _DAY / _DOCKER_SECONDS
    return Lives(True, per_day, True, f"restart policy: {said}, up to {per_day:,.0f} lives per day, a cgroup each")


def _podman(workload: Workload) -> Lives:
    if not workload.policy:
        return Lives(None, None, True, "its restart policy is in podman's database, which is not read")
    lives = _docker(workload)
    if lives.for_ever:
        return Lives(True, None, True, f"restart policy: {workload.policy}, without a delay, a cgroup each")
    return lives


def _pod(workload: Workload) -> Lives:
    if workload.policy.startswith("schedule "):
        runs = cron_runs_per_day(workload.policy.removeprefix("schedule "))
        return _scheduled(workload, runs, True, "a pod's cgroups each")
    if workload.policy == "Never" or workload.retries is not None:
        limit = f", at most {workload.retries} retries" if workload.retries is not None else ""
        return Lives(False, None, True, f"restartPolicy: {workload.policy}{limit}")
    if workload.policy not in ("Always", "OnFailure"):
        return Lives(None, None, True, f"restartPolicy {workload.policy}: not one that Kubernetes knows")
    per_day = _DAY / _KUBELET_SECONDS
    return Lives(
        True, per_day, True, f"restartPolicy: {workload.policy}, up to {per_day:,.0f} lives per day, a cgroup each"
    )
