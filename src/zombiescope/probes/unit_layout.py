# SPDX-License-Identifier: Apache-2.0
"""Where systemd looks, in its order, and what it finds there: unit entries, `.wants` links, drop-in folders.

systemd.unit(5), "Unit File Load Path", for the system manager. A folder seen through a link (`/lib` on a merged system)
counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.host.files import Entry, Files, Kind
from zombiescope.probes.unit_text import is_unit_name

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


def is_generated(folder: bytes) -> bool:
    return folder.startswith(b"/run/systemd/generator")


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
    chosen: dict[bytes, bytes] = {}
    for owner in _drop_in_owners(names):
        for folder in layout.drop_in_folders.get(owner, ()):
            for file in files.list(folder):
                if file.endswith(b".conf"):
                    chosen.setdefault(file, folder + b"/" + file)
    for _, path in sorted(chosen.items()):
        entry = files.entry(path)
        if entry is not None and not (entry.kind is Kind.LINK and entry.target == b"/dev/null"):
            yield path


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
