# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os

from tests.build import V2, ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import CgroupNamespace, CgroupNamespaces
from zombiescope.probes.readers.holders import read_cgroup_namespaces

FIRST = 0xEFFFFFFB
PLAIN = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
BOUND = PLAIN + b"2 1 0:4 cgroup:[4026532001] /run/kept\\040here rw - nsfs nsfs rw\n"


def machine(**inodes: int) -> ScriptedHost:
    files: dict[bytes, bytes] = {}
    for number in inodes:
        folder = b"/proc/" + number[1:].encode()
        files[folder + b"/mountinfo"] = PLAIN
        files[folder + b"/cgroup"] = b"0::/pod/" + number[1:].encode() + b"\n"
    return ScriptedHost(
        files, inodes={b"/proc/" + name[1:].encode() + b"/ns/cgroup": inode for name, inode in inodes.items()}
    )


class Refusing(ScriptedHost):
    def inode(self, path: bytes) -> int | None:
        if path == b"/proc/1/ns/cgroup":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
        return super().inode(path)


def test_the_first_namespace_holds_nothing_and_others_are_candidates() -> None:
    found = read_cgroup_namespaces(machine(p1=FIRST, p7=4026532000, p8=4026532000), V2)
    assert found == CgroupNamespaces((CgroupNamespace(4026532000, (7, 8), (), (b"/pod/7", b"/pod/8")),))


def test_a_bind_mount_keeps_one_without_a_process() -> None:
    host = machine(p1=FIRST)
    host.change({b"/proc/1/mountinfo": BOUND})
    found = read_cgroup_namespaces(host, V2)
    assert found == CgroupNamespaces((CgroupNamespace(4026532001, (), (b"/run/kept here",), ()),))


def test_a_refusal_is_a_gap_beside_the_others_or_alone() -> None:
    files = {b"/proc/1/mountinfo": PLAIN, b"/proc/2/mountinfo": PLAIN}
    found = read_cgroup_namespaces(Refusing(files, inodes={b"/proc/2/ns/cgroup": FIRST}), V2)
    assert isinstance(found, CgroupNamespaces)
    assert found.namespaces == () and "1 processes" in found.gaps[0].reason
    assert isinstance(read_cgroup_namespaces(Refusing({b"/proc/1/mountinfo": PLAIN}), V2), Gap)
    assert isinstance(read_cgroup_namespaces(ScriptedHost({b"/etc/x": b""}), V2), Gap)
