# SPDX-License-Identifier: Apache-2.0
"""What is planted: five sets of ten, each with other work, other questions, other lengths, another rate and another load. The
search was made on the first two; the others were held out. Each is a real process that works for seconds at what the others around
it do not; beside the fourth there are jobs that come back and do some of it too. The fifth was written last, after all work on the
search, and asked as it was written."""

from __future__ import annotations

import os
from typing import NamedTuple

from bench.profile.live_moments import NEIGHBOUR
from bench.profile.more_plants import MORE

from zombiescope.profiler.stacks.searching import Question

HEAD = """
import ctypes, hashlib, mmap, os, signal, socket, subprocess, sys, threading, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
over = time.monotonic() + float(sys.argv[2])
begin = time.clock_gettime(time.CLOCK_MONOTONIC)
"""
TAIL = "\nprint(begin, time.clock_gettime(time.CLOCK_MONOTONIC))"
NAMED = "import ctypes; ctypes.CDLL(None).prctl(15, b'neighbour', 0, 0, 0)\n"
UNTIL = "while time.monotonic() < over: "
FORK = UNTIL + "\n    child = os.fork()\n    if not child: os._exit(0)\n    os.waitpid(child, 0)\n"
RANDOM = UNTIL + "os.urandom(1 << 16)\n"
FAULT = (
    UNTIL + "\n    room = mmap.mmap(-1, 8 << 20)\n"
    "    for at in range(0, 8 << 20, 4096): room[at] = 1\n    room.close()\n"
)
SPIN = UNTIL + "sum(range(1000))\n"
PIPE = "a, b = os.pipe()\n" + UNTIL + "\n    os.write(b, bytes(4096)); os.read(a, 4096)\n"
UDP = (
    "a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))\n"
    + UNTIL
    + "\n    a.sendto(b'x' * 1400, a.getsockname()); a.recv(2000)\n"
)
LIST = UNTIL + "os.listdir('/proc')\n"
CHURN = UNTIL + "\n    os.mkdir(sys.argv[3] + '/x'); os.rmdir(sys.argv[3] + '/x')\n"
ENTER = "open(sys.argv[3] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
HOLD = (
    "os.sched_setaffinity(0, {CORE}); os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))\n"
    "zero, room = os.open('/dev/zero', 0), bytearray(8 << 20)\n" + UNTIL + "os.readv(zero, [room])\n"
)
EXECUTE = UNTIL + "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)\n"
SHARED = (
    "room = os.memfd_create('shared')\n" + UNTIL + "\n    os.pwrite(room, bytes(1 << 20), 0); os.ftruncate(room, 0)\n"
)
UNIX = "a, b = socket.socketpair()\n" + UNTIL + "\n    a.send(bytes(2000)); b.recv(4000)\n"
SIGNALS = "signal.signal(signal.SIGUSR1, lambda *_: None)\n" + UNTIL + "os.kill(os.getpid(), signal.SIGUSR1)\n"
PROTECT = (
    "library, room = ctypes.CDLL(None), mmap.mmap(-1, 1 << 20)\n"
    "at = ctypes.addressof(ctypes.c_char.from_buffer(room))\n"
    + UNTIL
    + "\n    for each in (1, 3): library.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(1 << 20), each)\n"
)
THREADS = (
    "one, two = threading.Semaphore(0), threading.Semaphore(0)\n"
    "def answer():\n    while True: one.acquire(); two.release()\n"
    "threading.Thread(target=answer, daemon=True).start()\n" + UNTIL + "\n    one.release(); two.acquire()\n"
)
DIGEST = UNTIL + "hashlib.sha256(bytes(1 << 16)).digest()\n"
GATHER = UNTIL + "open('/proc/self/smaps').read()\n"
POLLS = (
    "import select\nlook = select.epoll(); a, b = os.pipe(); look.register(a, select.EPOLLIN)\n"
    + UNTIL
    + "\n    os.write(b, b'x'); look.poll(0); os.read(a, 1)\n"
)
LINKS = UNTIL + "\n    os.symlink('x', sys.argv[4] + '/x'); os.unlink(sys.argv[4] + '/x')\n"
SLEEPS = UNTIL + "time.sleep(1e-6)\n"
SEND = "a, b = os.open(sys.executable, 0), os.open('/dev/null', 1)\n" + UNTIL + "os.sendfile(b, a, 0, 1 << 14)\n"
YIELD = UNTIL + "os.sched_yield()\n"
UNMAP = UNTIL + "mmap.mmap(-1, 1 << 16).close()\n"
DECIMALS = "import decimal\n" + UNTIL + "decimal.Decimal(2).sqrt(decimal.Context(2000))\n"
XATTR = UNTIL + "os.listxattr(sys.executable)\n"
NAMES = UNTIL + "os.listdir('/usr/share/doc')\n"
EVENTS = "a = os.eventfd(0)\n" + UNTIL + "\n    os.eventfd_write(a, 1); os.eventfd_read(a)\n"
NOISE = (
    "os.sched_setaffinity(0, {CORE}); os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))\n"
    + UNTIL
    + "os.urandom(1 << 22)\n"
)
OTHER_NEIGHBOUR = """
import os, random, subprocess, time, zlib
while True:
    if random.random() < 0.3: subprocess.run(["find", "/usr/share/doc", "-name", "*.gz"], stdout=subprocess.DEVNULL)
    end = time.monotonic() + random.uniform(0.05, 0.8)
    while time.monotonic() < end: zlib.compress(os.urandom(20000) + bytes(20000))
    time.sleep(random.uniform(0.05, 0.6))
"""

THIRD_NEIGHBOUR = """
import json, os, random, tempfile, time
kept = tempfile.TemporaryFile()
while True:
    end = time.monotonic() + random.uniform(0.1, 2.0)
    while time.monotonic() < end:
        kept.seek(0); kept.write(json.dumps(list(range(3000))).encode()); kept.flush()
        if random.random() < 0.01: os.fsync(kept.fileno())
    time.sleep(random.uniform(0.1, 1.5))
"""

JOBS = """
import os, random, subprocess, time
jobs = [(30, "tar cf - /usr/share/doc | cat"), (37, "find /usr -newer /etc/hostname"),
        (23, "while :; do /bin/true; done"), (41, "gzip -c /bin/bash /usr/bin/perl"),
        (53, "cd /dev/shm; while :; do mkdir x$$; mv x$$ y$$; rmdir y$$; done"),
        (47, "while :; do : > /dev/null; done")]
due = [(random.uniform(0, every), every, job) for every, job in jobs]
begun = time.monotonic()
while True:
    at, every, job = due.pop(due.index(min(due)))
    time.sleep(max(0.0, begun + at - time.monotonic()))
    subprocess.run(["timeout", "2.5", "sh", "-c", job], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    due.append((at + every * random.uniform(0.95, 1.05), every, job))
"""  # fmt: skip


FIFTH_NEIGHBOUR = """
import gzip, os, random, sqlite3, tempfile, time
kept = sqlite3.connect(tempfile.NamedTemporaryFile().name)
kept.execute("create table told (at real, what text)")
while True:
    end = time.monotonic() + random.uniform(0.1, 1.2)
    while time.monotonic() < end:
        kept.executemany("insert into told values (?, ?)", [(time.time(), "x" * 50)] * 200); kept.commit()
        gzip.compress(str(kept.execute("select count(*), max(at) from told").fetchone()).encode() * 500)
        for name in os.listdir("/etc"): os.path.exists("/etc/" + name)
    kept.execute("delete from told")
    time.sleep(random.uniform(0.1, 1.0))
"""
_CALLS = "libc = ctypes.CDLL(None)\n"
MINCORE = (
    _CALLS + "room = mmap.mmap(-1, 16 << 20); told = ctypes.create_string_buffer(4096)\n"
    "at = ctypes.addressof(ctypes.c_char.from_buffer(room))\n"
    + UNTIL
    + "libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(16 << 20), told)\n"
)
ATTACH = (
    _CALLS
    + "libc.shmat.restype = ctypes.c_void_p\nkept = libc.shmget(0, 1 << 20, 0o1600)\n"
    + UNTIL
    + "libc.shmdt(ctypes.c_void_p(libc.shmat(kept, None, 0)))\nlibc.shmctl(kept, 0, None)\n"
)
MESSAGES = (
    _CALLS
    + "kept = libc.msgget(0, 0o1600); told = ctypes.create_string_buffer(b'\\1' + bytes(4000))\n"
    + UNTIL
    + "\n    libc.msgsnd(kept, told, 3000, 0); libc.msgrcv(kept, told, 3000, 0, 0)\nlibc.msgctl(kept, 0, None)\n"
)
PEEK = (
    _CALLS + "room = ctypes.create_string_buffer(1 << 20); into = ctypes.create_string_buffer(1 << 20)\n"
    "pair = lambda one: (ctypes.c_size_t * 2)(ctypes.addressof(one), 1 << 20)\na, b = pair(into), pair(room)\n"
    + UNTIL
    + "libc.process_vm_readv(os.getpid(), a, 1, b, 1, 0)\n"
)
WHERE = UNTIL + "os.getcwd()\n"
SPACE = UNTIL + "os.statvfs('/proc')\n"
ENVIRON = UNTIL + "open('/proc/self/environ').read()\n"
MOUNTS = UNTIL + "open('/proc/self/mountinfo').read()\n"
SQUEEZE = "import lzma\n" + UNTIL + "lzma.compress(bytes(range(256)) * 40, preset=1)\n"
POPULATE = (
    "os.sched_setaffinity(0, {CORE}); os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))\n"
    "how = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE\n"
    + UNTIL
    + "mmap.mmap(-1, 32 << 20, flags=how).close()\n"
)


class Plant(NamedTuple):
    what: str
    work: str
    question: Question


class Ten(NamedTuple):
    plants: list[Plant]
    neighbour: str
    lengths: tuple[float, float]
    """Seconds, from and to."""
    segment: float
    rate: int


def first(group: str) -> Ten:
    plants = [
        Plant("forks", FORK, Question(function="*copy_process*", process="plant-forks")),
        Plant("random numbers", RANDOM, Question(function="*random*")),
        Plant("page faults", FAULT, Question(cause="page faults", process="plant-page*")),
        Plant("user code", SPIN, Question(process="plant-user*")),
        Plant("a pipe", PIPE, Question(function="*pipe_write", process="plant-a pipe")),
        Plant("packets on loopback", UDP, Question(cause="network")),
        Plant("listing /proc", LIST, Question(function="proc_pid_readdir")),
        Plant("cgroups made and removed", CHURN, Question(cause="cgroup life")),
        Plant("work in a cgroup", ENTER + SPIN, Question(cgroup=f"*{os.path.basename(group)}*")),
        Plant("a core held", HOLD.replace("CORE", "0"), Question(core="0")),
    ]
    return Ten(plants, NEIGHBOUR, (3.0, 3.0), 6.0, 49)


def second(group: str) -> Ten:
    last = max(os.sched_getaffinity(0))
    plants = [
        Plant("programs started", EXECUTE, Question(function="*execve*", process="plant-programs*")),
        Plant("memory in files", SHARED, Question(function="shmem_*")),
        Plant("unix sockets", UNIX, Question(function="unix_*")),
        Plant("signals", SIGNALS, Question(function="kill_something_info")),
        Plant("protections", PROTECT, Question(function="*mprotect*")),
        Plant("threads that wait", THREADS, Question(function="*futex*")),
        Plant("digests", DIGEST, Question(process="plant-digests")),
        Plant("maps read", GATHER, Question(function="*smap*")),
        Plant("polls in a cgroup", ENTER + POLLS, Question(cgroup=f"*{os.path.basename(group)}*")),
        Plant("the last core held", HOLD.replace("CORE", str(last)), Question(core=str(last))),
    ]
    return Ten(plants, OTHER_NEIGHBOUR, (1.5, 5.0), 8.0, 99)


def third(group: str) -> Ten:
    plants = [
        Plant("links", LINKS, Question(function="*symlink*")),
        Plant("sleeps", SLEEPS, Question(function="*nanosleep*", process="plant-sleeps")),
        Plant("files sent", SEND, Question(function="*splice*")),
        Plant("yields", YIELD, Question(function="*sched_yield*")),
        Plant("unmapped", UNMAP, Question(function="*munmap*", process="plant-unmapped")),
        Plant("decimals", DECIMALS, Question(process="plant-decimals")),
        Plant("attributes", XATTR, Question(function="*listxattr*")),
        Plant(
            "names in a cgroup", ENTER + NAMES, Question(cgroup=f"*{os.path.basename(group)}*", function="*getdents*")
        ),
        Plant("events", EVENTS, Question(function="eventfd_*")),
        Plant("a core held by noise", NOISE.replace("CORE", "0"), Question(core="0")),
    ]
    return Ten(plants, THIRD_NEIGHBOUR, (1.0, 4.0), 10.0, 49)


def fourth(group: str) -> Ten:
    """Beside jobs that come back and do some of the same."""
    works = {each.what: each for each in MORE}
    plants = [Plant(name, works[name].work, works[name].question) for name in _FOURTH]
    inside = works["json"]
    plants.append(Plant("json in a cgroup", ENTER + inside.work, Question(cgroup=f"*{os.path.basename(group)}*")))
    plants.append(Plant("core 1 held", HOLD.replace("CORE", str(max(os.sched_getaffinity(0)))), _LAST_CORE))
    return Ten(plants, JOBS, (1.0, 8.0), 10.0, 49)


def fifth(group: str) -> Ten:
    plants = [
        Plant("resident pages", MINCORE, Question(function="*mincore*")),
        Plant("segments attached", ATTACH, Question(function="*shmat*")),
        Plant("messages", MESSAGES, Question(function="*msgsnd*", process="plant-messages")),
        Plant("peeks", PEEK, Question(function="process_vm_*")),
        Plant("where am I", WHERE, Question(function="*getcwd*")),
        Plant("space", SPACE, Question(function="*statfs*", process="plant-space")),
        Plant("environments", ENVIRON, Question(function="environ_read")),
        Plant("mounts", MOUNTS, Question(function="show_mountinfo")),
        Plant("squeezed in a cgroup", ENTER + SQUEEZE, Question(cgroup=f"*{os.path.basename(group)}*")),
        Plant("core 0 populates", POPULATE.replace("CORE", "0"), Question(core="0")),
    ]
    return Ten(plants, FIFTH_NEIGHBOUR, (1.5, 6.0), 8.0, 49)


_LAST_CORE = Question(core=str(max(os.sched_getaffinity(0))))
_FOURTH = ("renames", "terminals", "tcp data", "truncated", "folders", "pages out", "selects", "patterns")
SETS = {"first": first, "second": second, "third": third, "fourth": fourth, "fifth": fifth}
