# SPDX-License-Identifier: Apache-2.0
"""CPython as a static library, every module of it inside; and the program that is linked from it: core/main.c."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tools.onefile.pins import PYTHON
from tools.onefile.steps import HERE, Cache, Made, run
from tools.onefile.toolchain import Toolchain, jobs, native

SHORT = PYTHON.rpartition(".")[0]
LEFT_OUT = (
    "_hashlib _tkinter _curses _curses_panel readline _dbm _gdbm _uuid nis _crypt pyexpat _elementtree _codecs_cn _codecs_hk "
    "_codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _multibytecodec _interpreters _interpchannels _interpqueues _lsprof "
    "_multiprocessing _posixshmem _asyncio _zoneinfo"
).split()
_CONFIGURE = (
    "--prefix=/zombiescope --disable-shared --without-ensurepip --disable-test-modules --without-readline --with-pkg-config=no "
    "MODULE_BUILDTYPE=static"
).split()
_CROSS = "ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no".split()
_LIBRARIES = (("ZLIB", "z"), ("BZIP2", "bz2"), ("LIBLZMA", "lzma"), ("LIBFFI", "ffi"), ("LIBSQLITE3", "sqlite3"))


def make_python(
    cache: Cache, tools: Toolchain, source: Made, libraries: Made, openssl: Made, build_python: Made | None
) -> Made:
    """`source` and `build` side by side: configure is called by a relative path, so that none of this machine gets in."""

    def make(folder: Path) -> None:
        shutil.copytree(source.folder, folder / "source", copy_function=os.link)
        _fix_build_date(folder / "source" / "Modules" / "getbuildinfo.c")
        build, scratch = folder / "build", folder / "bin"
        build.mkdir()
        words = ["../source/configure", *_CONFIGURE, *(f"py_cv_module_{name}=n/a" for name in LEFT_OUT)]
        words += _tools(tools, tools.wrappers(scratch), folder) + _libraries(libraries.folder)
        words += [f"--with-openssl={openssl.folder}", "--with-openssl-rpath=no"]
        if build_python:
            native_python = build_python.folder / "build" / "python"
            words += [f"--host={tools.host}", f"--build={native()}-linux-gnu", f"--with-build-python={native_python}"]
            words += _CROSS
        run(words, build, tools.environment)
        run(["make", jobs(), "python"], build, tools.environment)
        for leftover in build.rglob("*.o"):
            leftover.unlink()
        shutil.rmtree(scratch)

    inputs = [tools.key, source.key, libraries.key, openssl.key, build_python.key if build_python else ""]
    return cache.step(f"python-{tools.architecture}", ["interpreter.py", "toolchain.py"], inputs, make)


def _fix_build_date(file: Path) -> None:
    """zig refuses __DATE__, rightly. The file is a link to a kept one: written anew, not changed."""
    text = file.read_text(encoding="utf-8")
    text = text.replace("#define DATE __DATE__", '#define DATE "Jan  1 1980"')
    text = text.replace("#define TIME __TIME__", '#define TIME "00:00:00"')
    assert "__DATE__" not in text.replace("#ifdef __DATE__", "")
    file.unlink()
    file.write_text(text, encoding="utf-8")


def _tools(tools: Toolchain, wrappers: Path, folder: Path) -> list[str]:
    named = [f"{word}={wrappers / tool}" for word, tool in (("CC", "cc"), ("AR", "ar"), ("RANLIB", "ranlib"))]
    return [*named, f"CFLAGS={tools.flags(folder)}", "LDFLAGS=-static"]


def _libraries(folder: Path) -> list[str]:
    found = []
    for word, name in _LIBRARIES:
        found += [f"{word}_CFLAGS=-I{folder}/include", f"{word}_LIBS=-L{folder}/lib -l{name}"]
    return found


def make_core(cache: Cache, tools: Toolchain, python: Made, libraries: Made, openssl: Made) -> Made:
    """The interpreter without a program: `core`, to which a tail is appended."""

    def make(folder: Path) -> None:
        build, source = python.folder / "build", python.folder / "source"
        shutil.copytree(HERE / "core", folder / "c")
        compiler = tools.wrappers(folder / "bin") / "cc"
        parts = [build / f"libpython{SHORT}.a"]
        for inner in ("Modules/_hacl", "Modules/_decimal/libmpdec"):
            parts += sorted((build / inner).glob("*.a"))
        words: list[str | Path] = [compiler, "-static", "-O2", "-s", "-Wall", "-Wextra", "-Werror"]
        words += [*tools.flags(folder).split(), "-Wl,--gc-sections", "-o", "core", "c/main.c", "c/dl_static.c", *parts]
        includes = (source / "Include", build, libraries.folder / "include")
        words += [f"-isystem{place}" for place in includes]
        words += [f"-L{made.folder / 'lib'}" for made in (libraries, openssl)]
        words += [f"-l{name}" for name in ("ssl", "crypto", "zstd", "z", "bz2", "lzma", "ffi", "sqlite3", "m")]
        run(words, folder, tools.environment)
        for leftover in ("bin", "c"):
            shutil.rmtree(folder / leftover)

    recipe = ["interpreter.py", "toolchain.py", "core/main.c", "core/dl_static.c"]
    return cache.step(f"core-{tools.architecture}", recipe, [tools.key, python.key, libraries.key, openssl.key], make)
