# SPDX-License-Identifier: Apache-2.0
"""More kinds of work for a process that is planted (`planting.py` has the loop's first lines and the first thirty), each with the
question that somebody who looks for it would ask."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.profiler.stacks.searching import Question

_UNTIL = "while time.monotonic() < over: "
_LOOP = _UNTIL + "\n    "
_LIBC = "libc = ctypes.CDLL(None)\n"
_AT = "where = sys.argv[4] + '/' + sys.argv[1].replace(' ', '-')\n"
_FILE = _AT + "open(where, 'wb').write(bytes(1 << 16))\n"
_GONE = "\nos.unlink(where)"


class Work(NamedTuple):
    what: str
    work: str
    question: Question
    """Without the process: that is asked for by its name in some of the plants."""


def _of(function: str = "", cause: str = "", process: str = "") -> Question:
    return Question(function=function, cause=cause, process=process)


MORE = (
    Work("hard links", _FILE + _LOOP + "os.link(where, where + '.2'); os.unlink(where + '.2')" + _GONE, _of("*linkat*")),
    Work("renames", _FILE + _LOOP + "os.rename(where, where + '.2'); os.rename(where + '.2', where)" + _GONE, _of("*rename*")),
    Work("looks at files", _UNTIL + "os.stat('/usr/bin/env')", _of("vfs_statx*", process="plant-looks*")),
    Work("file locks", "import fcntl\n" + _FILE + "f = open(where)\n" + _LOOP + "fcntl.flock(f, 2); fcntl.flock(f, 8)" + _GONE,
         _of("*flock*")),
    Work("inotify", _LIBC + _AT + "f = libc.inotify_init()\n" + _LOOP + "w = libc.inotify_add_watch(f, b'/tmp', 2)\n"
         "    libc.inotify_rm_watch(f, w)", _of("*inotify*")),
    Work("terminals", "a, b = os.openpty()\n" + _LOOP + "os.write(b, b'x' * 200); os.read(a, 4096)", _of("*tty_write*")),
    Work("madvise", _LIBC + "m = mmap.mmap(-1, 1 << 20)\nat = ctypes.addressof(ctypes.c_char.from_buffer(m))\n" + _LOOP
         + "m[0] = 1; libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(1 << 20), 4)", _of("*madvise*")),
    Work("mremap", "m = mmap.mmap(-1, 1 << 20)\n" + _LOOP + "m.resize(2 << 20); m.resize(1 << 20)", _of("*mremap*")),
    Work("fallocate", "f = os.memfd_create('x')\n" + _LOOP + "os.posix_fallocate(f, 0, 1 << 20); os.ftruncate(f, 0)",
         _of("shmem_fallocate")),
    Work("tcp connections", "l = socket.create_server(('127.0.0.1', 0))\n" + _LOOP
         + "c = socket.create_connection(l.getsockname()); d, _ = l.accept(); c.close(); d.close()", _of("tcp_v4_connect")),
    Work("tcp data", "l = socket.create_server(('127.0.0.1', 0))\nc = socket.create_connection(l.getsockname())\n"
         "d, _ = l.accept()\n" + _LOOP + "c.send(bytes(20000)); d.recv(40000)", _of("tcp_sendmsg*")),
    Work("netlink", "s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\n" + _LOOP
         + "s.send(b'\\x14\\0\\0\\0\\x12\\0\\x01\\x03' + bytes(12)); s.recv(65536); s.recv(65536)", _of("*rtnl_dump*")),
    Work("statistics of all cores", _UNTIL + "open('/proc/stat').read()", _of("show_stat")),
    Work("meminfo", _UNTIL + "open('/proc/meminfo').read()", _of("meminfo_proc_show")),
    Work("sockets listed", _UNTIL + "open('/proc/net/unix').read()", _of("unix_get_*")),
    Work("interrupts listed", _UNTIL + "open('/proc/interrupts').read()", _of("show_interrupts")),
    Work("symbols listed", _UNTIL + "open('/proc/kallsyms').read(1 << 16)", _of("s_show")),
    Work("sysfs", _UNTIL + "open('/sys/kernel/mm/transparent_hugepage/enabled').read()", _of("kernfs_*", process="plant-sysfs")),
    Work("synced files", _FILE + "f = open(where, 'r+b', 0)\n" + _LOOP + "f.seek(0); f.write(b'y' * 4096); os.fdatasync(f.fileno())"
         + _GONE, _of("*fdatasync*")),
    Work("copies in files", _FILE + "f = os.open(where, 2)\n" + _LOOP + "os.copy_file_range(f, f, 1 << 13, 0, 1 << 14)" + _GONE,
         _of("*copy_file_range*")),
    Work("duplicates", _UNTIL + "os.close(os.dup(0))", _of("*dup*", process="plant-dupl*")),
    Work("attributes set", _FILE + _LOOP + "os.setxattr(where, 'user.x', b'1')" + _GONE, _of("*setxattr*")),
    Work("folders", _AT + _LOOP + "os.mkdir(where); os.rmdir(where)", _of("*mkdir*")),
    Work("modes of files", _FILE + _LOOP + "os.chmod(where, 0o600)" + _GONE, _of("*chmod*")),
    Work("owners of files", _FILE + _LOOP + "os.chown(where, 0, 0)" + _GONE, _of("*chown*")),
    Work("affinity", "mine = os.sched_getaffinity(0)\n" + _UNTIL + "os.sched_setaffinity(0, mine)", _of("*setaffinity*")),
    Work("mount namespaces", _LIBC + _UNTIL + "libc.unshare(0x20000)", _of("copy_mnt_ns")),
    Work("advice on files", _FILE + "f = os.open(where, 0)\n" + _LOOP
         + "os.pread(f, 1 << 16, 0); os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)" + _GONE, _of("*fadvise*")),
    Work("pages out", _LIBC + _FILE + "f = open(where, 'r+b'); m = mmap.mmap(f.fileno(), 1 << 16)\n"
         "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n" + _LOOP
         + "sum(m[::4096]); libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(1 << 16), 21)" + _GONE, _of("reclaim_*")),
    Work("memory statistics", "import glob\nall = [p for p in glob.glob('/sys/fs/cgroup/memory*') + ['/sys/fs/cgroup']\n"
         "       if os.path.exists(p + '/memory.stat')]\n" + _LOOP + "for p in all: open(p + '/memory.stat').read()",
         _of(cause="statistics", process="plant-memory*")),
    Work("threads begun", _LOOP + "t = threading.Thread(target=int); t.start(); t.join()",
         _of("*clone3*", process="plant-threads*")),
    Work("links read", _UNTIL + "os.readlink('/proc/self/exe')", _of("*readlink*")),
    Work("truncated", _FILE + _LOOP + "os.truncate(where, 0); os.truncate(where, 1 << 16)" + _GONE, _of("*truncate*")),
    Work("pidfd", _LOOP + "os.close(os.pidfd_open(os.getpid()))", _of("*pidfd*")),
    Work("semaphores", _LIBC + "s = libc.semget(0, 1, 0o1600)\n"
         "b = (ctypes.c_short * 3)(0, 1, 0); c = (ctypes.c_short * 3)(0, -1, 0)\n"
         + _LOOP + "libc.semop(s, b, 1); libc.semop(s, c, 1)\nlibc.semctl(s, 0, 0)", _of("*semtimedop*")),
    Work("timers", _LIBC + "v = (ctypes.c_long * 4)(0, 0, 1000, 0)\n" + _LOOP + "libc.setitimer(1, v, None)", _of("*setitimer*")),
    Work("big exits", "m = mmap.mmap(-1, 64 << 20)\nfor a in range(0, 64 << 20, 4096): m[a] = 1\n" + _LOOP
         + "c = os.fork()\n    if not c: os._exit(0)\n    os.waitpid(c, 0)", _of("exit_mmap", process="plant-big*")),
    Work("selects", "import select\na = [os.pipe() for _ in range(200)]\n" + _UNTIL + "select.select([r for r, _ in a], [], [], 0)",
         _of("*do_select*")),
    Work("scattered writes", "f = os.open('/dev/null', 1)\nb = [b'x'] * 500\n" + _UNTIL + "os.writev(f, b)", _of("*writev*")),
    Work("times set", _FILE + _LOOP + "os.utime(where)" + _GONE, _of("*utimes*")),
    Work("json", "import json\n" + _UNTIL + "json.loads(json.dumps(list(range(3000))))", _of(process="plant-json")),
    Work("patterns", "import re\n" + _UNTIL + "re.findall('(a+b)+', 'aaab' * 3000)", _of(process="plant-patterns")),
    Work("bzip", "import bz2\n" + _UNTIL + "bz2.compress(bytes(range(256)) * 200)", _of(process="plant-bzip")),
    Work("sorting", "import random\n" + _UNTIL + "sorted(random.random() for _ in range(5000))", _of(process="plant-sorting")),
)  # fmt: skip
