# SPDX-License-Identifier: Apache-2.0
"""Only regular files on real file systems are opened, by whatever name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zombiescope.host.safe_open import open_regular, why_foreign


def test_a_regular_file_is_opened_and_a_link_only_when_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    descriptor, facts = open_regular(bytes(tmp_path / "link"), follow=True)
    with os.fdopen(descriptor) as file:
        assert (file.read(), facts.st_size) == ("content", 7)
    with pytest.raises(OSError, match="it is a link"):
        open_regular(bytes(tmp_path / "link"))


@pytest.mark.parametrize("path", ["/dev/null", "/proc/self/maps", "/sys/kernel/mm/transparent_hugepage/enabled", "/"])
def test_devices_folders_and_kernel_files_are_not(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"no {path} here")
    with pytest.raises(OSError, match=r"not a regular file|a file of the kernel"):
        open_regular(path, follow=True)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path.as_posix() + "/pipe")


def test_another_than_wanted_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    before = len(os.listdir("/proc/self/fd"))

    def refuse(status: os.stat_result) -> None:
        raise OSError(errno.ESTALE, f"{status.st_size} bytes")

    with pytest.raises(OSError, match="7 bytes"):
        open_regular(bytes(tmp_path / "file"), check=refuse)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("owner", "mode", "why"),
    [
        (1, 0o600, "it belongs to user 1"),
        (0, 0o620, "others may write to it"),
        (0, 0o604, "others may look into it"),
        (0, 0o640, ""),
    ],
)
def test_why_a_file_is_not_believed(owner: int, mode: int, why: str) -> None:
    status = os.stat_result((mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))
    assert why_foreign(status, (0,), 0o027 & ~0o040) == why
