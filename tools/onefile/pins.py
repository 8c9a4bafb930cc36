# SPDX-License-Identifier: Apache-2.0
"""Every source that goes into the one file, with its version, its licence and the hash of what is downloaded."""

from __future__ import annotations

from typing import NamedTuple

PYTHON = "3.13.5"
ZIG = "0.15.2"
DATE = "1763251200"
"""SOURCE_DATE_EPOCH of every tool that would otherwise write down when it ran."""


class Source(NamedTuple):
    """A source package of Debian: its folder below pool/main, its upstream archive, where its licence is told."""

    name: str
    version: str
    folder: str
    file: str
    sha256: str
    licence: str
    text: str
    """The file of the archive that holds the licence."""

    @property
    def path(self) -> str:
        return f"pool/main/{self.folder}/{self.file}"


class Wheel(NamedTuple):
    """A distribution of PyPI."""

    name: str
    version: str
    hashes: tuple[str, ...]
    licence: str
    python: str = ""
    """Of a distribution that has no wheel for every Python: the one whose wheel is taken, wherever it is built. Only its Python
    files are packed."""


SOURCES = (
    Source(
        "python3.13",
        PYTHON,
        "p/python3.13",
        "python3.13_3.13.5.orig.tar.xz",
        "93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640",
        "PSF-2.0",
        "LICENSE",
    ),
    Source(
        "zlib",
        "1.3.1",
        "z/zlib",
        "zlib_1.3.dfsg+really1.3.1.orig.tar.gz",
        "60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb",
        "Zlib",
        "LICENSE",
    ),
    Source(
        "bzip2",
        "1.0.8",
        "b/bzip2",
        "bzip2_1.0.8.orig.tar.gz",
        "ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
        "bzip2-1.0.6",
        "LICENSE",
    ),
    Source(
        "xz-utils",
        "5.8.1",
        "x/xz-utils",
        "xz-utils_5.8.1.orig.tar.xz",
        "0b54f79df85912504de0b14aec7971e3f964491af1812d83447005807513cd9e",
        "0BSD",
        "COPYING",
    ),
    Source(
        "libffi",
        "3.4.4",
        "libf/libffi",
        "libffi_3.4.4.orig.tar.gz",
        "d66c56ad259a82cf2a9dfc408b32bf5da52371500b84745f7fb8b645712df676",
        "MIT",
        "LICENSE",
    ),
    Source(
        "sqlite3",
        "3.46.1",
        "s/sqlite3",
        "sqlite3_3.46.1.orig.tar.xz",
        "d0cdd2ece271b29e7ce18095745d892517ee26d0f270065b3a25c2e9eb11639c",
        "blessing",
        "LICENSE.md",
    ),
    Source(
        "libzstd",
        "1.5.7",
        "libz/libzstd",
        "libzstd_1.5.7+dfsg.orig.tar.xz",
        "0c092ef267edce57ba7f3f2645c861f72eaf5e76273c6c3632869423464b90a5",
        "BSD-3-Clause",
        "LICENSE",
    ),
    Source(
        "openssl",
        "3.0.20",
        "o/openssl",
        "openssl_3.0.20.orig.tar.gz",
        "c80a01dfc70ece4dc21168932c37739042d404d46ccc81a5986dd75314ecda6f",
        "Apache-2.0",
        "LICENSE.txt",
    ),
)
COMPILER = Wheel(
    "ziglang",
    ZIG,
    (
        "806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130",  # x86_64
        "edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230",  # aarch64
    ),
    "MIT",
)
WHEELS = (
    Wheel("click", "8.5.1", ("8bb5376d2006950386f8c6427613334a2acadc5f559cb80e638d00b4df957e37",), "BSD-3-Clause"),
    Wheel("h11", "0.16.0", ("63cf8bbe7522de3bf65932fda1d9c2772064ffb3dae62d55932da54b31cb6c86",), "MIT"),
    Wheel(
        "prometheus-client",
        "0.26.0",
        ("fa93d06737aa02bacd05794768508bb97d2fbee28cb3bca04eaae92f0ca953d6",),
        "Apache-2.0 AND BSD-2-Clause",
    ),
    Wheel("pyyaml", "6.0.3", ("0f29edc409a6392443abf94b9cf89ce99889a1dd5376d94316ae5145dfedd5d6",), "MIT", "3.13"),
    Wheel("rich", "15.0.0", ("33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb",), "MIT"),
)
