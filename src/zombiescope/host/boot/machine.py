# SPDX-License-Identifier: Apache-2.0
"""Boots a candidate in QEMU: no network, no share, its disk a snapshot, two serial ports that write to files with a bound.

Software emulation unless asked otherwise: that /dev/kvm exists proves nothing. One thread for all CPUs: with a thread each, a CPU
can execute an instruction that another is patching, and the guest panics. As root it is run as nobody.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from zombiescope.host.boot.candidate import Candidate, cannot

_MEGABYTES = 1024
_CPUS = 2
_NOBODY = 65534
_FILE_BYTES = 16 << 30
_HEARD_BYTES = 8 << 20
"""Of each serial port."""
_EXTRA_CPU_SECONDS = 600
_END_SECONDS = 10
_STEP = 0.25


class Heard(NamedTuple):
    console: bytes
    told: bytes
    """What our program inside said."""
    seconds: float
    has_ended: bool
    """By itself: it was switched off from inside."""


def boot(image: bytes, candidate: Candidate, accel: str, folder: str, until: Callable[[bytes, float], bool]) -> Heard:
    """Runs until `until(told, seconds)` says enough, or the machine ends. Raises ObservationError where there is no QEMU."""
    program = shutil.which("qemu-system-x86_64")
    if program is None:
        raise cannot(
            image,
            "qemu-system-x86_64 is not installed",
            "install qemu-system-x86, or boot it elsewhere: check --for 10m",
        )
    ports = [os.path.join(folder, name) for name in ("console", "told")]
    for path in ports:
        with open(path, "wb"):
            pass
    user = _NOBODY if os.geteuid() == 0 and accel == "tcg" else None
    if user is not None:
        _hand_over(folder, candidate, user)
    began = time.monotonic()
    machine = subprocess.Popen(
        _command(program, candidate, accel, ports),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "TMPDIR": folder},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        preexec_fn=_limited,  # noqa: PLW1509 (no thread of ours is running)
    )
    has_ended = False
    try:
        while True:
            has_ended = machine.poll() is not None
            if has_ended or until(_tail(ports[1]), time.monotonic() - began) or _is_flooded(ports):
                break
            time.sleep(_STEP)
    finally:
        machine.terminate()
        try:
            machine.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            machine.kill()
            machine.wait()
    return Heard(_tail(ports[0]), _tail(ports[1]), time.monotonic() - began, has_ended)


def _hand_over(folder: str, candidate: Candidate, user: int) -> None:
    """What the machine reads and writes is in our own folder: it becomes nobody's."""
    os.chown(folder, user, user)
    for name in os.listdir(folder):
        os.chown(os.path.join(folder, name), user, user)
    del candidate


def _is_flooded(ports: list[str]) -> bool:
    return any(os.stat(path).st_size > _HEARD_BYTES for path in ports)


def _tail(path: str) -> bytes:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _HEARD_BYTES))
        return file.read(_HEARD_BYTES)


def _command(program: str, candidate: Candidate, accel: str, ports: list[str]) -> list[str]:
    setting = "tcg,thread=single,tb-size=256" if accel == "tcg" else accel
    command = [program, "-accel", setting, "-machine", "q35", "-cpu", "max", "-smp", str(_CPUS), "-m", str(_MEGABYTES)]
    command += ["-nodefaults", "-nic", "none", "-display", "none", "-no-reboot"]
    command += ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]
    for path in ports:
        command += ["-serial", f"file:{_plain(path)}"]
    command += ["-drive", f"if=none,id=disk,format={candidate.format},file={_plain(candidate.disk)},snapshot=on"]
    command += ["-device", "nvme,serial=candidate,drive=disk"]
    if candidate.kernel is not None:
        words = f"root={candidate.root} rw rootwait console=ttyS0 panic=-1 random.trust_cpu=on"
        command += ["-kernel", candidate.kernel, "-append", words]
    if candidate.initrd is not None:
        command += ["-initrd", candidate.initrd]
    return command


def _plain(path: str) -> str:
    """QEMU takes a comma for the end of a value, and two for one."""
    return path.replace(",", ",,")


def _limited() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
