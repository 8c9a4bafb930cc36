# SPDX-License-Identifier: Apache-2.0
"""Real packets between two network namespaces of our own, over a veth pair whose far end is served by one core (RPS): the sender's
packets wait for that core. All of it lives in one child and goes with it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from tests.kernel.confined import answer_of_child

_NEW_NET, _NEW_MOUNTS = 0x40000000, 0x00020000
_libc = ctypes.CDLL(None, use_errno=True)
NEAR, FAR, PORT = "10.77.0.1", "10.77.0.2", 7777
PROBE_SECONDS = 0.001


def _enter(descriptor: int) -> None:
    assert _libc.setns(descriptor, _NEW_NET) == 0, os.strerror(ctypes.get_errno())


def _new(flags: int) -> None:
    assert _libc.unshare(flags) == 0, os.strerror(ctypes.get_errno())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Pair(NamedTuple):
    near: socket.socket
    far: socket.socket


def open_pair(core: int) -> Pair:
    """In this process, which must be a child made for it: it loses its own network. `core` serves what arrives at the far end."""
    _new(_NEW_NET | _NEW_MOUNTS)
    first = os.open("/proc/self/ns/net", os.O_RDONLY)
    _ip("link", "add", "near0", "type", "veth", "peer", "name", "far0")
    _new(_NEW_NET)
    second = os.open("/proc/self/ns/net", os.O_RDONLY)
    _enter(first)
    _ip("link", "set", "far0", "netns", f"/proc/{os.getpid()}/fd/{second}")
    _ip("addr", "add", f"{NEAR}/24", "dev", "near0")
    _ip("link", "set", "near0", "up")
    near = socket.socket(type=socket.SOCK_DGRAM)
    near.bind((NEAR, 0))
    _enter(second)
    _ip("addr", "add", f"{FAR}/24", "dev", "far0")
    _ip("link", "set", "far0", "up")
    _steer(core)
    far = socket.socket(type=socket.SOCK_DGRAM)
    far.bind((FAR, PORT))
    near.connect((FAR, PORT))
    near.settimeout(20.0)
    far.settimeout(20.0)
    near.send(b"x")  # the neighbour is asked for once, before anything is timed
    far.recv(64)
    return Pair(near, far)


def _steer(core: int) -> None:
    """Through a view of /sys that belongs to this namespace."""
    folder = "/tmp"
    assert _libc.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None) == 0, os.strerror(ctypes.get_errno())
    assert _libc.mount(b"sysfs", folder.encode(), b"sysfs", 0, None) == 0, os.strerror(ctypes.get_errno())
    with open(f"{folder}/class/net/far0/queues/rx-0/rps_cpus", "w", encoding="ascii") as file:
        file.write(f"{1 << core:x}")
    assert _libc.umount2(folder.encode(), 2) == 0


class Sent(NamedTuple):
    packets: int
    seconds: float
    longest_seconds: float
    """From when the sender sent a packet to when it was there, by its own clock."""
    longest_at: float
    """On the monotonic clock."""


def probe(pair: Pair, seconds: float) -> Sent:
    """One packet after another, a millisecond apart; each must arrive before the next is sent."""
    longest, longest_at, packets, begun = 0.0, 0.0, 0, time.monotonic()
    while (now := time.monotonic()) - begun < seconds:
        pair.near.send(b"x")
        pair.far.recv(64)
        took = time.monotonic() - now
        packets += 1
        if took > longest:
            longest, longest_at = took, now
        time.sleep(PROBE_SECONDS)
    return Sent(packets, time.monotonic() - begun, longest, longest_at)


def flood(pair: Pair, per_second: int, seconds: float) -> Sent:
    """As many as asked for, in bursts of a millisecond; those that arrive are thrown away."""
    pair.far.close()  # the kernel still receives them, and drops them at the door of the socket
    burst, begun, packets = max(per_second // 1000, 1), time.monotonic(), 0
    send, end = pair.near.send, begun + seconds
    while (now := time.monotonic()) < end:
        wanted = int((now - begun) * per_second) - packets
        for _ in range(min(wanted, 20 * burst)):
            with suppress(ConnectionRefusedError):
                send(b"x")
        packets += min(max(wanted, 0), 20 * burst)
        if wanted < burst:
            time.sleep(0.0005)
    return Sent(packets, time.monotonic() - begun, 0.0, 0.0)


@contextmanager
def beside(core: int, work: Callable[[Pair], Sent], sender_core: int | None = None) -> Iterator[Callable[[], Sent]]:
    """Does `work` in a child with a pair of its own, from when it is ready; the value waits for its outcome."""
    ready, begun = os.pipe()
    answer, said = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if sender_core is not None:
                os.sched_setaffinity(0, {sender_core})
            pair = open_pair(core)
            os.write(begun, b"x")
            os.write(said, json.dumps(work(pair)).encode())
            status = 0
        except BaseException:  # noqa: BLE001  (it must never return into pytest)
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(begun)
    os.close(said)
    outcome: list[Any] = []

    def wait() -> Sent:
        if not outcome:
            with open(answer, "rb", closefd=False) as file:
                outcome.extend(json.loads(file.read()))
        return Sent(*outcome)

    try:
        assert os.read(ready, 1) == b"x", "no veth pair could be made"
        yield wait
    finally:
        if not outcome:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(answer)


def works_here() -> str:
    """Why no such pair can be made; empty where it can."""
    try:
        return str(answer_of_child(lambda: str(len(open_pair(0)))) and "")
    except AssertionError as error:
        return str(error)
