# SPDX-License-Identifier: Apache-2.0
"""Story (h): under SELinux, enforcing. An ordinary service does everything; in a domain that the policy confines every reading
command still answers, and says what it was refused."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.strange.answers import COMMANDS, judge, words_of
from tests.vm.stories.product import document

import zombiescope

pytestmark = pytest.mark.cells.with_args(lambda cell: cell.selinux)
CONFINED = "system_u:system_r:system_cronjob_t:s0"
"""That of a job of cron: it may read what is installed and little of the kernel."""


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The package where programs are: the domain may not enter the folder of the job."""
    place = Path("/usr/local/lib/zombiescope-confined")
    place.mkdir()
    # By cp, which leaves the labels behind: what is made there gets that of the folder.
    subprocess.run(["cp", "--recursive", str(Path(zombiescope.__file__).parent), str(place)], check=True)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def test_the_policy_is_enforced() -> None:
    assert Path("/sys/fs/selinux/enforce").read_text() == "1"


def test_an_ordinary_service_walks_and_judges() -> None:
    assert document("autopsy")["tier"] == "bpf"
    assert document("doctor", "--seconds", "0")["findings"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_confined_command_answers_and_names_the_gap(command: str, installed: Path) -> None:
    libraries = [path for path in os.environ["PYTHONPATH"].split(":") if path.startswith("/opt/")]
    done = subprocess.run(
        [
            "runcon",
            CONFINED,
            "sh",
            "-c",
            'exec "$@"',
            "sh",
            "python3",
            "-m",
            "zombiescope",
            *words_of(command, "/var/tmp"),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd="/",
        env={**os.environ, "PYTHONPATH": ":".join([str(installed), *libraries])},
    )
    said = judge(command, done)
    if command == "autopsy":
        assert "permission denied" in said.lower() or "a security module" in said, said
