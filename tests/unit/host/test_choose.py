# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.errors import UsageError
from zombiescope.host.live import LiveHost, TreeHost, choose_host


def test_without_a_root_it_is_this_host() -> None:
    for root in (None, b"/", b"//", b"/proc/.."):
        host = choose_host(root)
        assert isinstance(host, LiveHost)
        assert host.label == "this host"


def test_a_folder_without_a_mounted_proc_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert isinstance(choose_host(os.fsencode(tmp_path)), TreeHost)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none", "there is no such folder"),
        ("file", "it is neither a folder nor a readable recording"),
        ("file/x", "not a directory"),
    ],
)
def test_what_is_no_folder_is_a_usage_error(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        choose_host(os.fsencode(tmp_path / name))
    assert caught.value.why == why
    assert caught.value.hint
