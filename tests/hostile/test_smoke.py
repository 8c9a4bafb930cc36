# SPDX-License-Identifier: Apache-2.0
"""The tier itself: the neighbour is really without rights, and the command is really the installed one."""

from __future__ import annotations

import pytest
from tests.hostile.neighbour import Neighbour, zombiescope


@pytest.mark.attack("read root's secrets without any help")
def test_the_neighbour_has_no_rights(neighbour: Neighbour) -> None:
    assert neighbour.do(lambda: open("/etc/shadow", "rb").close()) == 1
    assert neighbour.do(lambda: (neighbour.folder / "mine").write_text("mine")) == 0


@pytest.mark.attack("have another program answer under our name")
def test_the_installed_command_answers() -> None:
    done = zombiescope("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("zombiescope")
