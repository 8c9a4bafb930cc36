# SPDX-License-Identifier: Apache-2.0
"""Root obeys a configuration that only root can write, and every command obeys the same one."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.hostile.neighbour import Neighbour, zombiescope

_ALL_WELL = "[thresholds]\nzombies_warning = 1000000000\nzombies_critical = 1000000000\nratio_warning = 1e9\nratio_critical = 1e9\n"
_COMMANDS = (
    ("scan", "--no-bytes"),
    ("doctor", "--seconds", "0"),
    ("check",),
    ("history",),
    ("plan", "--seconds", "0"),
    ("export", "rules"),
    ("agent", "--show-config"),
)


@pytest.mark.attack("have root's tools call a sick host well, by a configuration of the neighbour's")
@pytest.mark.parametrize("words", _COMMANDS, ids=lambda words: words[0])
def test_a_strangers_configuration_is_refused(words: tuple[str, ...], neighbour: Neighbour) -> None:
    file = neighbour.folder / "zombiescope.toml"
    assert neighbour.do(lambda: file.write_text(_ALL_WELL)) == 0
    done = zombiescope(*words, "--config", str(file))
    assert done.returncode == (3 if words[0] == "check" else 2), done.stdout + done.stderr
    assert f"it belongs to user {neighbour.uid}" in done.stderr
    assert f"chown root: {file}" in done.stderr


@pytest.mark.attack("change a configuration of root's that was left writable")
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_configuration_that_others_may_write_is_refused(mode: int, tmp_path: Path) -> None:
    file = tmp_path / "zombiescope.toml"
    file.write_text(_ALL_WELL)
    file.chmod(mode)
    done = zombiescope("agent", "--show-config", "--config", str(file))
    assert done.returncode == 2
    assert "users other than root can write to it" in done.stderr


@pytest.mark.attack(
    "hang or feed a command of root's through a pipe, a device or a link in the place of its configuration"
)
def test_a_configuration_that_is_no_plain_file_is_refused(neighbour: Neighbour) -> None:
    pipe, link = neighbour.folder / "pipe.toml", neighbour.folder / "link.toml"
    mine = neighbour.folder / "mine.toml"
    assert neighbour.do(lambda: os.mkfifo(pipe)) == 0
    assert neighbour.do(lambda: mine.write_text(_ALL_WELL)) == 0
    assert neighbour.do(lambda: link.symlink_to(mine)) == 0
    for file, why in (
        (pipe, "it is not a regular file"),
        (Path("/dev/zero"), "it is not a regular file"),
        (link, "belongs to"),
    ):
        done = zombiescope("agent", "--show-config", "--config", str(file))
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr


@pytest.mark.attack("have two commands judge one host by two measures, so that the sick one is not believed")
def test_every_command_has_the_same_thresholds(tmp_path: Path) -> None:
    """Zero zombies are critical by this file, so that every host is sick by it."""
    file = tmp_path / "zombiescope.toml"
    file.write_text("[thresholds]\nzombies_warning = 0\nzombies_critical = 0\n")
    asked = (("scan", "--no-bytes"), ("doctor", "--seconds", "0"), ("check",))
    with ThreadPoolExecutor(len(asked)) as pool:  # each waits much and works little
        answers = pool.map(lambda words: zombiescope(*words, "--json", "--config", str(file)).stdout, asked)
        scanned, examined, checked = map(json.loads, answers)
    assert scanned["severity"] == "critical"
    population = next(each for each in examined["findings"] if each["id"] == "zombie-population")
    assert (population["verdict"], population["severity"]) == ("present", "critical")
    assert next(each["verdict"] for each in checked["reasons"] if each["what"] == "zombies") == "CRITICAL"
    assert "zombies >= 0'" in zombiescope("export", "rules", "--config", str(file)).stdout
    shown = zombiescope("agent", "--show-config", "--config", str(file)).stdout
    assert "zombies_critical = 0" in shown
    assert str(file) in shown, "where the value comes from"
