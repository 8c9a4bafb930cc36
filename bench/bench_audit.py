# SPDX-License-Identifier: Apache-2.0
"""The audit's cost: 300 units in at most 0.5 s of CPU, and a 2 GB image read in constant memory.

The other: `systemctl --root list-unit-files` (which judges nothing) and `tar --list`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

UNITS = 300
CPU_BUDGET_SECONDS = 0.5
MEMORY_BUDGET_BYTES = 48 << 20
BLOCK = 512


class Cost(NamedTuple):
    cpu_seconds: float
    peak_bytes: int
    wall_seconds: float


def run(*command: str | Path) -> Cost:
    """CPU and peak memory of one program. Compiled modules are kept, as an installed package keeps them."""
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    surroundings["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / f"zombiescope-bench-pycache-{os.getuid()}")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=surroundings) as process:
        start = os.times().elapsed
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, os.times().elapsed - start)


def plant_units(root: Path) -> None:
    folder = root / "usr/lib/systemd/system"
    wants = root / "etc/systemd/system/multi-user.target.wants"
    folder.mkdir(parents=True)
    wants.mkdir(parents=True)
    (folder / "multi-user.target").write_text("[Unit]\n")
    (folder / "default.target").symlink_to("multi-user.target")
    text = "[Unit]\nDescription=x\nAfter=network.target\nWants=unit-{next}.service\n"
    text += "[Service]\nExecStart=/bin/x\nRestart=always\nRestartSec=10\n"
    for number in range(UNITS):
        name = f"unit-{number}.service"
        (folder / name).write_text(text.format(next=(number + 1) % UNITS) + "[Install]\nWantedBy=multi-user.target\n")
        (wants / name).symlink_to(f"/usr/lib/systemd/system/{name}")
        drop_in = folder / f"{name}.d"
        drop_in.mkdir()
        (drop_in / "10.conf").write_text("[Unit]\nStartLimitBurst=3\n")


def header(name: str, size: int) -> bytes:
    block = bytearray(BLOCK)
    block[: len(name)] = name.encode()
    block[100:108] = b"0000644\0"
    block[124:136] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[156:157] = b"0"
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def write_image(path: Path, members: int) -> int:
    """Members of 20 kB, their content holes; a unit among them."""
    unit = b"[Service]\nExecStart=/bin/x\n"
    with path.open("wb") as file:
        file.write(header("usr/lib/systemd/system/a.service", len(unit)) + unit.ljust(BLOCK, b"\0"))
        for number in range(members):
            file.write(header(f"usr/share/data/{number // 1000}/{number}", 20480))
            file.seek(20480, 1)
        file.write(bytes(2 * BLOCK))
        return file.tell()


def main() -> int:
    zombiescope = (sys.executable, "-m", "zombiescope", "audit", "--json")
    failures = 0
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as place:
        root = Path(place) / "root"
        plant_units(root)
        ours = min(run(*zombiescope, "--root", root) for _ in range(3))
        failures += ours.cpu_seconds > CPU_BUDGET_SECONDS
        print(
            f"{UNITS} units: {ours.cpu_seconds:.3f} s CPU (budget {CPU_BUDGET_SECONDS} s), {ours.peak_bytes >> 20} MiB"
        )
        if shutil.which("systemctl"):
            other = min(run("systemctl", f"--root={root}", "list-unit-files") for _ in range(3))
            ratio = ours.cpu_seconds / max(other.cpu_seconds, 1e-6)
            print(f"  systemctl list-unit-files: {other.cpu_seconds:.3f} s CPU; ratio {ratio:.1f}")
        peaks = []
        for members in (10_000, 100_000):
            image = Path(place) / f"{members}.tar"
            size = write_image(image, members)
            ours, other = run(*zombiescope, "--image", image), run("tar", "--list", "--file", image)
            peaks.append(ours.peak_bytes)
            print(
                f"image of {size / 1e9:.2f} GB, {members:,} members: {ours.wall_seconds:.2f} s, peak {ours.peak_bytes >> 20} MiB; "
                f"tar --list {other.wall_seconds:.2f} s; ratio {ours.wall_seconds / max(other.wall_seconds, 0.01):.1f}"
            )
            image.unlink()
        failures += peaks[-1] > MEMORY_BUDGET_BYTES or peaks[-1] - peaks[0] > 2 << 20
        print(f"memory grew by {(peaks[-1] - peaks[0]) / 1024:.0f} KiB for ten times the image (budget 2,048 KiB)")
    return failures


if __name__ == "__main__":
    sys.exit(main())
