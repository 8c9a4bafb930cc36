# SPDX-License-Identifier: Apache-2.0
"""The real scenarios: makes each in a test machine, records it with the product, and puts everything back.

Inside a machine: `python3 -m tests.scenarios.runs [NAME...]` leaves /out/NAME.tar.gz. From outside: `tools/record_scenarios.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OUT = Path("/out")
UNITS = Path("/run/systemd/system")
FILES = Path("/var/tmp/scenario")
ZOMBIES = 300
SECONDS = "3"
LOOP = """[Unit]
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/sh -c '{work}exit 1'
Restart=always
RestartSec=20ms
"""
LEAVE = f"echo left >{FILES}/$$$$; sync {FILES}/$$$$; "
INNER = f"""#!/bin/sh
# One running unit that starts child after child in cgroups of its own.
cd /sys/fs/cgroup/system.slice/inner.service && mkdir main && echo $$ >main/cgroup.procs
echo +memory >cgroup.subtree_control
n=0
while :; do
  n=$((n+1)); mkdir c$n
  sh -c "echo \\$\\$ >c$n/cgroup.procs; [ $1 = leak ] && echo left >{FILES}/$n && sync {FILES}/$n; [ $n -lt $2 ] || sleep 0.4"
  rmdir c$n
done
"""


def run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def zombiescope(*words: str) -> None:
    run(sys.executable, "-m", "zombiescope", *words)


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def lab(kind: str, count: int = ZOMBIES) -> Iterator[None]:
    zombiescope("lab", "zombies", "--pin", kind, "--count", str(count), "--name", "scenario")
    try:
        yield
    finally:
        zombiescope("lab", "clean")


@contextmanager
def unit(name: str, text: str, until: Callable[[], bool]) -> Iterator[None]:
    FILES.mkdir(exist_ok=True)
    (UNITS / name).write_text(text)
    run("systemctl", "daemon-reload")
    run("systemctl", "start", "--no-block", name)
    try:
        deadline = time.monotonic() + 240
        while not until() and time.monotonic() < deadline:
            time.sleep(0.5)
        yield
    finally:
        run("systemctl", "stop", name)
        (UNITS / name).unlink()
        run("systemctl", "daemon-reload")
        shutil.rmtree(FILES, ignore_errors=True)


def files_left() -> bool:
    return len(list(FILES.iterdir())) >= ZOMBIES


def loop(work: str, until: Callable[[], bool]) -> Callable[[], object]:
    return lambda: unit("loop.service", LOOP.format(work=work), until)


def after(seconds: float) -> Callable[[], bool]:
    end: list[float] = []

    def is_over() -> bool:
        end.append(time.monotonic() + seconds)
        return time.monotonic() >= end[0]

    return is_over


def inner(mode: str, slow_from: int, until: Callable[[], bool]) -> Callable[[], object]:
    script = Path("/run/scenario-inner")

    def make() -> object:
        script.write_text(INNER)
        script.chmod(0o755)
        text = f"[Service]\nDelegate=yes\nExecStart={script} {mode} {slow_from}\n"
        return unit("inner.service", text, until)

    return make


@contextmanager
def hogs(count: int, *, real_time: bool = False) -> Iterator[None]:
    code = "while True: pass"
    if real_time:
        code = f"import os; os.sched_setaffinity(0, {{1}}); os.sched_setscheduler(0, 1, os.sched_param(50))\n{code}"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    time.sleep(1)
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


@contextmanager
def transient(name: str, settings: list[str], *command: str) -> Iterator[None]:
    properties = [f"--property={setting}" for setting in settings]
    run("systemd-run", f"--unit={name}", *properties, *command)
    time.sleep(3)
    try:
        yield
    finally:
        run("systemctl", "stop", f"{name}.service")


HOG = (sys.executable, "-c", "while True: pass")
SCENARIOS: dict[str, Callable[[], object]] = {
    "idle": nothing,
    "page-cache": lambda: lab("page-cache"),
    "tmpfs": lambda: lab("tmpfs"),
    "sysv": lambda: lab("sysv-shm"),
    "memfd": lambda: lab("memfd"),
    "swap": lambda: lab("swap"),
    "swap-few": lambda: lab("swap", 30),
    "visible-leak": lambda: lab("visible", 1_100),
    "loop-clean": loop("", after(8)),
    "inner-churn": inner("clean", 0, after(8)),
    "user-hog": lambda: hogs(2 * (os.cpu_count() or 1)),
    "real-time": lambda: hogs(1, real_time=True),
    "throttled": lambda: transient("capped", ["CPUQuota=20%"], *HOG),
    "loop-leaks": loop(LEAVE, files_left),
    "inner-loop-leaks": inner("leak", ZOMBIES, files_left),
    "pages-handed-on": lambda: lab("page-cache"),
}
HANDED_ON = frozenset({"pages-handed-on"})
"""Of a kernel that gives the pages of the dead to their parent."""


def main() -> int:
    failed = []
    for name in sys.argv[1:] or SCENARIOS:
        begun = time.monotonic()
        try:
            with SCENARIOS[name]():  # type: ignore[attr-defined]
                zombiescope("record", str(OUT / f"{name}.tar.gz"), "--seconds", SECONDS, "--force", "--keep-names")
        except (OSError, subprocess.CalledProcessError) as error:
            failed.append(name)
            print(f"{name}: {error}", flush=True)
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
