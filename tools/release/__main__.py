# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.release [--out DIR] [--only KIND,...] [--arch NAME ...]`: makes a release, or some kinds of files of one.

The folder is made beside its place and takes it when everything is there: a release that failed leaves the one before.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.onefile.compare import compared
from tools.onefile.steps import BuildError, Cache
from tools.release import cluster, debian, papers, redhat
from tools.release.origin import ARCHITECTURES, TOP, ReleaseError, one_file, refuse_changes, run, version
from tools.release.python_dists import make_dists, make_pyz


def make_one_files(out: Path, architectures: Sequence[str]) -> list[Path]:
    """Built twice, and refused when the two differ."""
    sums = compared(architectures, out, Cache())
    if different := [name for name, (ours, twin) in sums.items() if ours != twin]:
        raise ReleaseError(f"built twice, and not the same: {', '.join(different)}")
    return [out / name for name in sums]


def make_one_files_once(out: Path, architectures: Sequence[str]) -> list[Path]:
    words = [word for name in architectures for word in ("--arch", name)]
    run([sys.executable, "-m", "tools.onefile", "--out", out, *words], TOP)
    return [one_file(out, name) for name in architectures]


def make_debs(out: Path, architectures: Sequence[str]) -> list[Path]:
    def make(name: str) -> Path:
        package = debian.make_deb(one_file(out, name), name, out)
        debian.lint(package)
        return package

    return _at_once(make, architectures)


def make_rpms(out: Path, architectures: Sequence[str]) -> list[Path]:
    return _at_once(lambda name: redhat.make_rpm(one_file(out, name), name, out), architectures)


def _at_once(make: Callable[[str], Path], architectures: Sequence[str]) -> list[Path]:
    """Each packs with one thread, so that its bytes are always the same."""
    with ThreadPoolExecutor(len(architectures)) as pool:
        return list(pool.map(make, architectures))


KINDS: dict[str, Callable[[Path, Sequence[str]], list[Path]]] = {
    "python": lambda out, _: make_dists(out),
    "pyz": lambda out, _: make_pyz(out),
    "onefile": make_one_files,
    "deb": make_debs,
    "rpm": make_rpms,
    "cluster": cluster.make_cluster_files,
}


def make_release(target: Path, kinds: Sequence[str], architectures: Sequence[str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".release-", dir=target.parent) as scratch:
        fresh = Path(scratch) / "release"
        fresh.mkdir()
        for kind in kinds:
            began, used = time.monotonic(), _cpu_seconds()
            made = KINDS[kind](fresh, architectures)
            seconds, cpu = time.monotonic() - began, _cpu_seconds() - used
            say(f"{kind}: {', '.join(path.name for path in made)} in {seconds:.0f} s, {cpu:.0f} s of CPU")
        papers.write_notes(fresh)
        papers.write_bill(fresh)
        papers.write_sums(fresh)
        for path in fresh.rglob("*"):
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)


def _cpu_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def say(line: str) -> None:
    print(f"release: {line}", file=sys.stderr, flush=True)


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    asked.add_argument("--out", type=Path, default=TOP / "dist" / "release")
    asked.add_argument("--only", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    asked.add_argument("--once", action="store_true", help="build the one file once, and compare nothing")
    asked.add_argument("--uncommitted", action="store_true", help="of the tree as it is, for a try")
    asked.add_argument("--arch", choices=ARCHITECTURES, action="append", help="default: both")
    given = asked.parse_args()
    kinds = given.only.split(",")
    if unknown := set(kinds) - KINDS.keys():
        asked.error(f"--only knows {', '.join(KINDS)}, not {', '.join(sorted(unknown))}")
    if given.once:
        KINDS["onefile"] = make_one_files_once
    began = time.monotonic()
    try:
        if not given.uncommitted:
            refuse_changes()
        make_release(given.out.absolute(), [kind for kind in KINDS if kind in kinds], given.arch or ARCHITECTURES)
    except (ReleaseError, BuildError) as error:
        sys.exit(f"release: {error}")
    count = sum(1 for path in given.out.rglob("*") if path.is_file())
    print(
        f"zombiescope {version()}: {count} files in {given.out}, {time.monotonic() - began:.0f} s, "
        f"{_cpu_seconds():.0f} s of CPU. Sign it where the key is: docs/guides/release.md"
    )


if __name__ == "__main__":
    main()
