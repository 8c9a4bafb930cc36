# SPDX-License-Identifier: Apache-2.0
"""What a neighbour, a customer or a domain is called must not leave the host in a recording; nor may recording write elsewhere.

A recording of a live host waits much and works little: all of them are made at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.hostile.conftest import not_here
from tests.hostile.graves import HIERARCHY
from tests.hostile.neighbour import INSTALLED, PATIENCE, Neighbour, zombiescope

_PROGRAM, _TITLE, _CGROUP, _UNIT, _HOST, _DOMAIN = "qzvprog", "qzvtitle", "qzvcust", "qzvunit", "qzvhost", "qzvdom"
_SECRETS = (_PROGRAM, _TITLE, _CGROUP, _UNIT, _HOST, _DOMAIN, "10.9.8.7", "10.9.8.53")


class Made(NamedTuple):
    folder: Path
    program: int
    cgroup: str
    precious: Path
    planted: Path
    meanwhile: Path
    ended: dict[str, tuple[int, str]]
    """Exit code and standard error of each recording."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    if os.geteuid() != 0 or not (HIERARCHY / "cgroup.procs").exists():
        not_here("these tests need root and a cgroup hierarchy")
    folder = tmp_path_factory.mktemp("recordings")
    neighbour = Neighbour(folder / "neighbour")
    cgroup = HIERARCHY / f"{_CGROUP}_data_{os.getpid()}"
    (cgroup / f"{_UNIT}_x.service").mkdir(parents=True)
    try:
        yield _recordings(folder, neighbour, cgroup)
    finally:
        neighbour.end_all()
        (cgroup / f"{_UNIT}_x.service").rmdir()
        cgroup.rmdir()


def _recordings(folder: Path, neighbour: Neighbour, cgroup: Path) -> Made:
    precious, planted, late = folder / "precious", neighbour.folder / "planted.tar.gz", neighbour.folder / "late.tar.gz"
    precious.write_text("root's own")
    assert neighbour.do(lambda: planted.symlink_to(precious)) == 0
    program = _secret_program(neighbour)
    running = {
        "plain": _started(*_elsewhere(folder), "record", str(folder / "plain.tar.gz"), "--seconds", "0"),
        "named": _started("record", str(folder / "named.tar.gz"), "--seconds", "0", "--keep-names"),
        "planted": _started("record", str(planted), "--seconds", "0", "--force"),
    }
    ended = {"late": _made_meanwhile(neighbour, late)}
    for name, process in running.items():
        _, said = process.communicate(timeout=PATIENCE)
        ended[name] = (process.returncode, said)
    return Made(folder, program, cgroup.name, precious, planted, late, ended)


def _secret_program(neighbour: Neighbour) -> int:
    """A process of the neighbour whose name and title both have an underscore in them."""
    script = f"printf %s {_PROGRAM}_x > /proc/self/comm; while :; do sleep 600; done"
    child = neighbour.start(lambda: os.execv("/bin/sh", [f"{_TITLE}_x", "-c", script]))
    _until(lambda: Path(f"/proc/{child}/comm").read_text().strip() == f"{_PROGRAM}_x")
    return child


def _elsewhere(folder: Path) -> tuple[str, ...]:
    """Under a host name and a domain of our own, in namespaces of our own."""
    full, mount = f"{_HOST}.corp-{_DOMAIN}.test", folder / f"data.{_DOMAIN}_x"
    mount.mkdir()
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n10.9.8.7 {full} {_HOST}\n")
    (folder / "resolv.conf").write_text(f"search corp-{_DOMAIN}.test\nnameserver 10.9.8.53\n")
    script = (
        f"hostname {_HOST} && mount --bind {folder}/hosts /etc/hosts"
        f" && mount --bind {folder}/resolv.conf /etc/resolv.conf && mount -t tmpfs {full}:/10.9.8.7 {mount}"
        f' && exec {INSTALLED} "$@"'
    )
    return ("unshare", "--uts", "--mount", "sh", "-c", script, "sh")


def _started(*words: str) -> subprocess.Popen[str]:
    command = words if words[0] == "unshare" else (str(INSTALLED), *words)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def _until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def _made_meanwhile(neighbour: Neighbour, file: Path) -> tuple[int, str]:
    """The neighbour takes the name when the bar is shown: it was free just before. Exit code, and what was said."""
    master, terminal = pty.openpty()
    command = (str(INSTALLED), "record", str(file), "--seconds", "0.5")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal) as recording:
        os.close(terminal)
        said = os.read(master, 4096)
        taken = neighbour.do(lambda: file.write_text("theirs"))
        with contextlib.suppress(OSError):  # a terminal that nobody holds any more
            while part := os.read(master, 4096):
                said += part
    os.close(master)
    assert taken == 0, said
    return recording.returncode, said.decode(errors="replace")


def _unpacked(file: Path) -> str:
    """Everything in the archive: names of members, what is said about them, contents."""
    parts = []
    with tarfile.open(file) as archive:
        for member in archive:
            content = archive.extractfile(member)
            parts += [repr(member.get_info()), content.read().decode(errors="replace") if content else ""]
    return "\n".join(parts).lower()


@pytest.mark.attack("learn the names of a host's programs from a recording that was sent to strangers")
def test_the_name_of_a_program_does_not_leave_the_host(made: Made) -> None:
    assert made.ended["plain"][0] == 0, made.ended["plain"][1]
    text = _unpacked(made.folder / "plain.tar.gz")
    assert f"/proc/{made.program}/stat" in text
    assert [secret for secret in (_PROGRAM, _TITLE) if secret in text] == []


@pytest.mark.attack("learn a customer's name from the cgroups and units in a recording")
def test_the_name_of_a_cgroup_does_not_leave_the_host(made: Made) -> None:
    text = _unpacked(made.folder / "plain.tar.gz")
    assert [secret for secret in (_CGROUP, _UNIT) if secret in text] == []
    assert f"_data_{os.getpid()}" in text, "its number and its place in the tree stay"
    assert "_x.service" in text, "and so does its kind"


@pytest.mark.attack("learn host, domain, servers and addresses of a machine from its recording")
def test_host_and_domain_do_not_leave_the_host(made: Made) -> None:
    text = _unpacked(made.folder / "plain.tar.gz")
    assert [secret for secret in _SECRETS if secret in text] == []
    assert re.search(r'"host[0-9]\\n"', text)


@pytest.mark.attack("learn of programs from a recording in which a person wanted the units named")
def test_who_asks_for_names_of_units_gets_no_others(made: Made) -> None:
    assert made.ended["named"][0] == 0, made.ended["named"][1]
    text = _unpacked(made.folder / "named.tar.gz")
    assert f"{made.cgroup}/{_UNIT}_x.service" in text
    assert [secret for secret in (_PROGRAM, _TITLE) if secret in text] == []


@pytest.mark.attack("have root overwrite a file of its own through a link in the way of a recording")
def test_a_planted_link_is_not_written_through(made: Made) -> None:
    assert made.ended["planted"][0] == 0, made.ended["planted"][1]
    assert made.precious.read_text() == "root's own"
    assert not made.planted.is_symlink()
    assert made.planted.stat().st_mode & 0o777 == 0o600


@pytest.mark.attack("have a recording replace a file that came into being while it was made")
def test_a_file_made_meanwhile_is_not_replaced(made: Made) -> None:
    code, said = made.ended["late"]
    assert (code, "file exists" in said) == (4, True), said
    assert made.meanwhile.read_text() == "theirs"
    assert sorted(path.name for path in made.meanwhile.parent.iterdir()) == ["late.tar.gz", "planted.tar.gz"]


@pytest.mark.attack("learn from a recording of a recording where the first one lay")
def test_a_recording_of_a_recording_does_not_say_where_it_lay(made: Made, tmp_path: Path) -> None:
    folder, file = tmp_path / f"{_HOST}_folder", tmp_path / "second.tar.gz"
    folder.mkdir()
    (made.folder / "plain.tar.gz").rename(folder / "first.tar.gz")
    done = zombiescope("record", str(file), "--seconds", "0", "--root", str(folder / "first.tar.gz"))
    assert done.returncode == 0, done.stderr
    text = _unpacked(file)
    assert _HOST not in text
    assert json.loads(text[text.index('{"schema"') :].splitlines()[0])["label"] == "a recording"
