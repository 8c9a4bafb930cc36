# SPDX-License-Identifier: Apache-2.0
"""A recorded machine with more CPUs than it had: what it has once for each CPU is there as often as asked.

CPU n does what CPU n modulo their number did, in /proc/stat, softnet_stat and its own ksoftirqd; `hot` ones are in the kernel all
the time instead.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from zombiescope.host.recording import MEMBER, Answer, decode

_FIRST_PROCESS = 100_000
_KSOFTIRQD = re.compile(r"\d+ \(ksoftirqd/(\d+)\) (.*)", re.DOTALL)
_TICKS = 100


@cache
def answers_of(file: Path) -> tuple[Answer, ...]:
    with tarfile.open(file) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None
        return tuple(decode(member.read().splitlines(), file.name)[1])


def widened(answers: Collection[Answer], cpus: int, hot: Collection[int] = ()) -> list[Answer]:
    threads = _threads(answers)
    found: list[Answer] = []
    for answer in answers:
        if answer.operation == "read" and answer.path == b"/proc/stat":
            found.append(answer._replace(value=_stat(str(answer.value), cpus, hot, answer.at)))
        elif answer.operation == "read" and answer.path == b"/proc/net/softnet_stat":
            found.append(answer._replace(value=_repeated(str(answer.value), cpus)))
        elif answer.path in (b"/sys/devices/system/cpu/possible", b"/sys/devices/system/cpu/online"):
            found.append(answer._replace(value=f"0-{cpus - 1}\n"))
        elif (answer.operation, answer.path) == ("subdirectories", b"/proc"):
            more = [str(_FIRST_PROCESS + cpu) for cpu in range(len(threads), cpus)]
            found.append(answer._replace(value=[*answer.value, *more]))
        else:
            found.append(answer)
            found += _of_threads(answer, threads, cpus)
    return found


def _threads(answers: Collection[Answer]) -> dict[bytes, int]:
    """The ksoftirqd of each CPU, by its folder."""
    found: dict[bytes, int] = {}
    for answer in answers:
        match = _KSOFTIRQD.match(answer.value) if isinstance(answer.value, str) else None
        if match:
            found[answer.path.rpartition(b"/")[0]] = int(match[1])
    return found


def _of_threads(answer: Answer, threads: dict[bytes, int], cpus: int) -> list[Answer]:
    folder, _, name = answer.path.rpartition(b"/")
    if folder not in threads or name not in (b"stat", b"schedstat"):
        return []
    return [
        answer._replace(path=b"/proc/%d/%s" % (_FIRST_PROCESS + cpu, name), value=_as_of(answer.value, cpu))
        for cpu in range(len(threads), cpus)
        if cpu % len(threads) == threads[folder]
    ]


def _as_of(value: Any, cpu: int) -> Any:
    match = _KSOFTIRQD.match(value) if isinstance(value, str) else None
    return f"{_FIRST_PROCESS + cpu} (ksoftirqd/{cpu}) {match[2]}" if match else value


def _stat(text: str, cpus: int, hot: Collection[int], at: float) -> str:
    lines = text.splitlines()
    own = [line for line in lines if re.match(r"cpu\d", line)]
    wide = []
    for cpu in range(cpus):
        counters = own[cpu % len(own)].split()[1:]
        if cpu in hot:
            counters = ["0", "0", str(round(at * _TICKS)), *["0"] * (len(counters) - 3)]
        wide.append(f"cpu{cpu} {' '.join(counters)}")
    place = lines.index(own[0])
    return "\n".join([*lines[:place], *wide, *lines[place + len(own) :]]) + "\n"


def _repeated(text: str, cpus: int) -> str:
    rows = text.splitlines()
    return "\n".join(rows[cpu % len(rows)] for cpu in range(cpus)) + "\n"
