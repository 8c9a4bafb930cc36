# SPDX-License-Identifier: Apache-2.0
"""Takes out of a recording what tells who and where: host names, addresses, user names, command lines.

The same name becomes the same substitute everywhere, in paths and in contents, so a scrubbed machine still fits together. Files
that hold only the kernel's own words and numbers pass as they are: a host named `memory` must not spoil /proc/cgroups.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from zombiescope.host.access import Host
from zombiescope.host.recording import bytes_of, text_of

_FIRST_PERSON, _NOBODY = 1000, 65534
_KERNELS_OWN = (b"memory.", b"cgroup.", b"uptime", b"osrelease", b"boot_id", b"possible", b"online")
_NEVER_KEPT = re.compile(rb"/proc/[^/]+/(cmdline|environ|comm)")
_MOUNT_TABLE = re.compile(rb"/proc/[^/]+/mountinfo")
_MAC = re.compile(rb"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])")
_IPV4 = re.compile(rb"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IPV6 = re.compile(rb"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])")
_MAIL = re.compile(rb"[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}")
_UNIT_AT = re.compile(rb"\.(service|slice|scope|socket|mount|timer|target|device|swap|path)$")
_ORDINARY_HOSTS = (b"localhost", b"(none)", b"")


class Scrubber:
    def __init__(self, hosts: list[bytes], users: list[bytes]) -> None:
        self._substitutes: dict[bytes, bytes] = {}
        self._counts: dict[bytes, int] = {}
        self._paths: dict[bytes, bytes] = {}
        names = {name: b"host" for name in hosts if name not in _ORDINARY_HOSTS}
        names |= {name: b"user" for name in users if name}
        for name in sorted(names, key=len, reverse=True):
            self._substitute(name, names[name] + b"%d")
        # Longest first: a full host name goes before its first label.
        alternatives = b"|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        self._names = re.compile(rb"(?<![A-Za-z0-9_])(?:" + alternatives + rb")(?![A-Za-z0-9_])") if names else None

    def path(self, path: bytes) -> bytes:
        found = self._paths.get(path)
        if found is None:
            found = self._paths[path] = self._text(path)
        return found

    def content(self, path: bytes, content: bytes) -> bytes:
        if path == b"/proc/sys/kernel/hostname":
            return self._names.sub(self._known, content) if self._names else content
        if path == b"/proc/cgroups" or path.rpartition(b"/")[2].startswith(_KERNELS_OWN):
            return content
        if path == b"/proc/stat":
            return _core_lines(content)
        if _NEVER_KEPT.fullmatch(path):
            return b""
        if _MOUNT_TABLE.fullmatch(path):
            return b"\n".join(map(self._mount, content.split(b"\n")))
        return self._text(content)

    def outcome(self, value: Any) -> Any:
        """Every string inside a JSON value."""
        match value:
            case str():
                return text_of(self._text(bytes_of(value)))
            case list():
                return [self.outcome(entry) for entry in value]
            case dict():
                return {key: self.outcome(entry) for key, entry in value.items()}
            case _:
                return value

    def _mount(self, line: bytes) -> bytes:
        """Mount points are scrubbed as paths; sources and options of anything but cgroups may hold servers and accounts."""
        before, separator, after = line.partition(b" - ")
        left, right = before.split(b" "), after.split(b" ")
        if not separator or len(left) < 6 or len(right) < 3:
            return b""
        left[3:5] = [self._text(field) for field in left[3:5]]
        if right[0] not in (b"cgroup", b"cgroup2"):
            right = [right[0], b"-", right[2].split(b",")[0] if right[2].split(b",")[0] in (b"rw", b"ro") else b"-"]
        return b" ".join(left) + separator + b" ".join(right)

    def _text(self, text: bytes) -> bytes:
        if self._names:
            text = self._names.sub(self._known, text)
        # A host may have a hundred thousand paths: what cannot be there is not searched for.
        if b"@" in text:
            text = _MAIL.sub(self._mail, text)
        if text.count(b".") >= 3:
            text = _IPV4.sub(self._address(b"192.0.2.%d"), text)
        if text.count(b":") < 2:
            return text
        text = _MAC.sub(lambda match: self._substitute(match[0], b"02:00:00:00:00:%02x"), text)
        return _IPV6.sub(self._address(b"2001:db8::%x"), text)

    def _known(self, match: re.Match[bytes]) -> bytes:
        return self._substitutes[match[0]]

    def _mail(self, match: re.Match[bytes]) -> bytes:
        """A unit's instance such as user@1000.service only looks like an address."""
        return match[0] if _UNIT_AT.search(match[0]) else self._substitute(match[0], b"user%d@example.org")

    def _address(self, form: bytes) -> Callable[[re.Match[bytes]], bytes]:
        def replace(match: re.Match[bytes]) -> bytes:
            try:
                address = ipaddress.ip_address(match[0].decode("ascii"))
            except ValueError:
                return match[0]
            return match[0] if address.is_loopback or address.is_unspecified else self._substitute(match[0], form)

        return replace

    def _substitute(self, original: bytes, form: bytes) -> bytes:
        if original not in self._substitutes:
            self._counts[form] = self._counts.get(form, 0) + 1
            self._substitutes[original] = form % self._counts[form]
        return self._substitutes[original]

    @property
    def taken_out(self) -> int:
        """How many different names and addresses."""
        return len(self._substitutes)


def scrubber_for(host: Host) -> Scrubber:
    """Knows the machine's own name and its people; both files are read here and not kept."""
    name = _read(host, b"/proc/sys/kernel/hostname").strip()
    other = _read(host, b"/etc/hostname").strip()
    hosts = [form for full in (name, other) for form in (full, full.split(b".")[0])]
    users = []
    for line in _read(host, b"/etc/passwd").split(b"\n"):
        fields = line.split(b":")
        if len(fields) >= 6 and fields[2].isdigit() and _FIRST_PERSON <= int(fields[2]) != _NOBODY:
            users += [fields[0], fields[5].rpartition(b"/")[2]]
    return Scrubber(hosts, users)


def _read(host: Host, path: bytes) -> bytes:
    try:
        return host.read(path)
    except OSError:
        return b""


def _core_lines(content: bytes) -> bytes:
    """Of /proc/stat the cores alone: it is kept many times a second, and nine tenths of it count interrupts."""
    return b"".join(line for line in content.splitlines(keepends=True) if line.startswith(b"cpu"))
