# SPDX-License-Identifier: Apache-2.0
"""TLS of today, as a client that asks an API server or a metrics server needs it: OpenSSL without what nobody should use."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.onefile.steps import Cache, Made, run
from tools.onefile.toolchain import Toolchain, jobs

_WITHOUT = (
    "shared tests engine dso module async comp cms ts ct srp psk dtls sctp ocb idea camellia seed aria bf cast des rc2 rc4 md4 "
    "mdc2 rmd160 whirlpool sm2 sm3 sm4 siphash scrypt gost ssl3 tls1 tls1_1 ui-console ec2m dsa cmp rfc3779 legacy autoload-config "
    "nextprotoneg"
).split()
_FLAGS = "-fPIC -Os -ffunction-sections -fdata-sections"


def make_openssl(cache: Cache, tools: Toolchain, source: Made) -> Made:
    """`cc` is found by its bare name and adds the flags that name a folder: OpenSSL writes both into what it builds."""

    def make(folder: Path) -> None:
        tree = folder / "tree"
        shutil.copytree(source.folder, tree)
        wrappers = tools.wrappers(folder / "bin")
        compiler = wrappers / "cc"
        compiler.write_text(compiler.read_text(encoding="utf-8").replace('"$@"', f'{tools.flags(folder)} "$@"'))
        environment = {**tools.environment, "PATH": f"{wrappers}:/usr/bin:/bin", "CC": "cc", "AR": "ar"}
        places = ["--prefix=/zombiescope", "--openssldir=/etc/ssl"]
        words = ["./Configure", f"linux-{tools.architecture}", *(f"no-{name}" for name in _WITHOUT), *places]
        run([*words, *_FLAGS.split()], tree, {**environment, "RANLIB": "ranlib"})
        run(["make", jobs(), "build_generated", "libcrypto.a", "libssl.a"], tree, environment)
        (folder / "lib").mkdir()
        for archive in ("libcrypto.a", "libssl.a"):
            shutil.move(tree / archive, folder / "lib")
        shutil.copytree(tree / "include" / "openssl", folder / "include" / "openssl")
        for leftover in ("tree", "bin"):
            shutil.rmtree(folder / leftover)

    return cache.step(
        f"openssl-{tools.architecture}", ["openssl.py", "toolchain.py"], [tools.key, source.key, *_WITHOUT], make
    )
