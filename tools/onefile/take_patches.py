# SPDX-License-Identifier: Apache-2.0
"""Takes the fixes out of Debian's packages: `python -m tools.onefile.take_patches FILE.debian.tar.xz ...`.

Debian's mirrors keep the sources of a release for as long as it lives, but the fixes only until the next ones: what a
build needs of them is kept here, in patches/. Tests, documentation and Debian's own layout are left out.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

PATCHES = Path(__file__).parent / "patches"
_FIXES = re.compile(
    r"CVE-|^(Reject|Avoid|Match|Apply|Fix-(handling|possible|potential)|CMS-|cms-|conf-Serialize)|dict-use-after-free|traverse-managed-dicts|gchead-alignment|NOT_NULL-IS_NULL|lzma_index_append"
)
_NOT_BUILT = re.compile(r"^[^/]+/(Lib/test/|Lib/idlelib/|Doc/|Misc/|doc/|test/|tests/|.*\.(test|rst)$)")


def fixes(archive: Path) -> Iterator[str]:
    """One text per fix, in Debian's order, with the files that a build reads."""
    with tarfile.open(archive) as members:

        def read(name: str) -> str:
            found = members.extractfile(f"debian/patches/{name}")
            assert found is not None
            return found.read().decode(errors="replace")

        for line in read("series").splitlines():
            if line and not line.startswith("#") and _FIXES.search(line):
                yield f"# {line}\n" + "".join(_built(read(line)))


def _built(patch: str) -> Iterator[str]:
    """The parts of a patch that change what is built: from `--- a/FILE` to the next file."""
    for part in re.split(r"^(?=--- \S)", patch, flags=re.MULTILINE)[1:]:
        old, new, *hunks = part.splitlines(keepends=True)
        name = (new if "/dev/null" in old else old).split()[1]
        if new.startswith("+++ ") and not _NOT_BUILT.match(name):
            yield old.split("\t")[0].rstrip() + "\n" + new.split("\t")[0].rstrip() + "\n"
            yield from _hunks(hunks)


def _hunks(lines: list[str]) -> Iterator[str]:
    """Lines that belong to hunks, counted: what follows the last one is the next file's header or a signature."""
    old = new = 0
    for line in lines:
        if found := re.match(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@", line):
            old, new = int(found[1] or 1), int(found[2] or 1)
            yield found[0] + "\n"
        elif old > 0 or new > 0:
            old -= line[0] in " -\n"
            new -= line[0] in " +\n"
            yield line
        elif line.startswith("\\"):
            yield line


def main(archives: list[str]) -> None:
    for name in archives:
        archive = Path(name)
        source = archive.name.partition("_")[0]
        told = f"# Fixes of Debian's {archive.name}, taken by `python -m tools.onefile.take_patches`. "
        told += "Licence: that of the source.\n"
        target = PATCHES / f"{source}.patch"
        target.write_text(told + "".join(fixes(archive)), encoding="utf-8")
        print(f"{target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
