# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.onefile [--arch NAME ...] [--out DIR]`: builds, or only packs, the one file; --help has the rest."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.onefile.fetch import unpack_source
from tools.onefile.interpreter import make_core, make_python
from tools.onefile.libraries import make_libraries
from tools.onefile.openssl import make_openssl
from tools.onefile.packing import Packer
from tools.onefile.pins import SOURCES
from tools.onefile.steps import BuildError, Cache, Made
from tools.onefile.toolchain import Toolchain, native

ARCHITECTURES = ("x86_64", "aarch64")
TOP = Path(__file__).resolve().parents[2]


def make_sources(cache: Cache, mirrors: list[str]) -> dict[str, Made]:
    made = {}
    for source in SOURCES:
        patch = f"patches/{source.name}.patch"
        recipe = [patch] if (Path(__file__).parent / patch).exists() else []
        made[source.name] = cache.step(
            f"source-{source.name}",
            recipe,
            [source.sha256],
            lambda folder, source=source: unpack_source(source, mirrors, cache.folder / "downloads", folder),  # type: ignore[misc]
        )
    return made


class Build:
    """Everything below the tail, for any architecture; the interpreter of this machine is made first and packs for all."""

    def __init__(self, cache: Cache, mirrors: list[str]) -> None:
        self.cache = cache
        self.sources = make_sources(cache, mirrors)
        self._pythons: dict[str, tuple[Toolchain, Made, Made, Made]] = {}

    def python(self, architecture: str) -> tuple[Toolchain, Made, Made, Made]:
        if architecture not in self._pythons:
            runs_here = None if architecture == native() else self.python(native())[3]
            tools = Toolchain(self.cache, architecture)
            libraries = make_libraries(self.cache, tools, self.sources)
            openssl = make_openssl(self.cache, tools, self.sources["openssl"])
            python = make_python(self.cache, tools, self.sources["python3.13"], libraries, openssl, runs_here)
            self._pythons[architecture] = (tools, libraries, openssl, python)
        return self._pythons[architecture]

    def core(self, architecture: str) -> Made:
        tools, libraries, openssl, python = self.python(architecture)
        return make_core(self.cache, tools, python, libraries, openssl)


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tools.onefile", description=__doc__)
    asked.add_argument("--arch", choices=ARCHITECTURES, action="append", help="default: both")
    asked.add_argument("--out", type=Path, default=TOP / "dist")
    asked.add_argument("--cache", type=Path, help="default: ${XDG_CACHE_HOME:-~/.cache}/zombiescope/onefile")
    asked.add_argument("--cores", type=Path, help="pack the interpreters DIR/ARCH/core instead of building them")
    asked.add_argument("--mirror", action="append", default=[], help="a Debian mirror, instead of apt's")
    given = asked.parse_args()
    try:
        build = Build(Cache(given.cache), given.mirror)
        tools, _, _, python = build.python(native())
        packer = Packer(build.cache, python, build.sources, tools.made)
        for architecture in given.arch or ARCHITECTURES:
            core = Made(given.cores / architecture, "") if given.cores else build.core(architecture)
            target = packer.pack(architecture, core, given.out.absolute())
            print(f"{target}: {target.stat().st_size:,} bytes")
        build.cache.forget_unused()
    except BuildError as error:
        sys.exit(f"onefile: {error}")


if __name__ == "__main__":
    main()
