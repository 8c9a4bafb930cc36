# SPDX-License-Identifier: Apache-2.0
"""What starts programs beside systemd's own units: cron lines and SysV scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.units import Schedule
from zombiescope.host.files import Files

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
