# SPDX-License-Identifier: Apache-2.0
"""Unit files as systemd finds and reads them: where it looks, in its order, and what it finds there (unit entries, `.wants`
links, drop-in folders); and their text and drop-ins: comments, continued lines, quoted nothing.

systemd.unit(5), "Unit File Load Path", for the system manager. A folder seen through a link (`/lib` on a merged system) counts
once. A line that systemd would ignore is ignored and named, never guessed at.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zombiescope.facts.units import Setting, UnitFile
from zombiescope.host.files import Entry, Files, Kind

MOST_SETTINGS = 5_000
"""Of one file: fifty times what the largest of a distribution has."""
_NAME = re.compile(
    r"[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)", re.ASCII
)


def is_unit_name(name: str) -> bool:
    return 0 < len(name) <= 255 and name[0] not in ".@" and bool(_NAME.fullmatch(name))


def template_of(name: str) -> str:
    """`getty@.service` for `getty@tty1.service`; empty when it is no instance."""
    stem, at, rest = name.partition("@")
    instance, dot, kind = rest.rpartition(".")
    return f"{stem}@.{kind}" if at and dot and instance else ""


def parse_settings(data: bytes, origin: str) -> tuple[list[Setting], list[str]]:
    """Every assignment in order, one more than MOST_SETTINGS at the most, and what was ignored."""
    settings: list[Setting] = []
    problems: list[str] = []
    section = ""
    for number, line in _logical_lines(data):
        if line is None:
            problems.append(f"{origin}:{number}: not valid UTF-8, ignored")
        elif line.startswith("["):
            section = line[1:-1] if line.endswith("]") else ""
            if not section:
                problems.append(f"{origin}:{number}: not a section header, ignored")
        elif "=" not in line:
            problems.append(f"{origin}:{number}: not an assignment, ignored")
        elif not section:
            problems.append(f"{origin}:{number}: an assignment outside every section, ignored")
        else:
            key, _, value = line.partition("=")
            settings.append(Setting(section, key.strip(), value.strip(), origin))
            if len(settings) > MOST_SETTINGS:
                break
    return settings, problems[:20]


def _logical_lines(data: bytes) -> Iterator[tuple[int, str | None]]:
    """Lines with continuations joined and comments gone; None for one that is not UTF-8."""
    pending = ""
    start = 0
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if raw.lstrip().startswith((b"#", b";")):
            continue
        try:
            text = raw.decode("utf-8").strip() if not pending else raw.decode("utf-8").rstrip()
        except UnicodeDecodeError:
            pending = ""
            yield number, None
            continue
        if text.endswith("\\"):
            start = start if pending else number
            pending += text[:-1] + " "
            continue
        if line := (pending + text).strip():
            yield start if pending else number, line
        pending = ""
    if pending.strip():
        yield start, pending.strip()


CONFIG = b"/etc/systemd/system"
SEARCH_PATH = (
    b"/etc/systemd/system.control",
    b"/run/systemd/system.control",
    b"/run/systemd/transient",
    b"/run/systemd/generator.early",
    CONFIG,
    b"/etc/systemd/system.attached",
    b"/run/systemd/system",
    b"/run/systemd/system.attached",
    b"/run/systemd/generator",
    b"/usr/local/lib/systemd/system",
    b"/usr/lib/systemd/system",
    b"/lib/systemd/system",
    b"/run/systemd/generator.late",
)
RELATIONS = {b"wants": "Wants", b"requires": "Requires", b"upholds": "Upholds"}
IGNORED = "not a unit name: systemd ignores it"
UNITS_AT_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Place:
    """A unit name in one folder of the search path."""

    folder: bytes
    name: str
    entry: Entry

    @property
    def path(self) -> bytes:
        return self.folder + b"/" + self.name.encode()


@dataclass(slots=True)
class Layout:
    folders: list[bytes] = field(default_factory=list)
    places: dict[str, list[Place]] = field(default_factory=dict)
    """By name, the winner first."""
    links: list[tuple[bytes, str, str, str]] = field(default_factory=list)
    """Folder of the search path, owner, relation, name of the link."""
    drop_in_folders: dict[str, list[bytes]] = field(default_factory=dict)
    """By the name before `.d`, in order of the search path."""


def is_runtime(folder: bytes) -> bool:
    return folder.startswith(b"/run/")


def read_layout(files: Files) -> Layout:
    layout = Layout()
    seen: set[bytes] = set()
    for folder in SEARCH_PATH:
        try:
            real = files.resolve(folder)
        except OSError:
            continue
        if real not in seen:
            seen.add(real)
            layout.folders.append(folder)
            _read_folder(files, folder, layout)
    return layout


def _read_folder(files: Files, folder: bytes, layout: Layout) -> None:
    for raw in files.list(folder):
        path = folder + b"/" + raw
        stem, _, suffix = raw.rpartition(b".")
        if suffix == b"d" and stem:
            layout.drop_in_folders.setdefault(stem.decode("utf-8", "replace"), []).append(path)
            continue
        if suffix in RELATIONS:
            _read_links(files, folder, raw, layout)
            continue
        name = raw.decode("utf-8", "replace")
        entry = files.entry(path)
        if entry is None or entry.kind is Kind.FOLDER:
            continue
        if not is_unit_name(name):
            files.refuse(path, IGNORED)
        elif entry.kind is Kind.OTHER:
            files.refuse(path, f"not a regular file ({entry.kind.value}): not opened")
        elif len(layout.places) >= UNITS_AT_MOST:
            files.refuse(folder, f"more than {UNITS_AT_MOST:,} units: the rest was not read")
            return
        else:
            layout.places.setdefault(name, []).append(Place(folder, name, entry))


def _read_links(files: Files, folder: bytes, raw: bytes, layout: Layout) -> None:
    stem, _, suffix = raw.rpartition(b".")
    owner = stem.decode("utf-8", "replace")
    for link in files.list(folder + b"/" + raw):
        name = link.decode("utf-8", "replace")
        if is_unit_name(name):
            layout.links.append((folder, owner, RELATIONS[suffix], name))
        else:
            files.refuse(folder + b"/" + raw + b"/" + link, IGNORED)


def drop_in_paths(files: Files, layout: Layout, names: list[str]) -> Iterator[bytes]:
    """The drop-ins of a unit known by these names: sorted by file name, the first folder wins, empty ones hide others."""
    folders = (folder for owner in _drop_in_owners(names) for folder in layout.drop_in_folders.get(owner, ()))
    for path in confs_in(files, folders):
        entry = files.entry(path)
        if entry is not None and not (entry.kind is Kind.LINK and entry.target == b"/dev/null"):
            yield path


def confs_in(files: Files, folders: Iterable[bytes]) -> list[bytes]:
    """`*.conf`, sorted by file name: of two with one name, that of the first folder."""
    chosen: dict[bytes, bytes] = {}
    for folder in folders:
        for name in files.list(folder):
            if name.endswith(b".conf"):
                chosen.setdefault(name, folder + b"/" + name)
    return [path for _, path in sorted(chosen.items())]


def _drop_in_owners(names: list[str]) -> list[str]:
    """`a-b@x.service`, then `a-b@.service`, `a-.service`, then `service`: whose `.d` folders speak of a unit."""
    owners: list[str] = []
    for name in names:
        stem, _, kind = name.rpartition(".")
        owners.append(name)
        before, at, instance = stem.partition("@")
        if at and instance:
            owners.append(f"{before}@.{kind}")
        parts = before.split("-")
        owners.extend("-".join(parts[:count]) + f"-.{kind}" for count in range(len(parts) - 1, 0, -1))
    owners.extend(dict.fromkeys(name.rpartition(".")[2] for name in names))
    return list(dict.fromkeys(owners))


_RULES = ("WantedBy", "RequiredBy", "UpheldBy", "Alias")


@dataclass(frozen=True, slots=True)
class _Mark:
    """A link that mentions a unit: in which folder, under which name."""

    folder: bytes
    name: str
    is_same_name: bool


@dataclass(slots=True)
class Enablement:
    layout: Layout
    _marks: dict[str, list[_Mark]] = field(default_factory=lambda: defaultdict(list))
    _linked: set[tuple[bytes, str]] = field(default_factory=set)
    """Folder and name of what is in the `.wants` folders; a mark that is not there is the unit's own entry in the search path."""

    def __post_init__(self) -> None:
        self._linked.update((folder, name) for folder, _, _, name in self.layout.links)
        for folder, _, _, name in self.layout.links:
            for marked in {name, template_of(name)} - {""}:
                self._marks[marked].append(_Mark(folder, name, False))
        for places in self.layout.places.values():
            for place in places:
                if place.entry.kind is Kind.LINK:
                    target = place.entry.target.rpartition(b"/")[2].decode("utf-8", "replace")
                    self._marks[target].append(_Mark(place.folder, place.name, place.name == target))
                    if place.name != target:
                        self._marks[place.name].append(_Mark(place.folder, place.name, False))

    def word(self, unit: UnitFile, folder: bytes) -> str:
        """`folder` is the one of the search path in which the unit was found."""
        if folder.startswith(b"/run/systemd/generator"):
            return "generated"
        if folder == b"/run/systemd/transient":
            return "transient"
        known = {unit.name, *unit.words("Install", "Alias"), *_default_instance(unit)}
        if found := self._found(unit.name, folder, known):
            return found
        if self._found(unit.name, folder, None):
            return "indirect"
        if any(unit.words("Install", key) for key in _RULES):
            return "disabled"
        return "indirect" if unit.words("Install", "Also") else "static"

    def _found(self, name: str, own: bytes, known: set[str] | None) -> str:
        marks = self._marks.get(name, ())
        below = self.layout.folders[self.layout.folders.index(own) + 1 :] if own in self.layout.folders else []
        plain = [m for m in marks if not m.is_same_name and (known is None or m.name in known)]
        plain = [m for m in plain if m.name != name or m.folder not in below or (m.folder, name) in self._linked]
        if any(m.folder == CONFIG for m in plain):
            return "enabled"
        if any(is_runtime(m.folder) for m in plain):
            return "enabled-runtime"
        if plain and template_of(name):
            return "static"
        same = [m.folder for m in marks if m.is_same_name and m.folder not in below]
        if CONFIG in same:
            return "linked"
        return "linked-runtime" if any(is_runtime(folder) for folder in same) else ""


def _default_instance(unit: UnitFile) -> list[str]:
    stem, at, kind = unit.name.partition("@.")
    instance = unit.last("Install", "DefaultInstance")
    return [f"{stem}@{instance.value}.{kind}"] if at and instance else []
