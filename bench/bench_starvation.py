# SPDX-License-Identifier: Apache-2.0
"""What watching for starvation costs: the agent's light probes, here and with 192 simulated CPUs, and the doctor's window in
the kernel, per packet. Targets: the always-on part at most 0.1 % of a core. Needs root for the window.

Usage: bench_starvation.py [READINGS]; 200 without an argument. CPU seconds, not wall.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.cpu_time import read_throttling
from zombiescope.watching.catalogue import PROBES
from zombiescope.watching.reclaim import QUOTA_SECONDS
from zombiescope.watching.softirq import DetailedSoftirqWatch, SoftirqTeller

MINE = ("nic_resets", "softirq", "reclaim")
TARGET = 0.001
PACKETS = 20_000


def cpu_of(work: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def simulated(cpus: int) -> Host:
    files: dict[bytes, Any] = {b"/sys/devices/system/cpu/online": b"0-%d\n" % (cpus - 1)}
    for core in range(cpus):
        files[b"/proc/%d/stat" % (10 + core)] = b"%d (ksoftirqd/%d) S 2 0" % (10 + core, core)
        files[b"/proc/%d/schedstat" % (10 + core)] = b"1000 2000 30\n"
    files[b"/proc/net/softnet_stat"] = b"00000010 00000002 00000003 00000000\n" * cpus
    return ScriptedHost(files)


def talk() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.bind(("127.0.0.1", 0))
        for _ in range(PACKETS):
            sender.sendto(b"x", receiver.getsockname())
            receiver.recv(16)


def main(readings: int) -> None:
    total = 0.0
    for probe in PROBES:  # the reclaim probe reads quotas when a minute is over: told by itself
        if probe.name not in MINE:
            continue
        watch = probe.open(LiveHost())
        if watch is None:
            continue
        each = cpu_of(watch.read, readings)
        watch.close()
        total += each / probe.seconds
        print(
            f"{probe.name:<12} {each * 1e3:7.3f} ms a reading, every {probe.seconds:.0f} s: {each / probe.seconds:.4%} of a core"
        )
    each = cpu_of(lambda: read_throttling(LiveHost()), max(readings // 10, 1))
    total += each / QUOTA_SECONDS
    print(
        f"{'quotas':<12} {each * 1e3:7.3f} ms a reading, every {QUOTA_SECONDS:.0f} s: {each / QUOTA_SECONDS:.4%} of a core"
    )
    print(f"together {total:.4%} of a core; target {TARGET:.2%}, ratio {total / TARGET:.2f}")
    many = SoftirqTeller(simulated(192))
    each = cpu_of(many.read, readings)
    print(
        f"softirq with 192 simulated CPUs: {each * 1e3:.3f} ms a reading, system calls not counted: {each / 5:.4%} of a core"
    )
    alone = cpu_of(talk, 1)
    window = DetailedSoftirqWatch(LiveHost())
    watched = cpu_of(talk, 1)
    seen = window.seen()
    why = seen.reason if isinstance(seen, Gap) else seen.latencies.reason if isinstance(seen.latencies, Gap) else ""
    print(
        f"{PACKETS:,} packets over loopback: {alone:.3f} s of CPU alone, {watched:.3f} s in the doctor's window: "
        f"{(watched - alone) / PACKETS * 1e6:.2f} us a packet{' (no BPF: ' + why + ')' if why else ''}"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
