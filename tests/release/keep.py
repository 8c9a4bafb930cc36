# SPDX-License-Identifier: Apache-2.0
"""Keeps what this version writes, for all later ones to read: `python -m tests.release.keep`, as root, once per release.

Made by the commands themselves: an agent that folds an hour into its store and goes on, an action on an image, a capture, a
recording. `tests/upgrades/VERSION/expected.json` says what this version reads in them. `0.1.0-first` is of the sources as they
were before there were releases.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.open_ways import open_ways
from tests.release.roots import NOBODY
from tests.unit.trees import ECS_DEB, SYSTEM, TARGETS, WANTED, enabled, plant

from zombiescope import __version__
from zombiescope.history.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]
KEPT = REPOSITORY / "tests" / "upgrades"
PLACE = Path("/var/tmp/zombiescope-upgrades")
"""A journal names the image that was changed: it is put back to the same place."""
_STACKS = """\
swapper;do_idle;pv_native_safe_halt 30
job;entry_SYSCALL_64;do_syscall_64;vfs_read 7
ksoftirqd/0;net_rx_action 5
"""
_SAMPLES = 40


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "zombiescope", *words]


def told(*words: str) -> dict[str, Any]:
    done = subprocess.run(command(*words, "--json"), capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def agent(state: Path) -> Iterator[None]:
    """One that looks every second, as nobody, who learns no names of this machine; it has ended in order afterwards."""
    settings = state.parent / "agent.toml"
    settings.write_text('[agent]\nlisten = ""\ninterval_seconds = 1\nevents = "polling"\n')
    _give(state, NOBODY)
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    words += command("agent", "--state", str(state), "--config", str(settings))
    with (state.parent / "agent.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=open_ways)  # noqa: PLW1509 (one thread)
    try:
        yield
        assert process.poll() is None, f"the agent ended: {(state.parent / 'agent.log').read_text()}"
    finally:
        process.terminate()
        process.wait(60)
        _give(state, 0)


def _give(state: Path, user: int) -> None:
    for path in (state, *(found for found in state.iterdir() if found.is_file())):
        os.chown(path, user, user)


def make_history(state: Path) -> None:
    """An hour that is over, so that the agent folds it into its database, and what it then sees itself."""
    store = Store(str(state))
    began = time.time() // 3600 * 3600 - 5400
    for number in range(_SAMPLES):
        store.add_sample(began + 10 * number, "kept", {"zombies": 100.0 + number, "live": 80.0})
    store.add_happening(began, "kept", "agent-began", "for later versions")
    store.close()
    with agent(state):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (state / "history.log").read_bytes().count(b'["s"') not in range(3, 20):
            time.sleep(0.2)


def make_action(place: Path) -> None:
    """Changes an image, exactly undoable."""
    files = {**TARGETS, **enabled("ssh.service", WANTED), **enabled("ecs.service", ECS_DEB)}
    plant(place / "image", {**files, f"{SYSTEM}/kubelet.service": WANTED})
    told("apply", "--yes", "--window", "0", "--root", str(place / "image"), "--state", str(place / "state"))


def make_capture(place: Path) -> None:
    (place / "stacks.folded").write_text(_STACKS)
    told("profile", "import", str(place / "stacks.folded"), "--output", str(place / "captures"))
    (place / "stacks.folded").unlink()


def read_all(place: Path) -> dict[str, Any]:
    """What any version must read in it."""
    history = told("history", "--state", str(place / "state"), "--last", "all")
    (action,) = told("actions", "--state", str(place / "state"))["actions"]
    captures = told("profile", "list", "--captures", str(place / "captures"))["captures"]
    flame = told("profile", "flame", "latest", "--captures", str(place / "captures"))
    scan = told("scan", "--root", str(place / "recording.tar.gz"))
    return {
        "history": {
            "samples": history["samples"],
            "since": history["since"],
            "series": sorted(series["name"] for series in history["series"]),
            "events": [event["what"] for event in history["events"]],
        },
        "action": {"id": action["id"], "undo": action["undo"], "steps": [step["status"] for step in action["steps"]]},
        "captures": [{"name": each["name"], "is_damaged": each["is_damaged"]} for each in captures],
        "flame": {"samples": flame["samples"], "frames": flame["frames"]},
        "recording": {"memcg": scan["memcg"], "severity": scan["severity"]},
    }


@contextmanager
def put_back(kept: Path) -> Iterator[Path]:
    """The files of one version, where they were."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(mode=0o755)
    try:
        with tarfile.open(kept / "kept.tar.gz") as archive:
            archive.extractall(PLACE, filter="tar")
        # An archive rounds times, and undo looks at them to the nanosecond.
        for name, times in json.loads((kept / "times.json").read_text()).items():
            os.utime(PLACE / name, ns=(times, times), follow_symlinks=False)
        yield PLACE
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)


def main() -> None:
    target = KEPT / __version__
    if target.exists():
        sys.exit(f"{target} is kept already: what a version wrote does not change")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(mode=0o755)
    make_history(PLACE / "state")
    make_action(PLACE)
    make_capture(PLACE)
    shutil.copy(REPOSITORY / "tests/scenarios/recorded/loop-leaks.tar.gz", PLACE / "recording.tar.gz")
    expected = read_all(PLACE)
    with tempfile.TemporaryDirectory(dir=KEPT.parent) as scratch:
        fresh = Path(scratch) / __version__
        fresh.mkdir()
        with tarfile.open(fresh / "kept.tar.gz", "w:gz") as archive:
            archive.add(PLACE, ".")
        times = {str(path.relative_to(PLACE)): path.lstat().st_mtime_ns for path in sorted(PLACE.glob("image/**/*"))}
        (fresh / "times.json").write_text(json.dumps(times, indent=1) + "\n")
        (fresh / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        KEPT.mkdir(exist_ok=True)
        fresh.rename(target)
    shutil.rmtree(PLACE)
    print(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main()
