# SPDX-License-Identifier: Apache-2.0
"""The lab's own processes: how they are marked, found again and ended, and never anybody else's.

A process is ours when its name is the lab's, it runs as we do, and it has the lock file of a run open, which nobody else can open;
a process id alone proves nothing. All are inherited, so a process is marked from its first moment.
"""

import ctypes
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.host.own_folder import is_own_file
from zombiescope.lab.places import LAB, is_run_name, text_of

FOLDER = "/run/systemd/system"
_DROP_INS = ("/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient", "/run/systemd/system.control")
_FILE = re.compile(rf"{LAB}-(.+)-(?:unused-agent|anchor)\.service")
_SECONDS = 90

_SLICE = "[Unit]\nDescription=The lab's node: an agent, its dead, a neighbour\n[Slice]\nMemoryAccounting=yes\n"
_ANCHOR = """[Unit]
Description=Keeps the lab's slice alive
[Service]
Slice={slice}
MemoryAccounting=yes
ExecStart=/bin/sleep infinity
"""
_AGENT = """[Unit]
Description=An agent that nobody needs
StartLimitIntervalSec=0
[Service]
Slice={slice}
MemoryAccounting=yes
ExecStart=/bin/sh -c 'echo left >{folder}/life-$$$$; exit 1'
Restart=always
RestartSec=1
"""


def slice_of(run: str) -> str:
    return f"{LAB}-{run}".replace("-", "_") + ".slice"


def agent_of(run: str) -> str:
    return f"{LAB}-{run}-unused-agent.service"


def anchor_of(run: str) -> str:
    return f"{LAB}-{run}-anchor.service"


def require_systemd() -> None:
    if not os.path.isdir(FOLDER) or shutil.which("systemctl") is None:
        raise ObservationError(
            "cannot let a real unit crash-loop",
            "systemd is not the first process here",
            "leave out --unit, or: zombiescope lab incident --vm",
        )


def start_anchor(run: str) -> None:
    _write(slice_of(run), _SLICE)
    _write(anchor_of(run), _ANCHOR.format(slice=slice_of(run)))
    systemctl("daemon-reload")
    systemctl("start", anchor_of(run))


def start_agent(run: str, folder: str) -> None:
    """It loops from now on, one life a second, and leaves a file in `folder` each time."""
    _write(agent_of(run), _AGENT.format(slice=slice_of(run), folder=folder))
    systemctl("daemon-reload")
    systemctl("start", "--no-block", agent_of(run))


def _write(name: str, text: str) -> None:
    Path(f"{FOLDER}/{name}").write_text(text, encoding="ascii")


def systemctl(*words: str) -> str:
    try:
        done = subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, errors="replace", check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise ActionFailedError(
            f"cannot {words[0]} a unit of the lab", "systemd does not answer", "systemctl status"
        ) from error
    if done.returncode != 0:
        raise ActionFailedError(
            f"cannot {words[0]} a unit of the lab ({words[-1]})",
            done.stderr.strip()[-300:] or f"exit code {done.returncode}",
            "zombiescope lab clean",
        )
    return done.stdout


def runs_with_units() -> set[str]:
    found = filter(None, map(_FILE.fullmatch, names_in(FOLDER)))
    return {each[1] for each in found if is_run_name(each[1])}


def stop_agent(run: str) -> None:
    """It must be at rest before its cgroups are removed; the anchor stays, and with it the slice they lie below."""
    if os.path.exists(f"{FOLDER}/{agent_of(run)}"):
        systemctl("stop", agent_of(run))


def remove_units(run: str) -> None:
    """Stopped, forgotten, and their files and drop-ins gone."""
    names = [name for name in (agent_of(run), anchor_of(run), slice_of(run)) if os.path.exists(f"{FOLDER}/{name}")]
    if names:
        systemctl("stop", *names)
    for name in (agent_of(run), anchor_of(run), slice_of(run)):
        for folder in _DROP_INS:
            shutil.rmtree(f"{folder}/{name}.d", ignore_errors=True)
            Path(f"{folder}/{name}").unlink(missing_ok=True)
    if names:
        systemctl("daemon-reload")


_PR_SET_PDEATHSIG = 1
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class LabProcess:
    pid: int
    start: int
    run: str


def mark_self() -> None:
    Path("/proc/self/comm").write_text(LAB)


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def in_child(work: Callable[[], bool | None]) -> int:
    """The process id of a child that does this work alone and ends: with 0, or with 1 where it raised or returned False."""
    if child := os.fork():
        return child
    code = 1
    try:
        code = int(work() is False)
    finally:
        os._exit(code)


def start_time(pid: int) -> int | None:
    """When it started, in clock ticks since boot: with the process id, a name no other process can have. None: it ended."""
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def boot_id() -> str:
    """Start times begin anew with each boot."""
    return text_of(BOOT_ID).strip()


def find_ours(roots: tuple[str, ...], run: str | None = None) -> list[LabProcess]:
    """Living processes of one run, or of all; not the calling one."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid() and is_named_ours(int(entry)):
            owner, start = _run_of(entry, roots), start_time(int(entry))
            if owner is not None and start is not None and run in (None, owner):
                found.append(LabProcess(int(entry), start, owner))
    return found


def is_named_ours(pid: int) -> bool:
    """Anybody can take the name, but not our user id with it."""
    try:
        is_named = Path(f"/proc/{pid}/comm").read_bytes().strip() == LAB.encode()
        return is_named and os.stat(f"/proc/{pid}").st_uid == os.geteuid()
    except OSError:
        return False


def _run_of(pid: str, roots: tuple[str, ...]) -> str | None:
    for name in names_in(f"/proc/{pid}/fd"):
        link = f"/proc/{pid}/fd/{name}"
        with suppress(OSError):
            folder, _, last = os.readlink(link).removesuffix(" (deleted)").rpartition("/")
            root, _, run = folder.rpartition("/")
            if last == "lock" and root in roots and is_run_name(run) and is_own_file(os.stat(link)):
                return run
    return None


def names_in(folder: str) -> list[str]:
    """Nothing where it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def end_processes(processes: list[LabProcess], patience_seconds: float = 3.0) -> list[LabProcess]:
    """Asks, waits, then kills. Returns those that would not go."""
    handles = [(handle, process) for process in processes if (handle := _handle(process)) is not None]
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for handle, _ in handles:
                with suppress(OSError):
                    signal.pidfd_send_signal(handle, number)
            if _all_gone([handle for handle, _ in handles], patience_seconds):
                return []
        return [process for handle, process in handles if not _all_gone([handle], 0)]
    finally:
        for handle, _ in handles:
            os.close(handle)


def _handle(process: LabProcess) -> int | None:
    """A handle that can never mean another process: opened first, then the start time is compared."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    if start_time(process.pid) != process.start:
        os.close(handle)
        return None
    return handle


def _all_gone(handles: list[int], patience_seconds: float) -> bool:
    give_up = time.monotonic() + patience_seconds
    return all(select.select([each], [], [], max(0.0, give_up - time.monotonic()))[0] for each in handles)
