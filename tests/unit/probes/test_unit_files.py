# SPDX-License-Identifier: Apache-2.0
"""Search order, drop-ins, masks, aliases, templates, enablement, over real folders."""

from __future__ import annotations

import os
from pathlib import Path

from tests.unit.trees import CONFIG, SERVICE, SYSTEM, WANTED, files_of, plant, units_of

from zombiescope.probes.readers.unit_files import read_unit_files


def test_etc_hides_usr_and_says_who_is_the_vendor(tmp_path: Path) -> None:
    units = units_of(
        tmp_path,
        {f"{SYSTEM}/a.service": "[Service]\nRestart=no\n", f"{CONFIG}/a.service": "[Service]\nRestart=always\n"},
    )
    unit = units.units["a.service"]
    restart = unit.last("Service", "Restart")
    assert restart is not None
    assert (restart.value, restart.origin, unit.from_vendor) == ("always", f"/{CONFIG}/a.service", False)


def test_drop_ins_in_their_order(tmp_path: Path) -> None:
    files = {
        f"{SYSTEM}/a-b.service": "[Service]\nRestartSec=1\n",
        f"{SYSTEM}/service.d/10-all.conf": "[Service]\nRestartSec=2\n",
        f"{SYSTEM}/a-.service.d/20-prefix.conf": "[Service]\nRestartSec=3\n",
        f"{SYSTEM}/a-b.service.d/30-own.conf": "[Service]\nRestartSec=4\n",
        f"{CONFIG}/a-b.service.d/30-own.conf": "[Service]\nRestartSec=5\n",
        f"{SYSTEM}/a-b.service.d/40-gone.conf": "[Service]\nRestartSec=6\n",
        f"{CONFIG}/a-b.service.d/40-gone.conf": "-> /dev/null",
    }
    unit = units_of(tmp_path, files).units["a-b.service"]
    assert [setting.value for setting in unit.settings] == ["1", "2", "3", "5"]


def test_an_empty_assignment_starts_a_list_anew(tmp_path: Path) -> None:
    files = {
        f"{SYSTEM}/a.service": "[Unit]\nWants=x.service\n",
        f"{CONFIG}/a.service.d/1.conf": "[Unit]\nWants=\nWants=y.service\n",
    }
    assert units_of(tmp_path, files).units["a.service"].words("Unit", "Wants") == ["y.service"]


def test_the_words_of_enablement(tmp_path: Path) -> None:
    files = {
        f"{SYSTEM}/on.service": WANTED,
        f"{CONFIG}/multi-user.target.wants/on.service": f"-> /{SYSTEM}/on.service",
        f"{SYSTEM}/off.service": WANTED,
        f"{SYSTEM}/static.service": SERVICE,
        f"{SYSTEM}/also.service": SERVICE + "[Install]\nAlso=on.service\n",
        f"{SYSTEM}/hidden.service": WANTED,
        f"{CONFIG}/hidden.service": "-> /dev/null",
        f"{SYSTEM}/empty.service": "",
        f"{SYSTEM}/named.service": SERVICE + "[Install]\nAlias=other.service\n",
        f"{CONFIG}/other.service": f"-> /{SYSTEM}/named.service",
        "opt/far.service": SERVICE,
        f"{CONFIG}/far.service": "-> /opt/far.service",
        f"{SYSTEM}/getty@.service": SERVICE + "[Install]\nWantedBy=getty.target\nDefaultInstance=tty1\n",
        f"{CONFIG}/getty.target.wants/getty@tty1.service": f"-> /{SYSTEM}/getty@.service",
        f"{CONFIG}/lost.service": "-> /opt/nowhere/gone.service",
        "run/systemd/generator/made.service": SERVICE,
        "run/systemd/system/brief.service": "-> /dev/null",
    }
    units = units_of(tmp_path, files).units
    assert {name: unit.enabled for name, unit in units.items()} == {
        "on.service": "enabled", "off.service": "disabled", "static.service": "static", "also.service": "indirect",
        "hidden.service": "masked", "empty.service": "masked", "named.service": "enabled", "other.service": "alias",
        "far.service": "linked", "getty@.service": "enabled", "getty@tty1.service": "enabled", "lost.service": "bad",
        "made.service": "generated", "brief.service": "masked-runtime",
    }  # fmt: skip
    assert units["other.service"].alias_of == "named.service"


def test_a_merged_usr_counts_once(tmp_path: Path) -> None:
    plant(tmp_path, {f"{SYSTEM}/a.service": WANTED, "lib": "-> usr/lib"})
    assert list(read_unit_files(files_of(tmp_path)).units) == ["a.service"]


def test_a_hostile_tree_is_refused_piece_by_piece(tmp_path: Path) -> None:
    secret = plant(tmp_path / "outside", {"secret.service": "[Service]\nExecStart=/secret\n"})
    root = plant(tmp_path / "root", {f"{SYSTEM}/ok.service": WANTED})
    folder = root / SYSTEM
    (folder / "abs.service").symlink_to(secret / "secret.service")
    (folder / "up.service").symlink_to("../" * 12 + str(secret)[1:] + "/secret.service")
    (folder / "loop-a.service").symlink_to("loop-b.service")
    (folder / "loop-b.service").symlink_to("loop-a.service")
    os.mkfifo(folder / "pipe.service")
    with (folder / "huge.service").open("wb") as huge:
        huge.truncate(1 << 30)
    (folder / os.fsdecode(b"bad\n\x1b[31m\xff.service")).write_text(SERVICE)
    files = files_of(root)
    units = read_unit_files(files).units
    assert units["ok.service"].enabled == "disabled"
    assert not any(setting.value == "/secret" for unit in units.values() for setting in unit.settings)
    assert units["huge.service"].enabled == "bad"
    refused = {refusal.path.rpartition(b"/")[2]: refusal.reason for refusal in files.refusals}
    assert "more than 1,048,576" in refused[b"huge.service"]
    assert "device, pipe or socket" in refused[b"pipe.service"]
    assert "not a unit name" in refused[b"bad\n\x1b[31m\xff.service"]


def test_a_folder_that_is_a_loop_ends(tmp_path: Path) -> None:
    plant(tmp_path, {"etc/systemd": "-> /etc/systemd", f"{SYSTEM}/a.service": WANTED})
    assert list(read_unit_files(files_of(tmp_path)).units) == ["a.service"]


def test_manager_defaults_and_bus_names(tmp_path: Path) -> None:
    units = units_of(
        tmp_path,
        {
            "etc/systemd/system.conf": "[Manager]\nDefaultStartLimitBurst=3\n",
            "usr/lib/systemd/system.conf.d/1.conf": "[Manager]\nDefaultStartLimitIntervalSec=1h\n",
            "usr/share/dbus-1/system-services/org.x.service": "[D-BUS Service]\nName=org.x\nSystemdService=x.service\n",
            f"{SYSTEM}/x.service": SERVICE,
        },
    )
    assert {setting.key: setting.value for setting in units.manager} == {
        "DefaultStartLimitBurst": "3",
        "DefaultStartLimitIntervalSec": "1h",
    }
    assert units.bus_names == {"x.service": "org.x"}
