# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from zombiescope.kernel.mount_paths import IPC, run_inside


def test_what_is_no_namespace_cannot_be_entered() -> None:
    worked: list[bool] = []
    for link in (b"/proc/self/status", b"/proc/self/ns/gone"):
        with pytest.raises(OSError):
            run_inside(link, IPC, lambda: worked.append(True))
    assert worked == []
