# SPDX-License-Identifier: Apache-2.0
"""Names and words: every name that a host knows (its own, its people's, its programs', its units' and cgroups', its addresses), and
which words of a recording name nobody: the allow list, and what is left of a text without it.

Names are read for scrubbing a recording and for searching it afterwards; none of it is kept. Whatever cannot be read gives none.
A word is a run of letters and digits, so `_`, `-`, `.` and `@` part words. Whatever is on no list is a name.
"""

import contextlib
import ipaddress
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import NamedTuple

from zombiescope.host.access import Host, names_or_nothing, read_or_nothing
from zombiescope.host.safe_open import read_shipped

_FIRST_PERSON, _NOBODY = 1000, 65534
_MOST_TEXT, _MOST_TITLE, _MOST_SYMBOLS = 1 << 20, 4096, 64 << 20
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
        return chain.from_iterable(self)


NOBODY = KnownNames()


def read_known_names(host: Host) -> KnownNames:
    name, other = (_read(host, path).strip() for path in (b"/proc/sys/kernel/hostname", b"/etc/hostname"))
    lines = (line.split(b"#")[0].split() for line in _lines(host, b"/etc/hosts"))
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
    lines = map(bytes.split, read_or_nothing(host, b"/proc/kallsyms", _MOST_SYMBOLS).split(b"\n"))
    return frozenset(words[2].decode("ascii", "replace") for words in lines if len(words) > 2)


_NODE = re.compile(rb"--(?:hostname-override|node-name)[=\0]([A-Za-z0-9.-]+)\0")
_PODS = b"/var/log/pods"
_OF_EVERY_CLUSTER = {b"default", b"kube-system", b"kube-public", b"kube-node-lease", b"kube-proxy", b"coredns"}


def _node_names(host: Host) -> set[bytes]:
    """As a kubelet was told to call this machine in its cluster."""
    titles = (_read(host, process + b"/cmdline")[:_MOST_TITLE] for process in _processes(host))
    return {name for title in titles for name in _NODE.findall(title)}


def _pods(host: Host) -> set[bytes]:
    """As kubelet names its log folders. What a pod's name begins with may be its workload's."""
    found: set[bytes] = set()
    for folder in names_or_nothing(host, _PODS):
        namespace, _, rest = folder.partition(b"_")
        if name := rest.rpartition(b"_")[0]:
            words = name.split(b"-")
            found |= {namespace, *(b"-".join(words[:count]) for count in range(1, len(words) + 1))}
            found.update(names_or_nothing(host, _PODS + b"/" + folder))
    return found - {b""}


def _domains(host: Host, hosts: Iterable[bytes]) -> set[bytes]:
    found = {_read(host, b"/proc/sys/kernel/domainname").strip(), *(name.partition(b".")[2] for name in hosts)}
    for first, *words in filter(None, map(bytes.split, _lines(host, b"/etc/resolv.conf"))):
        if first in (b"search", b"domain"):
            found.update(word.strip(b".") for word in words)
    return found - set(_ORDINARY)


def _people(host: Host) -> set[bytes]:
    found: set[bytes] = set()
    for line in (*_lines(host, b"/etc/passwd"), *_lines(host, b"/etc/group")):
        fields = line.split(b":")
        if len(fields) >= 4 and fields[2].isdigit() and _FIRST_PERSON <= int(fields[2]) != _NOBODY:
            found |= {fields[0], *(field.rpartition(b"/")[2] for field in fields[5:6])}
    return found - {b""}


def _programs(host: Host) -> set[bytes]:
    """Names as the kernel has them, and as the programs call themselves; threads too have a name, but of the same program."""
    found: set[bytes] = set()
    for process in _processes(host):
        title = _read(host, process + b"/cmdline")[:_MOST_TITLE].split(b"\0")[0]
        found |= {_read(host, process + b"/comm").strip(), title.rpartition(b"/")[2]}
    return found - {b""}


def _processes(host: Host) -> list[bytes]:
    return [b"/proc/" + name for name in names_or_nothing(host, b"/proc") if name.isdigit()]


class _Mount(NamedTuple):
    kind: bytes
    root: bytes
    point: bytes
    source: bytes


def _mounts(host: Host) -> Iterator[_Mount]:
    for line in _lines(host, b"/proc/self/mountinfo"):
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
    words = {line[0] for line in table}
    words.update(re.findall(rb"(?:\d{1,3}\.){3}\d{1,3}", _read(host, b"/proc/net/fib_trie")))
    for line in filter(None, _lines(host, b"/proc/net/if_inet6")):
        words.add(b":".join(line[at : at + 4] for at in range(0, 32, 4)))
    for line in _lines(host, b"/etc/resolv.conf"):
        words.update(line.split()[1:2] if line.startswith(b"nameserver") else ())
    names = (line.partition(b":")[0].strip() for line in _lines(host, b"/proc/net/dev")[2:])
    cards = {_read(host, b"/sys/class/net/" + name + b"/address").strip() for name in names if name}
    return {address for word in words for address in _foreign(word)} | (cards - {b"", b"00:00:00:00:00:00"})


def _foreign(word: bytes) -> Iterator[bytes]:
    """The address, where it is not everybody's: loopback, nowhere, or the first and last of a network."""
    try:
        address = ipaddress.ip_address(word.decode("ascii"))
    except (UnicodeDecodeError, ValueError):
        return
    if not (address.is_loopback or address.is_unspecified or address.is_multicast or address.is_reserved):
        yield str(address).encode()


def _read(host: Host, path: bytes) -> bytes:
    return read_or_nothing(host, path)[:_MOST_TEXT]


def _lines(host: Host, path: bytes) -> list[bytes]:
    return _read(host, path).split(b"\n")


WORD = rb"[A-Za-z0-9\x80-\xff]+"
SHORTEST = 3
"""Letters. A name of one or two is in every text by chance (`id`, `io`, `vm`): it tells nobody apart, and is not searched for."""
UID = rb"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}(?![0-9A-Za-z])"
ID = re.compile(rb"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{6,}")
"""A word that is an id: letters and digits of a hexadecimal number."""
ID_INSIDE = re.compile(rb"((?=[a-f]*[0-9])[0-9a-f]{8,})")
_UIDS = re.compile(UID)
_ALLOWED_WORDS = re.compile(WORD)
_NUMBERED = re.compile(rb"([^0-9]+)[0-9]+")
_LETTERS = re.compile(rb"[^0-9]+")


@cache
def kept_words() -> frozenset[bytes]:
    """What our own strings spell out, what every Linux system spells out, and the units and programs of the knowledge base."""
    listed = read_shipped("own_words.txt") + b"\n" + re.sub(rb"#[^\n]*", b"", read_shipped("system_words.txt"))
    return frozenset(word for text in (listed, *_known_agents()) for word in _ALLOWED_WORDS.findall(text.lower()))


def _known_agents() -> Iterable[bytes]:
    """Units and programs are public names; what else the knowledge base says are conditions."""
    base = tomllib.loads(read_shipped("agents.toml").decode("utf-8"))
    for entry in [*base.get("agent", ()), *base.get("role", ())]:
        lists = [entry.get(key, ()) for key in ("if", "needed_if", "unneeded_if", "contested_if")]
        conditions = [
            said for some in lists for part in (some.values() if isinstance(some, dict) else [some]) for said in part
        ]
        named = [said for said in conditions if said.lstrip("!").startswith(("unit:", "installed:", "program:"))]
        yield from (name.encode() for name in [*entry.get("units", ()), *named])


def may_stay(word: bytes, kept: frozenset[bytes] | set[bytes]) -> bool:
    """A number, one letter, a listed word; and each of these with a number behind."""
    low = word.lower()
    if low in kept or low.isdigit() or len(low) == 1:
        return True
    numbered = _NUMBERED.fullmatch(low)
    return numbered is not None and (len(numbered[1]) == 1 or numbered[1] in kept)


def is_name(name: bytes, kept: frozenset[bytes] | set[bytes]) -> bool:
    """Of a host, a domain or a person: listed words too name one when several stand together, as in `ip-10-0-0-7`."""
    return len(_ALLOWED_WORDS.findall(name)) > 1 or bool(telling(name, kept))


def telling(text: bytes, kept: frozenset[bytes] | set[bytes], shortest: int = SHORTEST) -> set[bytes]:
    """What of a text tells one name from another: words without the number behind, and the parts of mixed ones."""
    low = text.lower()
    found = {uid.replace(b"-", b"").replace(b"_", b"") for uid in _UIDS.findall(low)}
    for word in set(_ALLOWED_WORDS.findall(_UIDS.sub(b" ", low) if found else low)):
        if not may_stay(word, kept):
            if ID.fullmatch(word):  # told by the whole of it: parts of ids are alike by chance
                found.add(word)
                continue
            numbered = _NUMBERED.fullmatch(word)
            found.add(numbered[1] if numbered else word)
            found.update(letters for part in ID_INSIDE.split(word)[::2] for letters in _LETTERS.findall(part))
    return {word for word in found if len(word) >= shortest and not may_stay(word, kept)}
