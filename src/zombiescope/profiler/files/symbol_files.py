# SPDX-License-Identifier: Apache-2.0
"""Files that name functions: binaries, separate debug files, code maps of running compilers, kallsyms. Each is opened once.

A binary counts only when its build id is the recorded one: a name from another build is worse than none. The paths come from the
capture, which may be anybody's: only regular files are opened, and a stranger's file is copied, for one that shrinks while it is
mapped would end us. A code map counts only when root, we or the process itself wrote it, as perf has it: /tmp is everybody's.
"""

import errno
import mmap
import os
import stat
from typing import IO, TYPE_CHECKING

from zombiescope.errors import reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown, unshown
from zombiescope.host.bounds import allow
from zombiescope.host.safe_open import open_regular, why_foreign
from zombiescope.profiler.perf.elf_symbols import BrokenElf, Elf, ElfSymbols, open_elf, read_symbols
from zombiescope.profiler.perf.frames import VDSO, plain_name, text_began

if TYPE_CHECKING:
    from zombiescope.profiler.perf.kernel_code import KernelSymbols
    from zombiescope.profiler.perf.symbolise import JitMap

_DEBUG_FOLDER = b"/usr/lib/debug/.build-id"
_MOST_MAP_BYTES = 256 << 20
_MOST_COPIED_BYTES = 512 << 20
"""Of memory, for what is copied from strangers in all: beyond it their code has no names, and everybody else's has."""
_LINE_BYTES = 320
"""That a line of a code map takes in memory, beyond its own bytes."""
_MOST_ELF_BYTES = 8 << 30
_FILE_HINT = "import where it was recorded, while the program runs"
_MAP_HINT = "import as the user whose process it is, while it runs"
_PIECE = 1 << 20
_MAPPED_TIMES = 2
"""A binary of this machine, and the table made of its symbols."""
RUNNING_KALLSYMS, _MODULES = b"/proc/kallsyms", b"/proc/modules"
WithDebug = tuple[Elf, Elf | None]


class SymbolFiles:
    """Opens what an import asks for; keeps it until the import is over."""

    def __init__(self, root: bytes = b"", demangle: bool = True) -> None:
        self.root, self.demangle = root, demangle
        self._elfs: dict[tuple[str, str], ElfSymbols | Gap] = {}
        self._jits: dict[int, JitMap | Gap | None] = {}
        self._left = _MOST_COPIED_BYTES

    def plain(self, name: str) -> str:
        return plain_name(name) if self.demangle else name

    def elf(self, path: str, build_id: str, pid: int) -> ElfSymbols | Gap:
        key = (path, build_id)
        if key not in self._elfs:
            found = self.open_elf(path, build_id, pid)
            try:
                self._elfs[key] = found if isinstance(found, Gap) else read_symbols(*found)
            except BrokenElf as error:
                self._elfs[key] = broken_file(error)
        return self._elfs[key]

    def open_elf(self, shown_path: str, build_id: str, pid: int) -> WithDebug | Gap:
        """The file that was mapped, and its separate debug file where it names no functions itself."""
        path = unshown(shown_path)
        if path == VDSO.encode():
            return _own_vdso(build_id)
        reason, hint = "", ""
        for place in (self.root + path, b"/proc/%d/root" % pid + path, *_kept_by_perf(build_id)):
            try:
                elf = open_elf(self._map_strangers_file(place))
                if build_id and not _same(elf, build_id):
                    reason = reason or "the file there now is of another build"
                    hint = hint or "import where it was recorded, before the program is replaced"
                    continue
                return elf, self._debug(elf)
            except OSError as error:
                reason = reason or reason_of(error)
            except BrokenElf as error:
                reason = reason or str(error)
        return Gap("frames[].name", reason, hint or _FILE_HINT)

    def _debug(self, elf: Elf) -> Elf | None:
        build_id = elf.build_id().encode()
        if b".symtab" in elf.by_name or len(build_id) < 4:
            return None
        place = self.root + _DEBUG_FOLDER + b"/%b/%b.debug" % (build_id[:2], build_id[2:])
        try:
            return open_elf(self._map_strangers_file(place))
        except (OSError, BrokenElf):
            return None

    def jit(self, pid: int) -> "JitMap | Gap | None":
        if pid not in self._jits:
            self._jits[pid] = self._open_jit(pid)
        return self._jits[pid]

    def _open_jit(self, pid: int) -> "JitMap | Gap | None":
        """None: there is none."""
        refused: Gap | None = None
        for place in (self.root + b"/tmp/perf-%d.map" % pid, b"/proc/%d/root/tmp/perf-%d.map" % (pid, pid)):
            try:
                return self._read_own_map(place, _writers(pid, is_here=not self.root))
            except FileNotFoundError:
                continue
            except OSError as error:
                refused = refused or Gap("frames[].name", f"{shown(place)} is not used: {reason_of(error)}", _MAP_HINT)
        return refused

    def _read_own_map(self, path: bytes, writers: set[int]) -> "JitMap":
        descriptor, facts = open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            why = why_foreign(facts, writers, stat.S_IWOTH)
            if why:
                raise PermissionError(errno.EPERM, why)
            self._take(2 * facts.st_size)
            text = _read_pieces(file, facts.st_size, facts.st_size)
        self._take(_LINE_BYTES * (text.count(b"\n") + 1))
        from zombiescope.profiler.perf.symbolise import read_jit_map  # noqa: PLC0415 (few processes leave one)

        return read_jit_map(text)

    def _map_strangers_file(self, path: bytes) -> memoryview:
        """A file that somebody else named: regular or refused."""
        descriptor, facts = open_regular(path, follow=True)
        with os.fdopen(descriptor, "rb") as file:
            if facts.st_size > _MOST_ELF_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
            if facts.st_uid not in (0, os.geteuid()):
                self._take(_MAPPED_TIMES * facts.st_size)
                return memoryview(_read_pieces(file, facts.st_size, facts.st_size))
            allow(_MAPPED_TIMES * facts.st_size)
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)) if facts.st_size else memoryview(b"")

    def _take(self, size: int) -> None:
        """Room for what a stranger's file makes, as long as there is any: nobody else's names are lost because it is short."""
        if size > self._left:
            raise OSError(errno.EFBIG, "files like it take too much memory")
        self._left -= size
        allow(size)


def broken_file(error: BrokenElf) -> Gap:
    return Gap("frames[].name", str(error), _FILE_HINT)


def _writers(pid: int, *, is_here: bool) -> set[int]:
    """Whose code map is believed; a process of a machine that is only mounted here is not one of ours."""
    found = {0, os.geteuid()}
    try:
        return found | {os.stat(f"/proc/{pid}").st_uid} if is_here else found
    except OSError:
        return found


def _kept_by_perf(build_id: str) -> list[bytes]:
    """perf keeps a copy of what it recorded, by build id: it may outlive the file."""
    if len(build_id) < 4 or not build_id.isalnum():
        return []
    home = os.path.expanduser(b"~")
    return [b"%b/.debug/.build-id/%b/%b/elf" % (home, build_id[:2].encode(), build_id[2:].encode())]


def _same(elf: Elf, build_id: str) -> bool:
    """perf keeps 20 bytes of a build id, padded with zeros."""
    mine = elf.build_id()
    return bool(mine) and build_id.ljust(40, "0") == mine[:40].ljust(40, "0")


def _own_vdso(release: str) -> WithDebug | Gap:
    """The kernel lays the same code into every process, ours too: good for a capture of the running kernel."""
    if release != os.uname().release:
        return Gap("frames[].name", "its code is part of another kernel", "import on the kernel that was recorded")
    try:
        for line in read_bounded(b"/proc/self/maps", _MOST_MAP_BYTES).split(b"\n"):
            if line.endswith(VDSO.encode()):
                begin, end = (int(word, 16) for word in line.split(b" ", 1)[0].split(b"-"))
                with open("/proc/self/mem", "rb", buffering=0) as memory:  # noqa: PTH123 (a kernel file)
                    memory.seek(begin)
                    return open_elf(memoryview(memory.read(end - begin))), None
    except (OSError, ValueError, BrokenElf) as error:
        return Gap("frames[].name", f"cannot read our own: {error}")
    return Gap("frames[].name", "this process has none")


def kernel_symbols(saved: bytes | None, began: int | None) -> "KernelSymbols | Gap":
    """From a saved kallsyms, or the running kernel's; only of the boot that was recorded."""
    from zombiescope.profiler.perf.kernel_code import read_kallsyms  # noqa: PLC0415 (the scanner has its own)

    path = saved or RUNNING_KALLSYMS
    text = kallsyms_text(path)
    symbols = text if isinstance(text, Gap) else read_kallsyms(text)
    return symbols if isinstance(symbols, Gap) else boot_gap(symbols.text, path, began) or symbols


class RunningKernel:
    """The running kernel's symbols, for captures that follow each other without a hole: read again where code of it came or went.
    They are megabytes of text, which the kernel writes anew for each reader."""

    def __init__(self) -> None:
        self._symbols: KernelSymbols | Gap | None = None
        self._modules = b""

    def __call__(self, began: int | None, is_same: bool) -> "KernelSymbols | Gap":
        modules, found = _modules(), self._symbols
        if found is None or isinstance(found, Gap) or not is_same or modules != self._modules:
            found = kernel_symbols(None, None)
            self._symbols, self._modules = found, modules
        return found if isinstance(found, Gap) else boot_gap(found.text, RUNNING_KALLSYMS, began) or found


def _modules() -> bytes:
    """Of a kernel that takes none there is no such file."""
    try:
        return read_bounded(_MODULES, _MOST_MAP_BYTES)
    except OSError:
        return b""


def boot_gap(text: bytes, path: bytes, began: int | None) -> Gap | None:
    """Where the recorded kernel's code began, and whether these symbols are of that boot."""
    now = text_began(text) if began is not None else None
    if now is None or now == began:
        return None
    return Gap(
        "frames[].name",
        f"{os.fsdecode(path)} is of another boot than the capture",
        "save /proc/kallsyms when recording and give it with --kallsyms",
    )


def kallsyms_text(path: bytes) -> bytes | Gap:
    try:
        return read_bounded(path, _MOST_MAP_BYTES)
    except OSError as error:
        return Gap(
            "frames[].name", f"cannot read {os.fsdecode(path)}: {reason_of(error)}", "give a saved one with --kallsyms"
        )


def map_file(path: bytes, *, may_change: bool = False) -> memoryview:
    """`may_change`: what is written there stays in this process; the file is never touched."""
    access = mmap.ACCESS_COPY if may_change else mmap.ACCESS_READ
    descriptor, facts = open_regular(path, follow=True)
    try:
        allow(facts.st_size if may_change else _MAPPED_TIMES * facts.st_size)
        return memoryview(mmap.mmap(descriptor, 0, access=access)) if facts.st_size else memoryview(b"")
    finally:
        os.close(descriptor)


def read_bounded(path: bytes, limit: int) -> bytes:
    """Of any other name than the kernel's own, a regular file: at a pipe it would wait for ever."""
    if path in (RUNNING_KALLSYMS, _MODULES, b"/proc/self/maps"):
        descriptor, size = os.open(path, os.O_RDONLY | os.O_CLOEXEC), 0
    else:
        descriptor, facts = open_regular(path, follow=True)
        size = facts.st_size
    with os.fdopen(descriptor, "rb") as file:
        return _read_pieces(file, limit, size)


def _read_pieces(file: IO[bytes], limit: int, size: int = 0) -> bytes:
    """`size`: what it has, as far as is known. One piece is not copied once more; without a size it would take the whole limit."""
    pieces, left = list[bytes](), limit
    while left and (piece := file.read(min(left, max(size, _PIECE)))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
