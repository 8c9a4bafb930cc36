# SPDX-License-Identifier: Apache-2.0
"""The libraries that the interpreter takes, as static archives: zlib, bzip2, lzma, ffi, SQLite, and zstd's decoder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.onefile.sqlite import make_sqlite
from tools.onefile.steps import Cache, Made, run
from tools.onefile.toolchain import Toolchain, jobs

_ZLIB = "adler32 crc32 deflate inffast inflate inftrees trees zutil compress uncompr".split()
_BZIP2 = "blocksort huffman crctable randtable compress decompress bzlib".split()
_ZSTD = "debug entropy_common error_private fse_decompress xxhash zstd_common".split()
_SQLITE_FLAGS = (
    "-DSQLITE_THREADSAFE=1 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_DQS=0 -DSQLITE_USE_URI=0 -DHAVE_USLEEP=1 "
    "-DSQLITE_OMIT_DEPRECATED -DSQLITE_DEFAULT_MEMSTATUS=0"
)
_XZ_FLAGS = (
    "--disable-shared --enable-static --disable-xz --disable-xzdec --disable-lzmadec --disable-lzmainfo "
    "--disable-lzma-links --disable-scripts --disable-doc --disable-nls --enable-threads=no"
).split()
_FFI_FLAGS = (
    "--disable-shared --enable-static --disable-docs --disable-multi-os-directory --disable-exec-static-tramp"
).split()


class _Libraries:
    def __init__(self, tools: Toolchain, sources: dict[str, Made], folder: Path) -> None:
        self._tools, self._folder = tools, folder
        self._sources = {name: made.folder for name, made in sources.items()}
        self._scratch = folder / "scratch"
        self._bin = tools.wrappers(self._scratch / "bin")
        for name in ("include", "lib"):
            (folder / name).mkdir()

    def make(self) -> None:
        self._zlib()
        self._bzip2()
        self._zstd()
        self._sqlite()
        self._configured("xz-utils", _XZ_FLAGS, ["-C", "src/liblzma"])
        self._configured("libffi", _FFI_FLAGS, [])
        shutil.rmtree(self._scratch)
        for leftover in ("share", "lib/pkgconfig"):
            shutil.rmtree(self._folder / leftover, ignore_errors=True)
        for archive in (self._folder / "lib").glob("*.la"):
            archive.unlink()

    def _zlib(self) -> None:
        at = self._sources["zlib"]
        self._archive("libz.a", "-DHAVE_UNISTD_H -D_LARGEFILE64_SOURCE=1", (at / f"{name}.c" for name in _ZLIB))
        self._headers(at / "zlib.h", at / "zconf.h")

    def _bzip2(self) -> None:
        at = self._sources["bzip2"]
        self._archive("libbz2.a", "-D_FILE_OFFSET_BITS=64", (at / f"{name}.c" for name in _BZIP2))
        self._headers(at / "bzlib.h")

    def _zstd(self) -> None:
        at = self._sources["libzstd"] / "lib"
        files = [at / "common" / f"{name}.c" for name in _ZSTD] + sorted((at / "decompress").glob("*.c"))
        self._archive("libzstd.a", "-DXXH_NAMESPACE=ZSTD_ -DZSTD_DISABLE_ASM -DDEBUGLEVEL=0", files)
        self._headers(at / "zstd.h", at / "zstd_errors.h")

    def _sqlite(self) -> None:
        at = self._sources["sqlite3"]
        self._archive("libsqlite3.a", _SQLITE_FLAGS, [at / "sqlite3.c"])
        self._headers(at / "sqlite3.h")

    def _archive(self, name: str, flags: str, files: Iterable[Path]) -> None:
        objects = self._scratch / name
        objects.mkdir()

        def compile_one(file: Path) -> Path:
            target = objects / f"{file.stem}.o"
            prefixes = f"-ffile-prefix-map={file.parent}=."
            words: list[str | Path] = [self._bin / "cc", "-O2", "-fPIC", "-g0", prefixes, *flags.split()]
            words += ["-c", file, "-o", target]
            run(words, file.parent, self._tools.environment)
            return target

        with ThreadPoolExecutor(int(jobs()[2:])) as pool:
            compiled = list(pool.map(compile_one, files))
        self._pack(name, compiled)

    def _pack(self, name: str, objects: list[Path]) -> None:
        run([self._bin / "ar", "rcD", self._folder / "lib" / name, *objects], self._folder, self._tools.environment)

    def _headers(self, *headers: Path) -> None:
        for header in headers:
            shutil.copy(header, self._folder / "include")

    def _configured(self, name: str, flags: list[str], make: list[str]) -> None:
        at = self._scratch / name
        shutil.copytree(self._sources[name], at)
        tools = [f"{word}={self._bin / tool}" for word, tool in (("CC", "cc"), ("AR", "ar"), ("RANLIB", "ranlib"))]
        optimised = f"CFLAGS=-O2 -fPIC {self._tools.flags(at)}"
        place = [f"--host={self._tools.host}", f"--prefix={self._folder}", f"--libdir={self._folder / 'lib'}"]
        run(["./configure", *place, *flags, *tools, optimised], at, self._tools.environment)
        run(["make", jobs(), *make, "install"], at, self._tools.environment)


def make_libraries(cache: Cache, tools: Toolchain, sources: dict[str, Made]) -> Made:
    sources = {**sources, "sqlite3": make_sqlite(cache, tools, sources["sqlite3"])}
    names = ("zlib", "bzip2", "xz-utils", "libffi", "sqlite3", "libzstd")
    inputs = [tools.key, *(sources[name].key for name in names)]
    return cache.step(
        f"libraries-{tools.architecture}",
        ["libraries.py", "toolchain.py"],
        inputs,
        lambda folder: _Libraries(tools, sources, folder).make(),
    )
