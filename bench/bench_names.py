# SPDX-License-Identifier: Apache-2.0
"""Names of C++ and Rust out of binaries: as binutils' c++filt writes them, and by us; how many are the same, and processor time.

python bench/bench_names.py [FILE ...]       without files, the C++ library that is installed
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

from zombiescope.profiler.perf.frames import plain_name

_SHOWN = 5


def main(files: list[str]) -> int:
    names = symbols_of(files or [str(next(Path("/usr/lib").glob("*/libstdc++.so.6")))])
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    said = subprocess.run(["c++filt", "-i"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent
    begun = time.process_time()
    ours = [plain_name(name) for name in names]
    own = time.process_time() - begun
    rows = list(zip(names, said.splitlines(), ours, strict=True))
    differ = [row for row in rows if row[1] != row[2]]
    left = [row for row in differ if row[2] == row[0]]
    only_ours = [row for row in differ if row[1] == row[0]]
    print(f"{len(names):,} names: {len(rows) - len(differ):,} the same as c++filt's, {len(left):,} left mangled by us")
    print(f"{len(only_ours):,} left mangled by c++filt, {len(differ) - len(left) - len(only_ours):,} written otherwise")
    print(f"ours {own:.2f} s of CPU, c++filt {spent:.2f} s, ratio {own / max(spent, 0.01):.1f}")
    for mangled, theirs, mine in sorted(differ, key=lambda row: len(row[0]))[:_SHOWN]:
        print(f"  {mangled}\n    c++filt: {theirs}\n    ours:    {mine}")
    return 0


def symbols_of(files: list[str]) -> list[str]:
    found: set[str] = set()
    for file in files:
        for flags in (["-D"], []):
            listed = subprocess.run(["nm", *flags, file], capture_output=True, text=True, check=False).stdout
            found |= {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line}
    return sorted(name for name in found if name.startswith(("_Z", "_R")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
