# SPDX-License-Identifier: Apache-2.0
"""Only regular files on real file systems are opened, by whatever name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.host.safe_open import open_regular


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
