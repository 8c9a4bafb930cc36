# SPDX-License-Identifier: Apache-2.0
"""Takes out of a recording what tells who and where, by allow list: what may stay is listed, every other word is a name.

The same name becomes the same substitute everywhere, in paths, contents and keys, so a scrubbed machine still fits together; its
shape stays too (numbers, kinds of units, ids of the same length), so that makers fold as they did. Files that hold only the
kernel's own words and numbers pass as they are: a host named `memory` must not spoil /proc/cgroups.
"""

import hashlib
import ipaddress
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from zombiescope.host.known_names import (
    ID,
    ID_INSIDE,
    NOBODY,
    UID,
    WORD,
    KnownNames,
    is_name,
    kept_words,
    may_stay,
    telling,
)
from zombiescope.host.recording import bytes_of, text_of

_KERNELS_OWN = re.compile(
    rb"/proc/(?:cgroups|uptime|meminfo|vmstat|softirqs|pressure/\w+|net/softnet_stat|sysvipc/shm|sys/kernel/(?:dmesg_restrict|random/boot_id))"
    rb"|/proc/[^/]+/(?:task/[^/]+/)?schedstat|/sys/devices/system/.*/(?:possible|online|present|meminfo)|/sys/class/net/.*/tx_timeout"
    rb"|(?:/sys/fs|/dev)?/cgroup/(?:.*/)?(?:memory|cgroup|cpu|cpuacct|cpuset|io|pids)\.[^/]+",
    re.DOTALL,
)
_NEVER_KEPT = re.compile(rb"/proc/[^/]+/(?:task/[^/]+/)?(cmdline|environ|comm)")
_STAT_OF_A_TASK = re.compile(rb"/proc/[^/]+/(?:task/[^/]+/)?stat")
_MOUNT_TABLE = re.compile(rb"/proc/[^/]+/mountinfo")
_MAC = rb"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:])"
_IPV4 = rb"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
_IPV6 = rb"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])"
_MAIL = rb"[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,}"
_COMMON = (
    rb"(?P<workload>workload:[^/\s\"]+/[A-Za-z]+/[^/\s\"]+)|"
    rb"(?P<home>(?<=/home/)[^/\s\"]+)|(?P<escaped>(?:\\x[0-9a-f]{2})+)"
    rb"|(?P<uid>" + UID + rb")|(?P<pod>pod(?=" + UID + rb"|[0-9a-f]{32}(?![0-9A-Za-z])))|(?P<word>" + WORD + rb")"
)
_RARE = rb"(?P<mail>" + _MAIL + rb")|(?P<mac>" + _MAC + rb")|(?P<address>" + _IPV4 + rb"|" + _IPV6 + rb")"
_UNIT_AT = re.compile(rb"\.(service|slice|scope|socket|mount|timer|target|device|swap|path)$")
_UNIT = re.compile(rb"[A-Za-z0-9:_.\\@-]+\.(?:service|scope|slice|socket|mount|swap|timer|target)")
_LETTERS = re.compile(rb"[^0-9]+")
_MAKERS, _PODS = "remains", "pods"
_OF_EVERY_CLUSTER = (b"default", b"kube-system", b"kube-public", b"kube-node-lease", b"*")
_SYMBOLS = "kernel_stacks"
_EXAMPLES = {4: b"192.0.2.%d", 6: b"2001:db8::%x"}
_ALPHABET = "ghjkmnpqrstvwxz"
"""No vowel, so that a substitute is no word; no hexadecimal digit, so that it never looks like part of an id."""


class Scrubber:
    def __init__(
        self,
        known: KnownNames = NOBODY,
        *,
        keeps_names: bool = False,
        symbols: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`keeps_names`: names of units and cgroups may stay, once `learn` has seen them. `symbols`: the kernel's functions."""
        self.keeps_names = keeps_names
        self.kept = set(kept_words())
        self._known, self._symbols = known, symbols
        self._avoided = telling(b"\n".join(known.everything()), self.kept)
        self._fresh = self._pseudonyms()
        # A recording of a recording meets the ids that were drawn for that one: it draws others.
        self._salt = hashlib.sha256(b"\0".join(known.everything())).digest()
        self._substitutes: dict[bytes, bytes] = {}
        self._counts: Counter[bytes] = Counter()
        self._words: dict[bytes, bytes] = {}
        self._names: dict[bytes, bytes] = {}
        self._texts: dict[bytes, bytes] = {}
        # How what the pattern has found is replaced, by the name of its group.
        self._by_kind: dict[str, Callable[[bytes], bytes]] = {
            "word": self._remembered_word,
            "workload": self._workload,
            "known": self._substitutes.__getitem__,
            "home": lambda text: self._substitute(text, b"user%d"),
            "uid": self._id,
            "pod": lambda text: text,
            "escaped": self._escaped,
            "mail": self._mail,
            "mac": lambda text: self._substitute(text, b"02:00:00:00:00:%02x"),
            "address": self._address,
        }
        self._pods = frozenset(() if keeps_names else known.pods)
        kinds = [
            (self._pods, b"pod%d"), (known.domains, b"domain%d.example"), (known.hosts, b"host%d"), (known.users, b"user%d"),
        ]  # fmt: skip
        forms = {name: form for names, form in kinds for name in names if is_name(name, self.kept)}
        longest_first = sorted(forms, key=lambda name: (-len(name), name))
        for name in longest_first:
            self._substitute(name, forms[name])
        whole = b"|".join(re.escape(name) for name in longest_first)
        named = rb"(?P<known>(?<![A-Za-z0-9])(?:" + whole + rb")(?![A-Za-z0-9]))|" if whole else b""
        self._common = re.compile(named + _COMMON)
        self._all = re.compile(named + _RARE + rb"|" + _COMMON)
        self.learn(known.cgroups)

    def learn(self, names: Iterable[bytes]) -> None:
        """Names of units and cgroups that may stay, where a person asked for that; never those of people and hosts."""
        if self.keeps_names:
            words = telling(b"\n".join(names), self.kept, shortest=1)
            people = b"\n".join((*self._known.users, *self._known.hosts, *self._known.domains))
            self.kept |= words - telling(people, self.kept, shortest=1)
            self._words.clear()
            self._texts.clear()

    def learn_outcome(self, name: str, value: Any) -> None:
        """Units that an experiment tells of, and makers."""
        if self.keeps_names:
            texts = list(strings_of(value))
            self.learn(texts if name == _MAKERS else [unit for text in texts for unit in _UNIT.findall(text)])

    def path(self, path: bytes) -> bytes:
        """Remembered: a host may have a hundred thousand, each asked about several times."""
        if path not in self._texts:
            self._texts[path] = self.text(path)
        return self._texts[path]

    def content(self, path: bytes, content: bytes) -> bytes:
        if path == b"/proc/sys/kernel/hostname":
            name = content.strip()
            return content if name in (b"", b"localhost", b"(none)") else self._substitute(name, b"host%d") + b"\n"
        if path == b"/proc/stat":
            return _core_lines(content)
        if is_kernels_own(path):
            return content
        if _NEVER_KEPT.fullmatch(path):
            return b""
        if _STAT_OF_A_TASK.fullmatch(path):
            return self._task(content)
        if _MOUNT_TABLE.fullmatch(path):
            return b"\n".join(map(self._mount, content.split(b"\n")))
        return self.text(content)

    def outcome(self, name: str, value: Any) -> Any:
        """Every string inside a JSON value, keys too."""
        return self._cleaned(
            self._without_pods(value) if name == _PODS else value,
            self._symbols() if name == _SYMBOLS else frozenset(),
        )

    def _without_pods(self, value: Any) -> Any:
        """Where each text is a name or a list of them, a name goes also if it is an everyday word."""
        match value:
            case str():
                parts = bytes_of(value).split(b"/")
                is_named = all(part in self._pods or part in _OF_EVERY_CLUSTER for part in parts)
                return text_of(b"/".join(map(self._pod, parts))) if is_named else value
            case list() | tuple():
                return [self._without_pods(entry) for entry in value]
            case dict():
                return {key: self._without_pods(entry) for key, entry in value.items()}
            case _:
                return value

    def _pod(self, name: bytes) -> bytes:
        return name if name in _OF_EVERY_CLUSTER else self._substitute(name, b"pod%d")

    def _workload(self, maker: bytes) -> bytes:
        """`workload:NAMESPACE/KIND/NAME`: the kind is Kubernetes' own word."""
        if self.keeps_names:
            return maker
        namespace, kind, name = maker.removeprefix(b"workload:").split(b"/", 2)
        return b"workload:%s/%s/%s" % (self._pod(namespace), kind, self._pod(name))

    def _cleaned(self, value: Any, symbols: frozenset[str]) -> Any:
        match value:
            case str():
                return value if value in symbols else text_of(self.path(bytes_of(value)))
            case list() | tuple():
                return [self._cleaned(entry, symbols) for entry in value]
            case dict():
                return {self._cleaned(key, symbols): self._cleaned(entry, symbols) for key, entry in value.items()}
            case _:
                return value

    def text(self, text: bytes) -> bytes:
        # What cannot be there is not searched for: addresses are rare, and dear to look for.
        may_have_address = b"@" in text or text.count(b".") >= 3 or text.count(b":") >= 2
        return (self._all if may_have_address else self._common).sub(self._replaced, text)

    def _task(self, content: bytes) -> bytes:
        """The name stands in brackets and may hold brackets itself: the last one ends it."""
        before, opening, rest = content.partition(b"(")
        name, closing, after = rest.rpartition(b")")
        return before + opening + self.path(name) + closing + after if opening and closing else b""

    def _mount(self, line: bytes) -> bytes:
        """Mount points are scrubbed as paths; sources and options of anything but cgroups may hold servers and accounts."""
        before, separator, after = line.partition(b" - ")
        left, right = before.split(b" "), after.split(b" ")
        if not separator or len(left) < 6 or len(right) < 3:
            return b""
        left[3:] = [self.text(field) for field in left[3:]]
        if right[0] not in (b"cgroup", b"cgroup2"):
            right[1:] = [b"-", right[2].split(b",")[0] if right[2].split(b",")[0] in (b"rw", b"ro") else b"-"]
        return b" ".join(left) + separator + b" ".join(self.text(field) for field in right)

    def _replaced(self, match: re.Match[bytes]) -> bytes:
        return self._by_kind[match.lastgroup or "pod"](match[0])

    def _mail(self, text: bytes) -> bytes:
        """A unit's instance such as user@1000.service only looks like one."""
        is_unit = _UNIT_AT.search(text)
        return self._common.sub(self._replaced, text) if is_unit else self._substitute(text, b"user%d@example.org")

    def _remembered_word(self, word: bytes) -> bytes:
        if word not in self._words:
            self._words[word] = self._word(word)
        return self._words[word]

    def _word(self, word: bytes) -> bytes:
        if may_stay(word, self.kept):
            return word
        if ID.fullmatch(word):
            return self._id(word)
        parts = ID_INSIDE.split(word)
        parts[1::2] = [part if part.isdigit() else self._id(part) for part in parts[1::2]]
        # One letter before an id is systemd's, as in run-r0123456789ab.scope.
        parts[::2] = [
            part if len(part) == 1 < len(parts) else _LETTERS.sub(lambda match: self._name(match[0]), part)
            for part in parts[::2]
        ]
        return b"".join(parts)

    def _name(self, name: bytes) -> bytes:
        if name.lower() in self.kept and self.keeps_names:
            return name
        if name not in self._names:
            self._names[name] = next(self._fresh)
        return self._names[name]

    def _id(self, original: bytes) -> bytes:
        """Of the same length, and parted where it was."""
        if self.keeps_names:
            return original
        plain = original.replace(b"-", b"").replace(b"_", b"")
        if plain not in self._substitutes:
            drawn = (
                hashlib.shake_256(b"%s%d" % (self._salt, number)).hexdigest(64)[: len(plain)].encode()
                for number in itertools.count(len(self._substitutes) * 1000)
            )
            self._substitutes[plain] = next(made for made in drawn if ID.fullmatch(made))
        fresh = iter(self._substitutes[plain])
        return bytes(byte if byte in b"-_" else next(fresh) for byte in original)

    def _escaped(self, text: bytes) -> bytes:
        r"""`\x2d` of systemd is a dash; what stands for a letter is part of a name."""
        codes = (int(code, 16) for code in text.split(b"\\x")[1:])
        is_name = any(code >= 0x80 or chr(code).isalnum() for code in codes)
        return self._name(text) if is_name and not self.keeps_names else text

    def _address(self, text: bytes) -> bytes:
        try:
            address = ipaddress.ip_address(text.decode("ascii"))
        except ValueError:
            return self._common.sub(self._replaced, text)
        is_everybodys = address.is_loopback or address.is_unspecified
        return text if is_everybodys else self._substitute(text, _EXAMPLES[address.version])

    def _substitute(self, original: bytes, form: bytes) -> bytes:
        if original not in self._substitutes:
            self._counts[form] += 1
            self._substitutes[original] = form % self._counts[form]
        return self._substitutes[original]

    def _pseudonyms(self) -> Iterator[bytes]:
        for length in itertools.count(3):
            made = ("".join(letters).encode() for letters in itertools.product(_ALPHABET, repeat=length))
            yield from (name for name in made if name not in self.kept and name not in self._avoided)

    @property
    def taken_out(self) -> int:
        """How many different names, ids and addresses."""
        return len(self._substitutes) + len(self._names)


def is_kernels_own(path: bytes) -> bool:
    """Only the kernel's words and numbers are in it: nobody can write a name there."""
    return _KERNELS_OWN.fullmatch(path) is not None


def strings_of(value: Any) -> Iterator[bytes]:
    """Every text inside a JSON value, keys too."""
    match value:
        case str():
            yield bytes_of(value)
        case list() | tuple():
            for entry in value:
                yield from strings_of(entry)
        case dict():
            yield from strings_of([part for pair in value.items() for part in pair])
        case _:
            return


def _core_lines(content: bytes) -> bytes:
    """Of /proc/stat the cores alone: it is kept many times a second, and nine tenths of it count interrupts."""
    return b"".join(line for line in content.splitlines(keepends=True) if line.startswith(b"cpu"))
