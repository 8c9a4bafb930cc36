# SPDX-License-Identifier: Apache-2.0
"""Runs inside a machine, as its job: brings its network card up, starts the unit that loops where asked, and becomes the agent.

`python3 in_machine.py IMAGE LOOPING MODULE...`: LOOPING is `looping` or `quiet`; modules are loaded in this order.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

ADDRESS, MASK = "10.0.2.15", "255.255.255.0"
PORT = 9478
_SET_FLAGS, _SET_ADDRESS, _SET_MASK = 0x8914, 0x8916, 0x891C
_UP_AND_RUNNING = 0x1 | 0x40
UNIT = """[Unit]
StartLimitIntervalSec=0
[Service]
Slice=fleet.slice
ExecStart=/bin/sh -c 'echo left >/dev/shm/unused-agent-$$$$; exit 1'
Restart=always
RestartSec=500ms
"""
ANCHOR = "[Service]\nSlice=fleet.slice\nExecStart=/bin/sleep infinity\n"


def main() -> None:
    image, looping, *modules = sys.argv[1:]
    for module in modules:
        subprocess.run(["/sbin/insmod", module], check=True)
    begin = time.monotonic()
    while not (cards := sorted(set(os.listdir("/sys/class/net")) - {"lo"})):
        assert time.monotonic() - begin < 600, "no network card appeared"
        time.sleep(0.2)
    bring_up("lo", "127.0.0.1", "255.0.0.0")
    bring_up(cards[0], ADDRESS, MASK)
    if looping == "looping":
        units = Path("/run/systemd/system")
        units.mkdir(exist_ok=True)
        (units / "unused-agent.service").write_text(UNIT)
        (units / "anchor.service").write_text(ANCHOR)
        for words in (["daemon-reload"], ["start", "anchor.service"], ["start", "--no-block", "unused-agent.service"]):
            subprocess.run(["systemctl", *words], check=True)
    config = Path("/run/agent.toml")
    config.write_text(f'[agent]\nlisten = "0.0.0.0:{PORT}"\ninterval_seconds = 5\nimage = "{image}"\n')
    words = [sys.executable, "-m", "zombiescope", "agent", "--config", str(config), "--state", "/run/agent-state"]
    os.execv(sys.executable, words)


def bring_up(card: str, address: str, mask: str) -> None:
    """As `ip address add` and `ip link set up`, which the image does not have."""
    name = card.encode().ljust(16, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        for request, value in ((_SET_ADDRESS, address), (_SET_MASK, mask)):
            plain = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(door, request, name + plain)
        fcntl.ioctl(door, _SET_FLAGS, name + struct.pack("H14x", _UP_AND_RUNNING))


if __name__ == "__main__":
    main()
