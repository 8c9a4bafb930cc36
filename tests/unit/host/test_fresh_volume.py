# SPDX-License-Identifier: Apache-2.0
"""A volume that a pod was just given is open to everybody: it is closed and used. Any other open folder is refused as ever."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from zombiescope.host.own_folder import ensure_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "state"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "tmpfs", place], check=False)
    if mounted.returncode:
        pytest.skip("no mount is allowed here")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def mode(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


def test_a_fresh_volume_is_closed_and_used(volume: Path) -> None:
    ensure_folder(os.fsencode(volume))
    assert mode(volume) == 0o750


@pytest.mark.parametrize("spoil", ["used", "sticky", "foreign"])
def test_any_other_open_folder_is_refused_and_stays_as_it_is(volume: Path, spoil: str) -> None:
    if spoil == "used":
        (volume / "file").touch()
    elif spoil == "sticky":
        volume.chmod(0o1777)
    else:
        os.chown(volume, 65534, 65534)
    before = mode(volume)
    with pytest.raises(OSError, match=r".*") as refused:
        ensure_folder(os.fsencode(volume))
    assert refused.value.strerror
    assert mode(volume) == before


def test_a_plain_folder_that_all_may_write_to_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(OSError, match="others may write"):
        ensure_folder(os.fsencode(place))
    assert mode(place) == 0o777
