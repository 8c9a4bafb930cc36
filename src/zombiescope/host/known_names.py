# SPDX-License-Identifier: Apache-2.0
"""Every name that a host knows: its own, its people's, its programs', its units' and cgroups', its addresses.

Read for scrubbing a recording and for searching it afterwards; none of it is kept. Whatever cannot be read gives no names.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zombiescope.host.access import Host

_FIRST_PERSON, _NOBODY = 1000, 65534
_MOST_TEXT = 1 << 20
_MOST_TITLE = 4096
_MOST_SYMBOLS = 64 << 20
_ORDINARY = (b"localhost", b"(none)", b"")
_MOUNT_ROOT, _MOUNT_POINT, _SOURCE = 3, 4, 1


class KnownNames(NamedTuple):
    hosts: tuple[bytes, ...] = ()
    domains: tuple[bytes, ...] = ()
    users: tuple[bytes, ...] = ()
    """Accounts and groups of people (from 1000 on), and their home folders."""
    neighbours: tuple[bytes, ...] = ()
    """Other machines that /etc/hosts and the mounts name."""
    programs: tuple[bytes, ...] = ()
    cgroups: tuple[bytes, ...] = ()
    """Paths: names of units are among them."""
    addresses: tuple[bytes, ...] = ()
    pods: tuple[bytes, ...] = ()
    """Of pods, their namespaces, workloads and containers."""

    def everything(self) -> Iterator[bytes]:
        for names in self:
            yield from names


NOBODY = KnownNames()


def read_known_names(host: Host) -> KnownNames:
    name, other = (_read(host, path).strip() for path in (b"/proc/sys/kernel/hostname", b"/etc/hostname"))
    lines = [line.split(b"#")[0].split() for line in _read(host, b"/etc/hosts").split(b"\n")]
    table = [words for words in lines if len(words) > 1]
    full = {alias for words in table for alias in words[1:] if {name, other} & set(words[1:]) - set(_ORDINARY)}
    hosts = {
        form for whole in {name, other, *full, *_node_names(host)} for form in (whole, whole.split(b".")[0])
    } - set(_ORDINARY)
    mounts = list(_mounts(host))
    others = {alias for words in table for alias in words[1:]} | {field for mount in mounts for field in mount[1:]}
    return KnownNames(
        tuple(sorted(hosts)),
        tuple(sorted(_domains(host, hosts))),
        tuple(sorted(_people(host))),
        tuple(sorted(others)),
        tuple(sorted(_programs(host))),
        tuple(sorted(_cgroups(host, mounts))),
        tuple(sorted(_addresses(host, table))),
        tuple(sorted(_pods(host) - _OF_EVERY_CLUSTER)),
    )


def kernel_symbols(host: Host) -> frozenset[str]:
    """The kernel's functions: public names, and what call chains are made of."""
    try:
        table = host.read(b"/proc/kallsyms", _MOST_SYMBOLS)
    except OSError:
        return frozenset()
    return frozenset(
        words[2].decode("ascii", "replace") for line in table.split(b"\n") if len(words := line.split()) > 2
    )


_NODE = re.compile(rb"--(?:hostname-override|node-name)[=\0]([A-Za-z0-9.-]+)\0")
_PODS = b"/var/log/pods"
_OF_EVERY_CLUSTER = {b"default", b"kube-system", b"kube-public", b"kube-node-lease", b"kube-proxy", b"coredns"}


def _node_names(host: Host) -> set[bytes]:
    """As a kubelet was told to call this machine in its cluster."""
    found: set[bytes] = set()
    for process in _list(host, b"/proc"):
        if process.isdigit():
            found.update(_NODE.findall(_read(host, b"/proc/" + process + b"/cmdline")[:_MOST_TITLE]))
    return found


def _pods(host: Host) -> set[bytes]:
    """As kubelet names its log folders. What a pod's name begins with may be its workload's."""
    found: set[bytes] = set()
    for folder in _list(host, _PODS):
        namespace, _, rest = folder.partition(b"_")
        name = rest.rpartition(b"_")[0]
        if not name:
            continue
        words = name.split(b"-")
        found |= {namespace, *(b"-".join(words[:count]) for count in range(1, len(words) + 1))}
        found.update(_list(host, _PODS + b"/" + folder))
    return found - {b""}


def _domains(host: Host, hosts: Iterable[bytes]) -> set[bytes]:
    found = {_read(host, b"/proc/sys/kernel/domainname").strip()}
    found |= {name.partition(b".")[2] for name in hosts}
    for line in _read(host, b"/etc/resolv.conf").split(b"\n"):
        words = line.split()
        if words and words[0] in (b"search", b"domain"):
            found.update(word.strip(b".") for word in words[1:])
    return found - set(_ORDINARY)


def _people(host: Host) -> set[bytes]:
    found: set[bytes] = set()
    for path in (b"/etc/passwd", b"/etc/group"):
        for line in _read(host, path).split(b"\n"):
            fields = line.split(b":")
            if len(fields) >= 4 and fields[2].isdigit() and _FIRST_PERSON <= int(fields[2]) != _NOBODY:
                found |= {fields[0], *(field.rpartition(b"/")[2] for field in fields[5:6])}
    return found - {b""}


def _programs(host: Host) -> set[bytes]:
    """Names as the kernel has them, and as the programs call themselves; threads too have a name, but of the same program."""
    found: set[bytes] = set()
    for process in _list(host, b"/proc"):
        if process.isdigit():
            found.add(_read(host, b"/proc/" + process + b"/comm").strip())
            title = _read(host, b"/proc/" + process + b"/cmdline")[:_MOST_TITLE].split(b"\0")[0]
            found.add(title.rpartition(b"/")[2])
    return found - {b""}


class _Mount(NamedTuple):
    kind: bytes
    root: bytes
    point: bytes
    source: bytes


def _mounts(host: Host) -> Iterator[_Mount]:
    for line in _read(host, b"/proc/self/mountinfo").split(b"\n"):
        before, separator, after = line.partition(b" - ")
        left, right = before.split(b" "), after.split(b" ")
        if separator and len(left) > _MOUNT_POINT and len(right) > _SOURCE:
            yield _Mount(right[0], left[_MOUNT_ROOT], left[_MOUNT_POINT], right[_SOURCE])


def _cgroups(host: Host, mounts: Iterable[_Mount]) -> set[bytes]:
    found: set[bytes] = set()
    for mount in mounts:
        if mount.kind in (b"cgroup", b"cgroup2"):
            found.add(mount.root)
            with contextlib.suppress(OSError):
                found.update(host.directories(mount.point).paths)
    return found - {b"/"}


def _addresses(host: Host, table: Iterable[list[bytes]]) -> set[bytes]:
    """Of the machine's interfaces and of the machines it has a name for, written as programs write them."""
    words = set(re.findall(rb"(?:\d{1,3}\.){3}\d{1,3}", _read(host, b"/proc/net/fib_trie")))
    words |= {line[0] for line in table}
    for line in _read(host, b"/proc/net/if_inet6").split(b"\n"):
        if line:
            words.add(b":".join(line[at : at + 4] for at in range(0, 32, 4)))
    for line in _read(host, b"/etc/resolv.conf").split(b"\n"):
        words.update(line.split()[1:2] if line.startswith(b"nameserver") else ())
    cards = {_read(host, b"/sys/class/net/" + name + b"/address").strip() for name in _interfaces(host)}
    return {address for word in words for address in _foreign(word)} | (cards - {b"", b"00:00:00:00:00:00"})


def _interfaces(host: Host) -> Iterator[bytes]:
    for line in _read(host, b"/proc/net/dev").split(b"\n")[2:]:
        name = line.partition(b":")[0].strip()
        if name:
            yield name


def _foreign(word: bytes) -> Iterator[bytes]:
    """The address, where it is not everybody's: loopback, nowhere, or the first and last of a network."""
    try:
        address = ipaddress.ip_address(word.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        return
    if not (address.is_loopback or address.is_unspecified or address.is_multicast or address.is_reserved):
        yield str(address).encode()


def _read(host: Host, path: bytes) -> bytes:
    try:
        return host.read(path)[:_MOST_TEXT]
    except OSError:
        return b""


def _list(host: Host, path: bytes) -> list[bytes]:
    try:
        return host.subdirectories(path)
    except OSError:
        return []
