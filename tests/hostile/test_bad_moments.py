# SPDX-License-Identifier: Apache-2.0
"""Whatever ends an `apply` in the middle leaves nothing behind; `undo` takes back what is still ours, and only that."""

from __future__ import annotations

import base64
import json
import os
import pty
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.interrupted_stories import APPLY, Story, code_of, wait_until
from tests.hostile.neighbour import zombiescope
from tests.unit.trees import TARGETS, enabled, plant

ECS = "[Service]\nExecStart=/usr/libexec/amazon-ecs-init start\nRestart=on-failure\nRestartSec=10s\n"
PRESET = "etc/systemd/system-preset/00-zombiescope.preset"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Ended = tuple[Story, int]


def signalled(story: Story, which: signal.Signals) -> int:
    process = story.start(*APPLY)
    story.wait_for("stop")
    assert story.drop_ins
    process.send_signal(which)
    return code_of(process)


def typed_twice(story: Story) -> int:
    """Ctrl-C reaches every process of the terminal; the second one comes while systemd is asked to start the unit again."""
    process = story.start(*APPLY, process_group=0)
    story.wait_for("stop")
    os.killpg(process.pid, signal.SIGINT)
    story.wait_for("start")
    os.killpg(process.pid, signal.SIGINT)
    os.killpg(process.pid, signal.SIGTERM)
    story.let_go("start")
    return code_of(process)


def hung_up(story: Story) -> int:
    """The terminal goes away: SIGHUP, and every word to it fails."""
    ours, theirs = pty.openpty()
    streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = story.start(*APPLY, before=("setsid", "--ctty"), **streams)
    os.close(theirs)
    story.wait_for("stop")
    os.close(ours)
    return code_of(process)


def unheard(story: Story) -> int:
    """Nobody reads what it says any more."""
    process = story.start(*APPLY, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    story.wait_for("stop")
    process.stdout.close()
    process.stderr.close()
    process.send_signal(signal.SIGTERM)
    return code_of(process)


def watched(story: Story) -> int:
    process = story.start(*APPLY, "--window", "600", "--json")
    wait_until(lambda: "watching for 600 s" in story.said() or process.poll() is not None, "the window")
    process.send_signal(signal.SIGINT)
    return code_of(process)


STORIES: dict[str, tuple[Callable[[Story], int], tuple[str, ...]]] = {
    **{each.name: (lambda story, each=each: signalled(story, each), ("stop",)) for each in (*ENDING, signal.SIGKILL)},  # type: ignore[misc]
    "typed twice": (typed_twice, ("stop", "start")),
    "hung up": (hung_up, ("stop",)),
    "unheard": (unheard, ("stop",)),
    "watched": (watched, ()),
}


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Ended]]]:
    """All at once: each waits most of its time."""
    place = tmp_path_factory.mktemp("stories")
    told = {name: Story(place / name.replace(" ", "-"), *holds) for name, (_, holds) in STORIES.items()}

    def tell(name: str) -> Ended:
        return told[name], STORIES[name][0](told[name])

    with ThreadPoolExecutor(len(STORIES)) as pool:
        try:
            yield {name: pool.submit(tell, name) for name in STORIES}
        finally:
            for story in told.values():
                story.end()


def assert_put_back(story: Story) -> None:
    assert story.picture() == story.before
    assert story.unit_state == "activating", "what was stopped is started again"
    entries = [json.loads(line) for line in story.journal.read_text().splitlines()]
    assert [entry["entry"] for entry in entries if entry["entry"] in ("surprise", "undo-end")] == [
        "surprise",
        "undo-end",
    ]


@pytest.mark.attack("leave a drop-in and a stopped unit behind by ending an apply with a signal")
@pytest.mark.parametrize("which", ENDING, ids=lambda each: each.name)
def test_a_signal_in_the_middle_puts_everything_back(stories: dict[str, Future[Ended]], which: signal.Signals) -> None:
    story, code = stories[which.name].result()
    assert code == 4, story.said()
    assert_put_back(story)
    assert f"interrupted by {which.name}" in story.said()
    assert f"zombiescope undo {story.action} --yes" in story.said()


@pytest.mark.attack("break the way back with a second Ctrl-C, which the programs that are asked get too")
def test_a_second_signal_does_not_stop_the_way_back(stories: dict[str, Future[Ended]]) -> None:
    story, code = stories["typed twice"].result()
    assert code == 4, story.said()
    assert_put_back(story)


@pytest.mark.attack("leave a change behind by hanging up the terminal")
def test_a_terminal_that_went_away_does_not_stop_the_way_back(stories: dict[str, Future[Ended]]) -> None:
    story, code = stories["hung up"].result()
    assert code == 4
    assert_put_back(story)


@pytest.mark.attack("leave a change behind by closing standard output and standard error")
def test_nobody_listening_does_not_stop_the_way_back(stories: dict[str, Future[Ended]]) -> None:
    story, code = stories["unheard"].result()
    assert code == 4
    assert_put_back(story)


@pytest.mark.attack("lose the action's name and how to undo it by pressing Ctrl-C in the window")
def test_an_interrupted_window_says_again_how_to_take_it_back(stories: dict[str, Future[Ended]]) -> None:
    story, code = stories["watched"].result()
    assert code == 5, story.said()
    assert story.said().count(f"to take it back: zombiescope undo {story.action} --yes") == 2
    assert str(Path("/var/lib/zombiescope/actions") / story.action / "journal.jsonl") in story.said()
    document = json.loads(story.said("out"))
    assert (document["action"], document["verify"]) == (story.action, None)
    (drop_in,) = story.drop_ins
    drop_in.write_text(drop_in.read_text() + "# the administrator's\n")
    undone = story.run("undo", "--yes")
    assert undone.returncode == 5
    assert f"{drop_in.name} was changed since" in undone.stderr
    assert drop_in.read_text().endswith("# the administrator's\n")
    assert story.unit_state == "activating"


@pytest.mark.attack(
    "have nobody notice that kill -9 left a change behind, and the next apply take it for what was there"
)
def test_after_a_kill_every_command_names_undo_and_undo_is_exact(stories: dict[str, Future[Ended]]) -> None:
    story, code = stories["SIGKILL"].result()
    assert code == -signal.SIGKILL
    assert story.drop_ins
    story.let_go("stop")
    undo = f"zombiescope undo {story.action} --yes"
    again = story.run(*APPLY)
    assert (again.returncode, undo in again.stderr) == (4, True)
    for name in ("plan", "doctor"):  # they say so before they look
        process = story.start(name)
        wait_until(lambda: undo in story.said(), f"{name} to name undo")
        process.kill()
        process.wait()
    assert story.run(*undo.split()[1:]).returncode == 0
    assert story.picture() == story.before
    assert story.unit_state == "activating"


def journalled(place: Path, *writes: dict[str, Any], boot_id: str | None = None) -> tuple[Path, Path]:
    """A journal as `apply` leaves it after a kill, of a machine made of files: its root, and its state folder."""
    root, state = place / "root", place / "state"
    action = state / "actions/20260101T000000-aaaaaa"
    action.mkdir(parents=True)
    boot_id = boot_id or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    lines: list[dict[str, Any]] = [{"entry": "begin", "root": str(root), "boot_id": boot_id}]
    lines += [{"entry": "write", "seq": seq, "step": 1, **write} for seq, write in enumerate(writes, 1)]
    text = "".join(json.dumps({"v": 1, "at": 1.0, **line}) + "\n" for line in lines)
    (action / "journal.jsonl").write_text(text)
    return root, state


def b64(text: bytes) -> str:
    return base64.b64encode(text).decode()


HIGH = {"do": "set_file_for_a_moment", "path": "/sys/high", "before": "max", "value": "0"}
KNOB = {"do": "set_file", "path": "/sys/knob", "before": b64(b"before"), "value": b64(b"ours")}
LINK = {"do": "place_link", "path": "/etc/a", "before": {"kind": "absent"}, "target": b64(b"/dev/null")}


@pytest.mark.attack("have undo overwrite what an administrator set after a kill")
def test_undo_leaves_what_an_administrator_set_later(tmp_path: Path) -> None:
    low = {**HIGH, "path": "/sys/low"}
    root, state = journalled(tmp_path, HIGH, low, KNOB)
    plant(root, {"sys/high": "1048576\n", "sys/low": "0\n", "sys/knob": "theirs\n"})
    done = zombiescope("undo", "--yes", "--state", str(state))
    assert done.returncode == 5
    assert "/sys/knob was set to theirs since" in done.stderr
    values = {name: (root / "sys" / name).read_text().strip() for name in ("high", "low", "knob")}
    assert values == {"high": "1048576", "low": "max", "knob": "theirs"}


@pytest.mark.attack("have undo bring back what another boot's kernel held")
def test_undo_after_a_reboot_restores_files_alone(tmp_path: Path) -> None:
    root, state = journalled(tmp_path, HIGH, KNOB, LINK, boot_id="00000000-0000-4000-8000-000000000000")
    plant(root, {"sys/high": "0", "sys/knob": "ours", "etc/a": "-> /dev/null"})
    done = zombiescope("undo", "--yes", "--state", str(state))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("started again since") == 2
    assert ((root / "sys/high").read_text(), (root / "sys/knob").read_text()) == ("0", "ours")
    assert not (root / "etc/a").is_symlink()


def metadata(path: Path) -> tuple[object, ...]:
    status = path.lstat()
    extra = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return path.read_bytes(), status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, extra


@pytest.mark.attack("lose an access list and a label to a file's replacement and its undo")
def test_attributes_survive_replacement_and_undo(tmp_path: Path) -> None:
    kubelet = enabled("kubelet.service", "[Service]\nExecStart=/k\n")
    root = plant(tmp_path / "image", {**TARGETS, **enabled("ecs.service", ECS), **kubelet, PRESET: "# as it was\n"})
    preset, words = root / PRESET, ("--state", str(tmp_path / "state"), "--yes")
    read_by_64999 = [(1, 6, -1), (2, 4, 64_999), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in read_by_64999)
    os.setxattr(preset, "system.posix_acl_access", access)
    os.setxattr(preset, "trusted.label", b"kept\0")
    os.chown(preset, 64_999, 64_998)
    os.utime(preset, ns=(10**18, 10**18))
    before = metadata(preset)
    assert zombiescope("apply", "--root", str(root), *words).returncode == 0
    content, *kept, _, extra = metadata(preset)
    assert content != before[0]
    assert (kept, extra) == (list(before[1:4]), before[5])
    undone = zombiescope("undo", *words)
    assert undone.returncode == 0, undone.stderr
    assert metadata(preset) == before


@pytest.mark.attack("have undo remove a file of ours that an administrator made theirs")
def test_undo_leaves_a_file_with_another_owner_or_mode(tmp_path: Path) -> None:
    kubelet = enabled("kubelet.service", "[Service]\nExecStart=/k\n")
    root = plant(tmp_path / "image", {**TARGETS, **enabled("ecs.service", ECS), **kubelet})
    words = ("--state", str(tmp_path / "state"), "--yes")
    assert zombiescope("apply", "--root", str(root), *words).returncode == 0
    (root / PRESET).chmod(0o600)
    undone = zombiescope("undo", *words)
    assert (undone.returncode, "was changed since" in undone.stderr) == (5, True)
    assert (root / PRESET).exists()
