# SPDX-License-Identifier: Apache-2.0
"""The compiler: `zig cc` of PyPI's ziglang, which brings musl for every architecture and needs nothing of this host."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tools.onefile.fetch import unpack_wheel
from tools.onefile.pins import COMPILER, DATE
from tools.onefile.steps import Cache, Made

_CC = """#!/bin/sh
# `--print-multiarch` would make Python look into folders of this host.
case " $* " in *" --print-multiarch "*) exit 1;; esac
exec {zig} cc -target {target} -fno-sanitize=undefined "$@"
"""
_OTHER = '#!/bin/sh\nexec {zig} {tool} "$@"\n'


def native() -> str:
    return platform.machine()


class Toolchain:
    """Compiler, archiver and their environment for one architecture; `build` names the folder that is made anew each time."""

    def __init__(self, cache: Cache, architecture: str) -> None:
        self.made = make_compiler(cache)
        self.architecture = architecture
        self.host = f"{architecture}-linux-musl"
        self.key = self.made.key + self.host
        self.zig = self.made.folder / "ziglang" / "zig"
        self.environment = {
            "ZIG_GLOBAL_CACHE_DIR": str(cache.folder / "zig-cache"),
            "ZIG_LOCAL_CACHE_DIR": str(cache.folder / "zig-cache"),
            "SOURCE_DATE_EPOCH": DATE,
        }

    def wrappers(self, folder: Path) -> Path:
        """A folder with `cc`, `ar` and `ranlib`, as configure scripts want them."""
        folder.mkdir(parents=True, exist_ok=True)
        for tool in ("cc", "ar", "ranlib"):
            text = _CC if tool == "cc" else _OTHER
            script = folder / tool
            script.write_text(text.format(zig=self.zig, target=self.host, tool=tool), encoding="utf-8")
            script.chmod(0o755)
        return folder

    @staticmethod
    def flags(folder: Path) -> str:
        """No debugging information and no path of this machine in what is compiled below `folder`."""
        return f"-g0 -ffile-prefix-map={folder}=."


def make_compiler(cache: Cache) -> Made:
    def make(folder: Path) -> None:
        unpack_wheel(COMPILER, cache.folder / "downloads", folder)
        (folder / "ziglang" / "zig").chmod(0o755)

    return cache.step("zig", ["toolchain.py"], [native(), COMPILER.version, *COMPILER.hashes], make)


def jobs() -> str:
    return f"-j{min(len(os.sched_getaffinity(0)), 8)}"
