# SPDX-License-Identifier: Apache-2.0
"""What a plan predicts is what goes, on real zombies; and what a real machine refuses is said and put back."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.lab_driver import LabDriver
from tests.product import PRODUCT
from tests.unit.trees import TARGETS, enabled, plant

from zombiescope.host.removal import read_attributes

pytestmark = pytest.mark.kernel
COUNT = 40
TOLERANCE = 0.1
CONSENT = {"page-cache": "", "tmpfs": "delete:/dev/shm/zombiescope-lab/{}/tmpfs", "sysv-shm": "remove-segments"}
ECS = "[Service]\nExecStart=/usr/libexec/amazon-ecs-init start\nRestart=on-failure\nRestartSec=10s\n"


def command(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """`before`: shell words run first, in a mount namespace of its own."""
    call = [*PRODUCT, *words]
    if before:
        call = ["unshare", "--mount", "sh", "-c", f'{before} && exec "$@"', "sh", *call]
    return subprocess.run(call, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def receipt(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_predicted_is_what_goes(lab: LabDriver, tmp_path: Path) -> None:
    """Three kinds, each below a parent of its own, with an apply of its own: side by side, for each rests between its looks."""
    names = {kind: lab.new_name() for kind in CONSENT}
    for kind, name in names.items():
        lab.zombies(kind, COUNT, name)
    with ThreadPoolExecutor(len(names)) as pool:
        for kind, problem in pool.map(lambda kind: (kind, freeing_problem(kind, names[kind], tmp_path)), names):
            assert problem == "", f"{kind}: {problem}"


def freeing_problem(kind: str, name: str, folder: Path) -> str:
    """What is wrong about a dry run and a real one; empty when all is well."""
    words = ["apply", "--below", f"/zombiescope-lab/{name}", "--seconds", "0", "--window", "0"]
    words += ["--state", str(folder / kind), "--json"]
    dry = receipt(command(*words))
    if dry["dry_run"] is not True or dry["zombies"] < 0.9 * COUNT:
        return f"a dry run frees nothing, and the lab made {COUNT}: {dry['dry_run']}, {dry['zombies']}"
    consent = CONSENT[kind]
    found = receipt(command(*words, "--yes", *(["--consent", consent.format(name)] if consent else [])))
    predicted = sum(
        step["expected"]["zombies_freed"] or 0 for step in found["steps"] if step["expected"] and not step["instead_of"]
    )
    actual = sum(step["freed"]["zombies"] or 0 for step in found["steps"])
    is_well = predicted >= 0.9 * COUNT and abs(predicted - actual) <= TOLERANCE * predicted
    return "" if is_well else f"{predicted} foreseen, {actual} freed of {COUNT}"


def whole(folder: Path) -> dict[str, object]:
    """All of a file but its inode number and the times that nobody can set."""
    found: dict[str, object] = {}
    for path in sorted(folder.iterdir()):
        status = path.lstat()
        kept = (status.st_mode, status.st_uid, status.st_gid, status.st_nlink, status.st_atime_ns, status.st_mtime_ns)
        with open(os.open(path, os.O_RDONLY | os.O_NOATIME), "rb") as file:
            found[path.name] = (*kept, read_attributes(file.fileno()), file.read())
    return found


def test_files_are_kept_and_their_zombies_go(lab: LabDriver, tmp_path: Path) -> None:
    name = lab.new_name()
    lab.zombies("tmpfs", COUNT, name)
    folder = Path("/dev/shm/zombiescope-lab") / name / "tmpfs"
    files = sorted(folder.iterdir())
    os.chown(files[0], 65534, 65534)
    os.chmod(files[1], 0o4751)
    os.setxattr(files[2], "trusted.note", b"somebody's\0")
    os.utime(files[3], ns=(10**18, 10**18 + 1))
    os.truncate(files[4], 64 << 20)  # nearly all of it a hole
    os.link(files[5], folder / "second name")
    with open(files[6], "rb"):
        before, inodes = whole(folder), {path: path.stat().st_ino for path in files}
        done = receipt(
            command(
                "apply", "--below", f"/zombiescope-lab/{name}", "--seconds", "0", "--window", "0", "--json", "--yes",
                "--state", str(tmp_path / "state"), "--consent", f"rewrite:{folder}",
            )
        )  # fmt: skip
    steps = {step["name"]: step for step in done["steps"]}
    kept = steps[f"rewrite:{folder}"]
    assert kept["status"] == "done", kept
    assert "1 with more than one name" in kept["note"], kept
    assert whole(folder) == before
    assert files[4].stat().st_blocks < 1000, "the hole is still one"
    same = {path for path in files if path.stat().st_ino == inodes[path]}
    assert same == {files[5], files[6]}, "one has two names, one is open"
    assert kept["freed"]["zombies"] == COUNT - 2, kept
    assert steps[f"delete:{folder}"]["status"] == "skipped"
    assert list(folder.glob(".zombiescope*")) == []
    undone = receipt(command("undo", "--yes", "--state", str(tmp_path / "state"), "--json"))
    assert {change["outcome"] for change in undone["changes"]} == {"nothing-to-do"}
    assert whole(folder) == before


def image(folder: Path) -> Path:
    plant(folder, {**TARGETS, **enabled("ecs.service", ECS), **enabled("kubelet.service", "[Service]\nExecStart=/k\n")})
    return folder


def picture(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (what, status.st_mode, status.st_uid, 0 if path.is_dir() else status.st_mtime_ns)
    return found


def test_an_image_is_mended_and_taken_back_byte_for_byte(tmp_path: Path) -> None:
    root = image(tmp_path / "image")
    before = picture(root)
    words = ["--state", str(tmp_path / "state"), "--yes"]
    found = receipt(command("apply", "--root", str(root), *words, "--json"))
    assert [step["status"] for step in found["steps"]] == ["done", "done"]
    assert not list(root.rglob("*.wants/ecs.service"))
    assert command("undo", *words).returncode == 0
    after = picture(root)
    links = {path for path, what in before.items() if path.endswith("wants/ecs.service")}
    assert {path: what for path, what in after.items() if path not in links} == {
        path: what for path, what in before.items() if path not in links
    }
    assert all(os.readlink(path) for path in links)


def test_a_read_only_etc_is_said_and_nothing_changes(tmp_path: Path) -> None:
    root = image(tmp_path / "image")
    before = picture(root)
    read_only = f"mount --bind {root} {root} && mount -o remount,bind,ro {root}"
    done = command("apply", "--root", str(root), "--state", str(tmp_path / "state"), "--yes", before=read_only)
    assert done.returncode == 4, done.stderr
    assert "read-only file system" in done.stderr
    assert "Traceback" not in done.stderr
    assert picture(root) == before


@pytest.mark.parametrize("room", ["4k", "16k"])
def test_a_full_disk_is_said_and_nothing_changes(tmp_path: Path, room: str) -> None:
    """Too small for the journal's folder, and for its first lines."""
    root, state = image(tmp_path / "image"), tmp_path / "state"
    state.mkdir()
    before = picture(root)
    full = f"mount -t tmpfs -o size={room} full {state} && head -c 64k /dev/zero > {state}/filler; true"
    done = command("apply", "--root", str(root), "--state", str(state), "--yes", before=full)
    assert done.returncode == 4, done.stderr
    assert "no space left on device" in done.stderr
    assert picture(root) == before


def test_two_at_once(tmp_path: Path) -> None:
    root, state = image(tmp_path / "image"), tmp_path / "state"
    first = f"mkdir -p {state}/actions && exec 9>{state}/actions/lock && flock -n 9"
    done = command("apply", "--root", str(root), "--state", str(state), "--yes", before=first)
    assert done.returncode == 4, done.stderr
    assert "another apply or undo is at work" in done.stderr


SYSTEMCTL = """#!/bin/sh
# Stands in for systemd: one unit that is restarted between any two questions until it is stopped.
cd "$(dirname "$0")" && state=$(cat state) && restarts=$(wc -c < restarts)
case "$1" in
show) [ "$state" = activating ] && printf xxx >> restarts
  printf 'Id=story.service\\nLoadState=loaded\\nActiveState=%s\\nSubState=%s\\nNRestarts=%s\\n' \\
    "$state" "$([ "$state" = activating ] && echo auto-restart || echo dead)" "$restarts";;
stop) echo inactive > state;;
start) echo activating > state;;
esac
"""
UNIT = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/false\nRestart=always\nRestartSec=1\n"


def test_the_maker_is_stopped_what_it_left_goes_it_holds_and_comes_back(lab: LabDriver, tmp_path: Path) -> None:
    """Real zombies and a real apply; only systemd is stood in for."""
    name = lab.new_name()
    lab.run("leak", "--maker", "story", "--per-minute", "1200", "--seconds", "1", "--name", name)
    bin_folder, etc = tmp_path / "bin", tmp_path / "etc"
    plant(bin_folder, {"systemctl": SYSTEMCTL, "state": "activating\n", "restarts": "xxx"})
    (bin_folder / "systemctl").chmod(0o755)
    plant(etc, {"system/story.service": UNIT, "system/multi-user.target.wants/story.service": "-> ../story.service"})
    before = picture(etc)
    here = (
        f"mount -t tmpfs run /run && mkdir -p /run/systemd/system /etc/systemd && mount --bind {etc} /etc/systemd && "
        f"export PATH={bin_folder}:$PATH"
    )
    scope = ["--maker", "unit:story.service", "--below", f"/zombiescope-lab/{name}", "--seconds", "1"]
    consents = ["limit:story.service", "stop:story.service", f"delete:/dev/shm/zombiescope-lab/{name}/tmpfs"]
    words = [*scope, "--state", str(tmp_path / "state"), "--yes", "--window", "10", "--json"]
    done = receipt(command("apply", *words, *(word for each in consents for word in ("--consent", each)), before=here))
    assert [step["name"] for step in done["steps"] if step["status"] == "done"] == consents
    freeing = [step for step in done["steps"] if step["expected"] and not step["instead_of"]]
    assert [step["freed"]["zombies"] for step in freeing] == [step["expected"]["zombies_freed"] for step in freeing]
    assert (done["verify"]["verdict"], done["verify"]["after"]["ours"]) == ("held", 0), done["verify"]["why"]
    assert (bin_folder / "state").read_text() == "inactive\n"
    assert picture(etc) != before
    undo = ("undo", "--yes", "--state", str(tmp_path / "state"), "--json")
    taken = command(*undo, before=here)
    assert taken.returncode == 5, "files were deleted"
    undone = json.loads(taken.stdout)
    assert {change["outcome"] for change in undone["changes"]} == {"restored", "cannot-be-undone"}
    assert picture(etc) == before
    back = receipt(command(*undo, "--restore", before=here))
    assert {change["outcome"] for change in back["changes"]} == {"restored"}
    assert all(Path(each["file"]).read_bytes() == Path(each["copy"]).read_bytes() for each in undone["kept"])
    assert (bin_folder / "state").read_text() == "activating\n", "it is started again"
