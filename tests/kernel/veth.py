# SPDX-License-Identifier: Apache-2.0
"""Real packets between two network namespaces of our own, over a veth pair whose far end is served by one core: the sender's
packets wait for that core, for a softirq on it (RPS) or for the kernel thread there that polls (threaded NAPI). All of it lives in
one child and goes with it."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.kernel.confined import answer_of_child

_NEW_NET, _NEW_MOUNTS = 0x40000000, 0x00020000
_libc = ctypes.CDLL(None, use_errno=True)
NEAR, FAR, PORT = "10.77.0.1", "10.77.0.2", 7777
PROBE_SECONDS = 0.001
OTHER, CORE = 0, (os.cpu_count() or 1) - 1
"""The sender's core, and the one that serves: the machine's, even where this process is kept to one (`make test-one-core`)."""
_SIOCETHTOOL, _ETHTOOL_STSO, _ETHTOOL_SGRO = 0x8946, 0x1F, 0x2C


def _enter(descriptor: int) -> None:
    assert _libc.setns(descriptor, _NEW_NET) == 0, os.strerror(ctypes.get_errno())


def _new(flags: int) -> None:
    assert _libc.unshare(flags) == 0, os.strerror(ctypes.get_errno())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Pair(NamedTuple):
    near: socket.socket
    far: socket.socket


def open_pair(core: int, *, is_threaded: bool = False) -> Pair:
    """In this process, which must be a child made for it: it loses its own network. `core` serves what arrives at the far end."""
    far_name = f"far{os.getpid()}"
    _new(_NEW_NET | _NEW_MOUNTS)
    first = os.open("/proc/self/ns/net", os.O_RDONLY)
    _ip("link", "add", "near0", "type", "veth", "peer", "name", far_name)
    _new(_NEW_NET)
    second = os.open("/proc/self/ns/net", os.O_RDONLY)
    _enter(first)
    _ip("link", "set", far_name, "netns", f"/proc/{os.getpid()}/fd/{second}")
    _ip("addr", "add", f"{NEAR}/24", "dev", "near0")
    if is_threaded:
        _offload("near0", _ETHTOOL_STSO, 0)  # else veth takes the packets of a sender that can merge them past NAPI
    _ip("link", "set", "near0", "up")
    near = socket.socket(type=socket.SOCK_DGRAM)
    near.bind((NEAR, 0))
    _enter(second)
    _ip("addr", "add", f"{FAR}/24", "dev", far_name)
    if is_threaded:
        _offload(far_name, _ETHTOOL_SGRO, 1)  # with which veth polls
    _ip("link", "set", far_name, "up")
    if is_threaded:
        _poll_in_thread(far_name, core)
    else:
        _set(far_name, "queues/rx-0/rps_cpus", f"{1 << core:x}")
    far = socket.socket(type=socket.SOCK_DGRAM)
    far.bind((FAR, PORT))
    near.connect((FAR, PORT))
    near.settimeout(20.0)
    far.settimeout(20.0)
    near.send(b"x")  # the neighbour is asked for once, before anything is timed
    far.recv(64)
    return Pair(near, far)


def _set(device: str, name: str, value: str) -> None:
    """Through a view of /sys that belongs to this namespace."""
    folder = "/tmp"
    assert _libc.mount(b"none", b"/", None, 1 << 18 | 1 << 14, None) == 0, os.strerror(ctypes.get_errno())
    assert _libc.mount(b"sysfs", folder.encode(), b"sysfs", 0, None) == 0, os.strerror(ctypes.get_errno())
    with open(f"{folder}/class/net/{device}/{name}", "w", encoding="ascii") as file:
        file.write(value)
    assert _libc.umount2(folder.encode(), 2) == 0


def _offload(device: str, command: int, value: int) -> None:
    """What `ethtool -K` does."""
    asked = ctypes.create_string_buffer(struct.pack("<II", command, value))
    with socket.socket(type=socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sQ16x", device.encode(), ctypes.addressof(asked)))


def _poll_in_thread(device: str, core: int) -> None:
    _set(device, "threaded", "1")
    (thread,) = napi_threads(device)
    os.sched_setaffinity(thread, {core})


def napi_threads(device: str) -> list[int]:
    """Kernel threads that poll a device."""
    found = []
    for each in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if each.read_bytes().startswith(f"napi/{device}-"[:15].encode()):
                found.append(int(each.parent.name))
    return found


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
    account = os.open("/proc/self/schedstat", os.O_RDONLY)
    while (now := time.monotonic()) - begun < seconds:
        stood = _stood_in_line(account)
        pair.near.send(b"x")
        pair.far.recv(64)
        took = time.monotonic() - now - (_stood_in_line(account) - stood)
        packets += 1
        if took > longest:
            longest, longest_at = took, now
        time.sleep(PROBE_SECONDS)
    return Sent(packets, time.monotonic() - begun, longest, longest_at)


def _stood_in_line(account: int) -> float:
    """What the sender itself waited for its own core: on a busy host that is no wait of the packet."""
    return int(os.pread(account, 64, 0).split()[1]) / 1e9


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
def beside(
    core: int, work: Callable[[Pair], Sent], sender_core: int | None = None, *, is_threaded: bool = False
) -> Iterator[Callable[[], Sent]]:
    """Does `work` in a child with a pair of its own, from when it is ready; the value waits for its outcome."""
    ready, begun = os.pipe()
    answer, said = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if sender_core is not None:
                os.sched_setaffinity(0, {sender_core})
            pair = open_pair(core, is_threaded=is_threaded)
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
