# SPDX-License-Identifier: Apache-2.0
"""Boots one cell under QEMU's software emulation, runs a job folder in it, brings the results back.

Root, job, results and swap are NVMe namespaces 1 to 4; two serial ports carry the console and the job's live output.
`-accel tcg` always: that /dev/kvm exists proves nothing about running a stock kernel on it. One thread for all CPUs: with a
thread each, a CPU can execute an instruction that another is patching (jump labels), and the guest panics, mostly at boot.
A boot is repeated once, and only when the kernel never reached the job.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.vm.build import Store, say
from tests.vm.cells import Cell, Hierarchy, Init
from tests.vm.image import ROOT_PARTITION
from tests.vm.recipe import PLATFORMS

CARD = ("virtio_pci", "virtio_net")
"""The modules of a machine's network card; the first is built into newer kernels."""
CARD_ADDRESS = "10.0.2.15"
NOT_FINISHED = 124
NEVER_STARTED = 125
_MEGABYTE = 1 << 20
_RESULT_MEGABYTES = 64
_STARVED = 4
"""A machine that has not had its processor time after so many times as long is cut off as well: it sleeps for good."""
_SILENT_SECONDS = 600
_IDLE_SHARE = 0.1
"""One that says nothing for so long and takes less than this of a CPU meanwhile hangs: it is cut off as well."""
STOP = threading.Event()
"""Set when no more is wanted: what runs is cut off, and nothing is begun."""
_END = re.compile(r"VM-JOB-END (\S+) status=(\d+) tar=(\d+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. `status` is the job's own, or NOT_FINISHED or NEVER_STARTED, with the reason."""

    cell: Cell
    status: int
    reason: str
    folder: Path
    wall_seconds: float
    processor_seconds: float
    """What emulation took of this host's CPUs: comparable however busy the host was."""
    boots: int

    def cost(self) -> str:
        return f"{self.wall_seconds:.0f} s, {self.processor_seconds:.0f} s of a CPU"

    def crash(self) -> str | None:
        """What the kernel itself said when it crashed, and where; None if it did not."""
        console = self.folder / "console"
        said = console.read_text(errors="replace") if console.exists() else ""
        if not (crashed := re.search(r"^.*?(BUG: |Oops: |kernel BUG at ).*$", said, re.MULTILINE)):
            return None
        where = re.search(r"RIP: \S*?:(\S+)", said[crashed.start() :])
        return crashed.group(0).strip() + (f" in {where.group(1)}" if where else "")

    def log(self) -> str:
        """What the job said, or what it had said by the time it was cut off."""
        for name in ("log", "live", "console"):
            path = self.folder / name
            if path.exists() and path.stat().st_size:
                return path.read_text(errors="replace")
        return ""


def run_job(store: Store, cell: Cell, job: Path, folder: Path, timeout_seconds: float = 300) -> Outcome:
    """Runs `job/run`. `folder` is emptied first and then holds console, log, status and all that was in /out."""
    started = time.monotonic()
    boots = 1
    status, reason, spent = _boot(store, cell, job, folder, timeout_seconds)
    if status == NEVER_STARTED and not STOP.is_set():
        say(f"{cell.name}: {reason}; booting once more")
        boots = 2
        first = [(path.name, path.read_bytes()) for path in (folder / "console", folder / "qemu") if path.exists()]
        status, reason, spent = _boot(store, cell, job, folder, timeout_seconds)
        for name, text in first:
            (folder / f"{name}-of-first-boot").write_bytes(text)
    return Outcome(cell, status, reason, folder, time.monotonic() - started, spent, boots)


def _boot(store: Store, cell: Cell, job: Path, folder: Path, timeout_seconds: float) -> tuple[int, str, float]:
    shutil.rmtree(folder, ignore_errors=True)
    disks = folder / "disks"
    disks.mkdir(parents=True)
    try:
        with tarfile.open(disks / "job", "w") as tar:
            tar.add(job, arcname=".")
        _grow(disks / "job", -(-(disks / "job").stat().st_size // _MEGABYTE))
        _grow(disks / "result", _RESULT_MEGABYTES)
        if cell.swap_megabytes:
            _grow(disks / "spare", cell.swap_megabytes)
        finished, spent = _run_qemu(_command(store, cell, folder), folder, timeout_seconds)
        return *_read_result(folder, finished, timeout_seconds), spent
    finally:
        shutil.rmtree(disks, ignore_errors=True)


def _grow(path: Path, megabytes: int) -> None:
    with path.open("ab") as disk:
        disk.truncate(megabytes * _MEGABYTE)


def _run_qemu(command: list[str], folder: Path, timeout_seconds: float) -> tuple[bool, float]:
    """Whether it ended by itself, and the processor time it had."""
    spent = 0.0
    hears = Listener(folder)
    with (
        (folder / "qemu").open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output) as machine,
    ):
        started = time.monotonic()
        try:
            while machine.poll() is None:
                spent, waited = _processor_seconds(machine.pid), time.monotonic() - started
                if (
                    STOP.is_set()
                    or spent > timeout_seconds
                    or waited > _STARVED * timeout_seconds
                    or hears.nothing(waited, spent)
                ):
                    return False, spent
                time.sleep(0.2)
        finally:
            machine.kill()
    return True, spent


class Listener:
    """Knows when a machine last spoke, and what it had had of a CPU by then."""

    def __init__(self, folder: Path) -> None:
        self._ports = (folder / "console", folder / "live")
        self._heard, self._at, self._spent = -1, 0.0, 0.0

    def nothing(self, waited: float, spent: float) -> bool:
        """Whether it is silent and idle for too long."""
        heard = sum(port.stat().st_size for port in self._ports if port.exists())
        if heard != self._heard:
            self._heard, self._at, self._spent = heard, waited, spent
        silence = waited - self._at
        return silence > _SILENT_SECONDS and spent - self._spent < _IDLE_SHARE * silence


def _processor_seconds(process: int) -> float:
    """What the machine has had: beside other work it gets less of a CPU, and the clock on the wall says nothing of it."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_result(folder: Path, finished: bool, timeout_seconds: float) -> tuple[int, str]:
    console = (folder / "console").read_text(errors="replace") if (folder / "console").exists() else ""
    if "VM-JOB-START" not in console:
        words = (folder / "qemu").read_text(errors="replace").strip()[-500:]
        return NEVER_STARTED, "the kernel never reached the job (see console)" + (f": {words}" if words else "")
    end = _END.search(console)
    if not end:
        return (
            NOT_FINISHED,
            f"cut off: more than {timeout_seconds:.0f} s of a CPU, or nothing said for long (see live)"
            if not finished
            else "the machine stopped in mid-job (see console)",
        )
    if int(end[3]):
        return NOT_FINISHED, f"the results did not fit into {_RESULT_MEGABYTES} MB"
    try:
        with tarfile.open(folder / "disks" / "result", "r:") as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, OSError) as error:
        return NOT_FINISHED, f"the results cannot be read: {error}"
    return int(end[2]), "finished"


def _command(store: Store, cell: Cell, folder: Path) -> list[str]:
    platform = PLATFORMS[cell.platform]
    disks = [
        (1, store.image(cell.image), "snapshot=on"),
        (2, folder / "disks/job", "readonly=on"),
        (3, folder / "disks/result", "cache=unsafe"),
    ]
    if cell.swap_megabytes:
        disks.append((4, folder / "disks/spare", "cache=unsafe"))
    # setpriv: should this process be killed, the kernel ends the machine as well.
    command = [
        "setpriv",
        "--pdeathsig",
        "KILL",
        "nice",
        "-n",
        "5",
        platform.emulator,
        "-accel",
        "tcg,thread=single,tb-size=512",
    ]
    command += [
        *platform.machine,
        "-smp",
        str(cell.cpus),
        *_memory(cell),
        "-nodefaults",
        "-display",
        "none",
        "-no-reboot",
    ]
    command += ["-serial", f"file:{folder}/console", "-chardev", f"file,id=live,path={folder}/live"]
    command += ["-device", "pci-serial,chardev=live" if platform.architecture == "arm64" else "isa-serial,chardev=live"]
    kernel = store.kernel(cell.kernel_part)
    command += ["-kernel", str(kernel), "-append", _kernel_arguments(cell), "-device", "nvme,id=disks,serial=vm"]
    if platform.modules:
        command += ["-initrd", str(kernel.with_name("initramfs"))]
    if cell.forwarded:
        # `restrict`: the machine reaches nobody, and is reached through these ports of the loopback.
        forwards = "".join(f",hostfwd=tcp:127.0.0.1:{ours}-{CARD_ADDRESS}:{its}" for ours, its in cell.forwarded)
        command += ["-netdev", f"user,id=net,restrict=on{forwards}", "-device", "virtio-net-pci,netdev=net,romfile="]
    for number, path, options in disks:
        command += ["-drive", f"if=none,id=d{number},format=raw,file={path},{options}"]
        command += ["-device", f"nvme-ns,bus=disks,drive=d{number},nsid={number}"]
    return command


def _memory(cell: Cell) -> list[str]:
    arguments = ["-m", str(cell.memory_megabytes)]
    if cell.numa_nodes == 1:
        return arguments
    share, cpus = cell.memory_megabytes // cell.numa_nodes, cell.cpus // cell.numa_nodes
    for node in range(cell.numa_nodes):
        arguments += [
            "-object",
            f"memory-backend-ram,id=m{node},size={share}M",
            "-numa",
            f"node,nodeid={node},memdev=m{node},cpus={node * cpus}-{(node + 1) * cpus - 1}",
        ]
    return arguments


def _kernel_arguments(cell: Cell) -> str:
    words = [
        f"root={ROOT_PARTITION}",
        "rootwait",
        "rw",
        f"console={PLATFORMS[cell.platform].console}",
        f"vm.live={PLATFORMS[cell.platform].live}",
        "quiet",
        "panic=-1",
        "mitigations=off",
        "random.trust_cpu=on",
    ]
    if cell.init is Init.MINI:
        return " ".join([*words, "init=/usr/local/lib/zombiescope-vm/init", f"vm.cgroup={cell.hierarchy}"])
    if cell.selinux:
        words += ["security=selinux", "selinux=1", "enforcing=1"]
    words += ["systemd.show_status=0", "systemd.unit=vm.target"]
    legacy = ["systemd.unified_cgroup_hierarchy=0", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"]
    words += {
        Hierarchy.V2: ["systemd.unified_cgroup_hierarchy=1"],
        Hierarchy.V1: [*legacy, "systemd.legacy_systemd_cgroup_controller=1"],
        Hierarchy.HYBRID: legacy,
    }[cell.hierarchy]
    return " ".join(words)
