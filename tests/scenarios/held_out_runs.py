# SPDX-License-Identifier: Apache-2.0
"""Patients that nobody tuned the rules for, on a real systemd: made in a test machine, recorded with the product, put back.

Their labels are in held_out/systemd.toml, written before the doctor was asked. Inside a machine:
`python3 -m tests.scenarios.held_out_runs [NAME...]` leaves /out/NAME.tar.gz. From outside: `tools/record_scenarios.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from tests.scenarios.runs import OUT, UNITS, run, zombiescope

DISK = Path("/var/tmp/held-out")
SHARED = Path("/dev/shm/held-out")
SLICE = Path("/sys/fs/cgroup/system.slice")
SECONDS = "10"
ON_DISK = f"echo left >{DISK}/$$$$; sync {DISK}/$$$$; "
IN_MEMORY = f"echo left >{SHARED}/$$$$; "
LOOP = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh -c '{work}exit 1'\nRestart=always\nRestartSec={rest}\n"
JOB = "[Service]\nType=oneshot\nExecStart=/bin/sh -c '{work}true'\n"
TIMER = "[Timer]\nOnActiveSec=100ms\nOnUnitInactiveSec=200ms\nAccuracySec=1ms\n"
WRITER = f"""import os, resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
left = [open(os.path.join("{SHARED}", name), "ab", 0) for name in os.listdir("{SHARED}")]
while True:
    for file in left:
        file.write(b".")
    time.sleep(0.5)
"""


def left(folder: Path) -> int:
    return len(os.listdir(folder))


@contextmanager
def folders() -> Iterator[None]:
    for folder in (DISK, SHARED):
        folder.mkdir()
    try:
        yield
    finally:
        for folder in (DISK, SHARED):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def units(texts: Mapping[str, str], *started: str) -> Iterator[None]:
    for name, text in texts.items():
        (UNITS / name).write_text(text)
    run("systemctl", "daemon-reload")
    for name in started:
        run("systemctl", "start", "--no-block", name)
    try:
        yield
    finally:
        for name in started:
            run("systemctl", "stop", name)
        for name in texts:
            (UNITS / name).unlink()
        run("systemctl", "daemon-reload")


def until(is_so: Callable[[], bool], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError("the patient did not get ill in time")
        time.sleep(0.5)


@contextmanager
def timer(work: str, ill: Callable[[], bool]) -> Iterator[None]:
    with folders(), units({"tick.service": JOB.format(work=work), "tick.timer": TIMER}, "tick.timer"):
        until(ill)
        yield


@contextmanager
def ended(count: int, folder: Path, names: Callable[[int], Path]) -> Iterator[None]:
    """Cgroups that lived for one file each, made by hand under systemd's own names: without seconds of emulation for each."""
    with folders():
        for number in range(count):
            group = names(number)
            group.mkdir()
            child = os.fork()
            if child == 0:
                leave_a_file(group, folder)
            os.waitpid(child, 0)
            group.rmdir()
        yield


@contextmanager
def instances(count: int) -> Iterator[None]:
    """Where systemd puts the instances of job@.service."""
    slice_ = SLICE / "system-job.slice"
    slice_.mkdir()
    (slice_ / "cgroup.subtree_control").write_text("+memory")
    try:
        with ended(count, DISK, lambda number: slice_ / f"job@{number}.service"):
            yield
    finally:
        slice_.rmdir()


def scopes(count: int, folder: Path) -> AbstractContextManager[None]:
    """As `systemd-run --scope` names them."""
    return ended(count, folder, lambda _: SLICE / f"run-r{uuid.uuid4().hex}.scope")


def leave_a_file(group: Path, folder: Path) -> NoReturn:
    (group / "cgroup.procs").write_text(str(os.getpid()))
    with open(folder / str(os.getpid()), "wb") as file:
        file.write(b"left")
        file.flush()
        os.fsync(file.fileno())
    os._exit(0)


@contextmanager
def written_files(count: int) -> Iterator[None]:
    """What the dead began on a tmpfs, a living program goes on writing."""
    with scopes(count, SHARED):
        writer = subprocess.Popen([sys.executable, "-c", WRITER])
        time.sleep(2)
        try:
            yield
        finally:
            writer.kill()
            writer.wait()


@contextmanager
def loops(works: Mapping[str, tuple[str, str]], ill: Callable[[], bool]) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(folders())
        texts = {name: LOOP.format(work=work, rest=rest) for name, (work, rest) in works.items()}
        stack.enter_context(units(texts, *texts))
        until(ill)
        yield


@contextmanager
def wave(count: int) -> Iterator[None]:
    """A deployment: many end within seconds, and what they leave is let go soon after."""
    with scopes(count, DISK):
        time.sleep(1)
    run("sync")
    Path("/proc/sys/vm/drop_caches").write_text("1")
    yield


def after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


SCENARIOS: dict[str, Callable[[], object]] = {
    "tick-leaks": lambda: timer(ON_DISK, lambda: left(DISK) >= 40),
    "tick-clean": lambda: timer("", after(12)),
    "template-leaks": lambda: instances(1_100),
    "template-few": lambda: instances(40),
    "scopes-leak": lambda: scopes(1_100, SHARED),
    "files-still-written": lambda: written_files(1_100),
    "loud-and-guilty": lambda: loops(
        {"loud.service": ("", "20ms"), "guilty.service": (ON_DISK, "300ms")}, lambda: left(DISK) >= 150
    ),
    "loop-leaves-shared-memory": lambda: loops({"spool.service": (IN_MEMORY, "50ms")}, lambda: left(SHARED) >= 300),
    "wave-over": lambda: wave(200),
}


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or SCENARIOS:
        begun = time.monotonic()
        try:
            with SCENARIOS[name]():  # type: ignore[attr-defined]
                zombiescope("record", str(OUT / f"{name}.tar.gz"), "--seconds", SECONDS, "--force", "--keep-names")
        except (OSError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"{name}: {error}", flush=True)
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
