# SPDX-License-Identifier: Apache-2.0
"""A folder cannot be left: whatever links it holds, nothing outside is read, and nothing that is no regular file is opened."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from zombiescope.errors import ObservationError
from zombiescope.host.live import TreeHost


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("outside")
    machine = tmp_path / "machine"
    (machine / "proc").mkdir(parents=True)
    (machine / "proc" / "file").write_text("inside")
    return machine


def refusal(host: TreeHost, path: bytes) -> int | None:
    with pytest.raises(OSError) as caught:
        host.read(path)
    return caught.value.errno


@pytest.mark.parametrize(
    "target", ["/secret", "../secret", "../../../../../secret", "/../secret", "proc/../../secret", "{outside}/secret"]
)
def test_no_link_leads_outside(inside: Path, target: str) -> None:
    os.symlink(target.format(outside=inside.parent), inside / "link")
    assert refusal(TreeHost(os.fsencode(inside)), b"/link") == errno.ENOENT


def test_a_linked_folder_leads_nowhere_else_either(inside: Path) -> None:
    os.symlink(inside.parent, inside / "up")
    assert refusal(TreeHost(os.fsencode(inside)), b"/up/secret") == errno.ENOENT


@pytest.mark.parametrize("path", [b"/../secret", b"/proc/../../secret", b"/../../../../etc/passwd"])
def test_dots_do_not_lead_outside(inside: Path, path: bytes) -> None:
    assert refusal(TreeHost(os.fsencode(inside)), path) == errno.ENOENT


def test_a_link_is_followed_as_if_the_folder_were_the_root(inside: Path) -> None:
    os.symlink("/proc/file", inside / "absolute")
    os.symlink("proc/../proc/./file", inside / "relative")
    os.symlink("/proc", inside / "folder")
    host = TreeHost(os.fsencode(inside))
    assert [host.read(path) for path in (b"/absolute", b"/relative", b"/folder/file")] == [b"inside"] * 3


def test_links_in_a_ring_end(inside: Path) -> None:
    os.symlink("two", inside / "one")
    os.symlink("one", inside / "two")
    os.symlink("self/self", inside / "self")
    host = TreeHost(os.fsencode(inside))
    assert refusal(host, b"/one") == errno.ELOOP
    assert refusal(host, b"/self") == errno.ELOOP


def test_what_is_no_regular_file_is_not_opened(inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(inside / "socket"))
    host = TreeHost(os.fsencode(inside))
    assert refusal(host, b"/pipe") == errno.EINVAL
    assert refusal(host, b"/socket") == errno.EINVAL
    assert refusal(host, b"/proc") == errno.EISDIR


def test_a_device_is_not_opened(inside: Path) -> None:
    try:
        os.mknod(inside / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    assert refusal(TreeHost(os.fsencode(inside)), b"/zero") == errno.EINVAL


def test_a_sparse_giant_is_refused_at_once(inside: Path) -> None:
    with open(inside / "giant", "wb") as file:
        file.truncate(1 << 40)
    assert refusal(TreeHost(os.fsencode(inside)), b"/giant") == errno.EFBIG


def test_a_name_no_file_system_takes_is_an_errno(inside: Path) -> None:
    host = TreeHost(os.fsencode(inside))
    assert refusal(host, b"/a\0b") == errno.EINVAL
    assert refusal(host, b"/" + b"n" * 300) == errno.ENAMETOOLONG


def test_a_folder_that_goes_away_is_a_clear_error(inside: Path) -> None:
    host = TreeHost(os.fsencode(inside / "proc"))
    (inside / "proc" / "file").unlink()
    (inside / "proc").rmdir()
    with pytest.raises(ObservationError, match="no such file"):
        host.wall_clock()


def test_a_folder_swapped_for_a_link_at_the_worst_moment_leads_nowhere(
    inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after it was looked at and found to be no link."""
    (inside.parent / "file").write_text("outside")
    look = {name: getattr(os, name) for name in ("stat", "lstat")}
    swapped: list[str] = []

    def swap(name: str, *words: object, **options: object) -> object:
        seen = look[name](*words, **options)
        if not swapped and isinstance(words[0], bytes) and words[0].endswith(b"proc"):
            swapped.append(name)
            (inside / "proc").rename(inside / "away")
            (inside / "proc").symlink_to(inside.parent)
        return seen

    host = TreeHost(os.fsencode(inside))
    for name in look:
        monkeypatch.setattr(os, name, lambda *words, name=name, **options: swap(name, *words, **options))
    with pytest.raises(OSError):
        host.read(b"/proc/file")
    assert swapped
