# SPDX-License-Identifier: Apache-2.0
"""The package under a running systemd, as the install page tells it: off at first, enabled, configured, upgraded, removed, purged.

The machine is one of the kernel matrix (6.1, cgroup v2) with a root of Debian's own packages, all configured; it has no Python.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from tests.release.conftest import REPOSITORY, one
from tests.release.page import TRACE, fences
from tests.release.roots import unpacked
from tests.vm.build import Store, say
from tests.vm.cells import cell_named
from tests.vm.image import add_guest_files, write_disk
from tests.vm.machine import Outcome, run_job
from tools.release.debian import make_deb
from tools.release.origin import one_file, version

pytestmark = pytest.mark.on_demand
CELL = "6.1-v2"
RESULTS = REPOSITORY / "build" / "release"
TIMEOUT_SECONDS = 1500
_FUNCTIONS = """\
#!/bin/bash
# A fifth of an emulated core is a hundredth of a real one.
mkdir -p /run/systemd/system/zombiescope.service.d
printf '[Service]\\nCPUQuota=\\n' >/run/systemd/system/zombiescope.service.d/emulated.conf
told() { name=$1; shift; echo "$name"; bash -eu -c "$1" >"/out/$name" 2>&1 </dev/null; echo $? >"/out/$name.status"; }
fact() { name=$1; shift; "$@" >"/out/$name" 2>&1; }
files() { find / -xdev -not -path '/proc*' -not -path '/sys*' -not -path '/run*' -not -path '/out*' -not -path '/job*' \\
    -not -path '/tmp*' -not -path '/var/tmp*' -not -path '/var/log*' -not -path '/var/cache*' -not -path '/var/lib/dpkg*' \\
    -not -path '/var/lib/apt*' -not -path '/root*' -not -path /var/lib/systemd/linger | sort >"/out/$1"; }
eventually() { for _ in $(seq 300); do if "$@" >/dev/null 2>&1; then return; fi; sleep 1; done; }
healthz() { exec 3<>/dev/tcp/127.0.0.1/9753; printf 'GET /healthz HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n' >&3; cat <&3; }
export DEBIAN_FRONTEND=noninteractive
cd /job/release
files before
"""


class Disk(Store):
    """The store of the matrix, with a disk of our own."""

    def __init__(self, disk: Path) -> None:
        super().__init__()
        self._disk = disk

    def image(self, name: str) -> Path:
        del name
        return self._disk


def story() -> str:
    install, look, enable, remember = (fence.script for fence in fences("machine"))
    (upgrade,), (remove,), (purge,) = (
        [fence.script for fence in fences(f"machine-{stage}")] for stage in ("upgrade", "removal", "purge")
    )
    lines = [
        f"told install {shlex.quote(install)}",
        "fact enabled-at-first systemctl is-enabled zombiescope",
        "fact active-at-first systemctl is-active zombiescope",
        f"told look {shlex.quote(look)}",
        "systemctl preset zombiescope; fact enabled-after-preset systemctl is-enabled zombiescope",
        f"told enable {shlex.quote(enable)}",
        "fact enabled systemctl is-enabled zombiescope",
        "fact healthz healthz",
        "eventually test -s /var/lib/zombiescope/history.log",
        f"told remember {shlex.quote(remember)}",
        "printf '[agent]\\nretention_days = 7\\n' >/etc/zombiescope.toml",
        "fact first-process systemctl show --value --property=MainPID zombiescope",
        "cp /var/lib/zombiescope/history.log /out/history-before",
        "cd /job/newer",
        f"told upgrade {shlex.quote(upgrade)}",
        "fact version-after dpkg-query -W -f '${Version}' zombiescope",
        "eventually systemctl is-active --quiet zombiescope",
        "fact active-after systemctl is-active zombiescope",
        "fact enabled-after systemctl is-enabled zombiescope",
        "fact second-process systemctl show --value --property=MainPID zombiescope",
        "cp /etc/zombiescope.toml /out/configuration-after",
        "cp /var/lib/zombiescope/history.log /out/history-after",
        "told settings 'zombiescope agent --show-config'",
        f"told remove {shlex.quote(remove)}",
        "fact active-removed systemctl is-active zombiescope",
        "files removed",
        f"told purge {shlex.quote(purge)}",
        "files after",
        "fact failed systemctl list-units --state=failed --no-legend --plain",
        "journalctl --no-pager -o cat -u zombiescope >/out/journal 2>&1",
        "exit 0",
    ]
    return _FUNCTIONS + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def outcome(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    scratch = tmp_path_factory.mktemp("machine")
    root = unpacked("machine", scratch / "root").folder
    (root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    (root / "etc/fstab").write_text("")
    add_guest_files(root)
    write_disk(root, scratch / "disk", 900)
    shutil.rmtree(root)
    job = scratch / "job"
    for name in ("release", "newer"):
        (job / name).mkdir(parents=True)
    shutil.copy(one(release, "zombiescope_*_amd64.deb"), job / "release")
    make_deb(one_file(release, "x86_64"), "x86_64", job / "newer", revision=2)
    (job / "run").write_text(story())
    (job / "run").chmod(0o755)
    store, cell = Disk(scratch / "disk"), cell_named(CELL)
    store.folder.mkdir(parents=True, exist_ok=True)
    Store().ensure([], [cell.kernel_part])
    done = run_job(store, cell, job, RESULTS / CELL, TIMEOUT_SECONDS)
    say(f"the package in {CELL}: status {done.status} in {done.cost()}, {done.reason}")
    assert done.status == 0, f"{done.reason}\n{done.log()[-3000:]}"
    return done


def said(outcome: Outcome, name: str) -> str:
    return (outcome.folder / name).read_text(errors="replace").strip()


def test_every_command_of_the_page_did_what_it_says(outcome: Outcome) -> None:
    for name in ("install", "look", "enable", "remember", "upgrade", "settings", "remove", "purge"):
        assert said(outcome, f"{name}.status") == "0", (
            f"{name}: {said(outcome, name)}\n{said(outcome, 'journal')[-2000:]}"
        )
        assert not any(words in said(outcome, name) for words in TRACE)


def test_it_is_off_until_somebody_enables_it(outcome: Outcome) -> None:
    assert (said(outcome, "enabled-at-first"), said(outcome, "active-at-first")) == ("disabled", "inactive")
    assert said(outcome, "enabled-after-preset") == "disabled"
    assert said(outcome, "enabled") == "enabled"
    assert "\nok" in said(outcome, "healthz").replace("\r", "")


def test_an_upgrade_keeps_everything_and_runs_the_new_program(outcome: Outcome) -> None:
    assert said(outcome, "version-after") == f"{version()}-2"
    assert (said(outcome, "active-after"), said(outcome, "enabled-after")) == ("active", "enabled")
    assert said(outcome, "first-process") != said(outcome, "second-process")
    assert said(outcome, "configuration-after") == "[agent]\nretention_days = 7"
    assert "retention_days = 7" in said(outcome, "settings")
    assert said(outcome, "history-before"), "there was something to lose"
    assert said(outcome, "history-after").startswith(said(outcome, "history-before"))


def test_nothing_is_left(outcome: Outcome) -> None:
    before, removed, after = (set(said(outcome, name).splitlines()) for name in ("before", "removed", "after"))
    assert said(outcome, "active-removed") == "inactive"
    assert {"/etc/zombiescope.toml", "/var/lib/zombiescope/history.log"} <= removed
    assert after - before == set()
    assert before - after == set()
    assert "zombiescope" not in said(outcome, "failed")
