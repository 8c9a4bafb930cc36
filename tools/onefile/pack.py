# SPDX-License-Identifier: Apache-2.0
"""Appends the tail to the interpreter: `PYTHON pack.py ORDER.json`, run by the very Python that is packed.

Every package that is given goes in whole; of the standard library, what they import (modulefinder) and what C code imports
by name. Code is stored as it is unmarshalled; sources of ours (for tracebacks) and data are compressed. Deterministic.
"""

from __future__ import annotations

import json
import marshal
import struct
import sys
import zlib
from modulefinder import ModuleFinder
from pathlib import Path
from typing import NamedTuple

MAGIC = b"ZSTAIL01"
BOOT = ("encodings", "encodings.aliases", "encodings.utf_8", "encodings.ascii", "encodings.latin_1", "_tail")
"""Imported before there is an importer: core/main.c hands them over as frozen modules."""
BY_NAME = (
    "encodings.utf_8 encodings.idna encodings.ascii encodings.latin_1 encodings.utf_8_sig encodings.utf_16 encodings.utf_16_le "
    "encodings.utf_16_be encodings.cp437 encodings.unicode_escape encodings.raw_unicode_escape encodings.hex_codec "
    "encodings.punycode stringprep importlib.resources.readers importlib.readers importlib.metadata _strptime copyreg "
    "_compat_pickle _colorize linecache ast"
).split()
"""What C code or a codec's name imports."""
LEFT_OUT = (
    "test tkinter idlelib turtle unittest pydoc pydoc_data doctest pdb ensurepip venv curses readline xmlrpc numpy textual IPython "
    "ipywidgets attr colorama _pyrepl asyncio multiprocessing concurrent ftplib cmd code codeop rlcompleter _pydecimal aiohttp "
    "tornado twisted django flask _winapi nt ctypes.macholib ctypes.wintypes sqlite3.__main__ json.tool optparse _aix_support "
    "_osx_support plistlib _pyio pygments markdown_it mdurl xml.dom xml.etree xml.parsers"
).split()
_NOT_PACKED = {".so", ".pyi", ".typed", ".c", ".h", ".pyc"}
_ALIGNED = 16


class Entry(NamedTuple):
    shown: str
    path: Path


class Tail:
    """Bytes behind the interpreter, and where in the file each of them begins."""

    def __init__(self, core: bytes) -> None:
        self.content = bytearray(core)
        self.modules: dict[str, tuple[int, int, str, bool]] = {}
        self.files: dict[str, tuple[int, int, bool]] = {}

    def add_module(self, shown: str, source: bytes, name: str | None = None) -> None:
        code = marshal.dumps(compile(source, shown, "exec", dont_inherit=True, optimize=0))
        is_package = shown.endswith("/__init__.py")
        name = name or shown.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        self.modules[name] = (self._put(code), len(code), shown, is_package)

    def add_file(self, shown: str, content: bytes) -> None:
        packed = zlib.compress(content, 9)
        is_packed = len(packed) < 0.9 * len(content)
        stored = packed if is_packed else content
        self.files[shown] = (self._put(stored), len(stored), is_packed)

    def finished(self) -> bytes:
        boots = b"".join(struct.pack("<40sQII", name.encode(), *self._boot(name)) for name in BOOT)
        index = marshal.dumps((self.modules, self.files))
        boot_at, index_at = self._put(boots), self._put(index)
        self.content += struct.pack("<QQQQ8s", boot_at, len(BOOT), index_at, len(index), MAGIC)
        return bytes(self.content)

    def _boot(self, name: str) -> tuple[int, int, int]:
        begin, size, _, is_package = self.modules[name]
        return begin, size, int(is_package)

    def _put(self, content: bytes) -> int:
        self.content += bytes(-len(self.content) % _ALIGNED)
        begin = len(self.content)
        self.content += content
        return begin


def given_entries(folders: list[Path]) -> list[Entry]:
    """All files of the packages that are handed over, but what only a compiler or a type checker reads."""
    found = []
    for top in folders:
        for path in sorted(top.rglob("*")):
            relative = path.relative_to(top)
            if not path.is_file() or path.suffix in _NOT_PACKED or "__pycache__" in relative.parts:
                continue
            if relative.parts[0].endswith(".dist-info") and relative.name != "METADATA":
                continue
            found.append(Entry(str(relative), path))
    return found


def standard_entries(stdlib: Path, folders: list[Path], entries: list[Entry]) -> list[Entry]:
    finder = ModuleFinder(path=[*map(str, folders), str(stdlib)], excludes=LEFT_OUT)
    for entry in entries:
        if entry.path.suffix == ".py":
            _follow(finder, entry.shown.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    for name in BY_NAME:
        finder.import_hook(name)
    inside = f"{stdlib}/"
    files = {str(getattr(module, "__file__", None) or "") for module in finder.modules.values()}
    return [Entry(file.removeprefix(inside), Path(file)) for file in sorted(files) if file.startswith(inside)]


def _follow(finder: ModuleFinder, name: str) -> None:
    try:
        finder.import_hook(name)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in LEFT_OUT:
            raise


def pack(order: dict[str, object]) -> bytes:
    folders = [Path(str(folder)) for folder in list(order["folders"])]  # type: ignore[call-overload]
    tail = Tail(Path(str(order["core"])).read_bytes())
    entries = given_entries(folders)
    standard = standard_entries(Path(str(order["stdlib"])), folders, entries)
    for shown, path in sorted({*entries, *standard}):
        if path.suffix == ".py":
            tail.add_module(shown, path.read_bytes())
        if path.suffix != ".py" or shown.startswith("zombiescope/"):
            tail.add_file(shown, path.read_bytes())
    tail.add_module("_tail.py", Path(str(order["tail"])).read_bytes(), "_tail")
    return tail.finished()


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(given["out"]).write_bytes(pack(given))
