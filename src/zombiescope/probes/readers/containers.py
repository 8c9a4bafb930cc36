# SPDX-License-Identifier: Apache-2.0
"""Containers that Docker restarted in place, by its own files; and what else starts programs beside systemd."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from zombiescope.facts.names import shown, shown_text
from zombiescope.facts.units import RestartingContainer, Schedule
from zombiescope.host.files import Files

_DOCKER = b"/var/lib/docker/containers"


def read_containers(files: Files) -> tuple[RestartingContainer, ...]:
    return tuple(_docker(files))


def _docker(files: Files) -> Iterator[RestartingContainer]:
    for name in files.list(_DOCKER):
        path = _DOCKER + b"/" + name + b"/config.v2.json"
        try:
            said = json.loads(files.read(path) or b"{}")
        except (ValueError, RecursionError):
            files.refuse(path, "not JSON: skipped")
            continue
        count = said.get("RestartCount") if isinstance(said, dict) else None
        if isinstance(count, int) and count > 0:
            label = shown_text(str(said.get("Name", "")).lstrip("/")) or shown(name[:12])
            yield _with_state(RestartingContainer("docker", label, count, shown(path)), said.get("State"))


def _with_state(found: RestartingContainer, state: object) -> RestartingContainer:
    if not isinstance(state, dict):
        return found
    code, began, ended = state.get("ExitCode"), _time(state.get("StartedAt")), _time(state.get("FinishedAt"))
    reason = "OOMKilled" if state.get("OOMKilled") is True else ""
    is_running = state.get("Running") is True and state.get("Restarting") is not True
    pause = began - ended if began is not None and ended is not None and began > ended else None
    last = max((at for at in (began, ended) if at is not None), default=None)
    return replace(
        found,
        restarted_at=last,
        pause_seconds=pause,
        is_running=is_running,
        ended=(reason, code if isinstance(code, int) and not is_running else None),
    )


def _time(said: object) -> float | None:
    """RFC 3339 with nanoseconds; the year 1 stands for never."""
    text = said if isinstance(said, str) else ""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.year > 1970 and moment.tzinfo else None


_CONTAINER_LOGS = b"/var/log/containers"
_ID = re.compile(rb"-([0-9a-f]{64})\.log")


def read_container_ids(files: Files) -> frozenset[str]:
    """Of containers that kubelet keeps a log of: `/var/log/containers/POD_NS_NAME-ID.log`."""
    return frozenset(found[1].decode() for name in files.list(_CONTAINER_LOGS) if (found := _ID.search(name)))


_TABLES = (b"/etc/crontab", b"/etc/anacrontab")
_FOLDERS = (b"/etc/cron.d",)
_PERIODS = (b"hourly", b"daily", b"weekly", b"monthly", b"yearly")
_SPOOLS = (b"/var/spool/cron/crontabs", b"/var/spool/cron")
_LINE = re.compile(rb"\s*(@\w+|(?:[\d*/,A-Za-z-]+\s+){4}[\d*/,A-Za-z-]+)\s+(.*)")
_START = re.compile(rb"S\d\d(.+)")


def read_schedules(files: Files) -> tuple[Schedule, ...]:
    return (*_cron(files), *_scripts(files))


def _cron(files: Files) -> Iterator[Schedule]:
    for path in (*_TABLES, *(folder + b"/" + name for folder in (*_FOLDERS, *_SPOOLS) for name in files.list(folder))):
        name = path.rpartition(b"/")[2]
        if name.startswith(b"."):
            continue
        for line in (files.read(path) or b"").splitlines():
            said = None if line.lstrip().startswith(b"#") else _LINE.match(line)
            if said:
                yield Schedule("cron", shown(name), shown(path), shown(said[1]), shown(said[2].strip()))
    for period in _PERIODS:
        folder = b"/etc/cron." + period
        for name in files.list(folder):
            entry = files.entry(folder + b"/" + name)
            if entry is not None and entry.executable and not name.startswith(b"."):
                yield Schedule("cron", shown(name), shown(folder + b"/" + name), period.decode())


def _scripts(files: Files) -> Iterator[Schedule]:
    """SysV scripts, with the run levels that start them; without any, nothing starts them."""
    levels: dict[bytes, list[str]] = {}
    for level in (b"2", b"3", b"4", b"5", b"S"):
        for link in files.list(b"/etc/rc" + level + b".d"):
            said = _START.fullmatch(link)
            if said:
                levels.setdefault(said[1], []).append(level.decode())
    for name in files.list(b"/etc/init.d"):
        entry = files.entry(b"/etc/init.d/" + name)
        if entry is not None and entry.executable and name not in (b"README", b"skeleton", b"rc", b"rcS"):
            yield Schedule("sysv", shown(name), shown(b"/etc/init.d/" + name), ",".join(levels.get(name, [])))
