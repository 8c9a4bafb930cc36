# SPDX-License-Identifier: Apache-2.0
"""Every unit of a tree: its file, drop-ins, aliases, enablement, and the links that pull it in; the services that
podman's quadlets (`NAME.container`, `NAME.kube`) become at boot; and whether another program than systemd runs first.

Reads the folders of systemd's search path, `system.conf` and D-Bus activation files. Generators are programs and are not run:
what they would add is a gap. Of a quadlet the service is put together as its generator would, as far as an audit needs it
(podman-systemd.unit(5)).
"""

import dataclasses
from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.units import Link, Setting, UnitFile, UnitFiles
from zombiescope.host.files import Files, Kind
from zombiescope.probes.unit_layout import (
    MOST_SETTINGS,
    SEARCH_PATH,
    Enablement,
    Layout,
    Place,
    confs_in,
    drop_in_paths,
    is_runtime,
    is_unit_name,
    parse_settings,
    read_layout,
    template_of,
)

UNREAD = "cannot be read"
_VENDOR = (b"/usr/", b"/lib/")
_ROOTS = (b"/etc", b"/run", b"/usr/local/lib", b"/usr/lib", b"/lib")
_BUS = (b"/usr/share/dbus-1/system-services", b"/usr/local/share/dbus-1/system-services")


def read_unit_files(files: Files) -> UnitFiles:
    layout = read_layout(files)
    loader = _Loader(files, layout)
    units = {name: loader.load(places[0]) for name, places in sorted(layout.places.items())}
    for _, _, _, name in layout.links:
        if name not in units and (instance := loader.instance(name)):
            units[name] = instance
    links = tuple(
        Link(owner, relation, name, shown(folder))
        for folder, owner, relation, name in layout.links
        if is_unit_name(owner)
    )
    default = units.get("default.target")
    return UnitFiles(
        units=units,
        links=links,
        manager=_read_manager(files),
        default_target=(default.alias_of or default.name) if default else "default.target",
        bus_names=_read_bus_names(files),
    )


class _Loader:
    def __init__(self, files: Files, layout: Layout) -> None:
        self._files, self._layout = files, layout
        self._enablement = Enablement(layout)
        self._aliases: dict[str, list[str]] = {}
        for name, places in layout.places.items():
            if target := self._alias_target(places[0]):
                self._aliases.setdefault(target, []).append(name)

    def load(self, place: Place) -> UnitFile:
        if mask := self._mask_word(place):
            return UnitFile(place.name, shown(place.path), mask)
        if alias_of := self._alias_target(place):
            return UnitFile(place.name, shown(place.path), self._alias_word(place, alias_of), alias_of=alias_of)
        return self._load_file(place)

    def instance(self, name: str) -> UnitFile | None:
        """`getty@tty1.service`, which has no file but is wanted, from its template."""
        places = self._layout.places.get(template_of(name))
        if not places or self._mask_word(places[0]):
            return None
        template = places[0]
        return self._load_file(Place(template.folder, name, template.entry), template.path)

    def _load_file(self, place: Place, path: bytes = b"") -> UnitFile:
        path = path or place.path
        if (data := self._files.read(path)) is None:
            return UnitFile(place.name, shown(path), "bad", problems=(f"{shown(path)}: {UNREAD}",))
        settings, problems = _settings(self._files, path, data)
        for drop_in in drop_in_paths(self._files, self._layout, [place.name, *self._aliases.get(place.name, ())]):
            if (more := self._files.read(drop_in)) is None:
                problems.append(f"{shown(drop_in)}: {UNREAD}")
            else:
                added, wrong = _settings(self._files, drop_in, more)
                settings += added
                problems += wrong
        unit = UnitFile(place.name, shown(path), "", tuple(settings), problems=tuple(problems[:20]))
        enabled = self._enablement.word(unit, place.folder)
        return dataclasses.replace(unit, enabled=enabled, from_vendor=self._is_vendor(place, path))

    def _is_vendor(self, place: Place, path: bytes) -> bool:
        try:
            where = self._files.resolve(path)
        except OSError:
            where = place.path
        return where.startswith(_VENDOR) and not where.startswith(b"/usr/local/")

    def _mask_word(self, place: Place) -> str:
        kind, size = place.entry.kind, place.entry.size
        is_null = kind is Kind.LINK and b"/dev/null" in _places_on_the_way(self._files, place.path)
        if not is_null and not (kind is Kind.FILE and size == 0):
            return ""
        return "masked-runtime" if is_runtime(place.folder) else "masked"

    def _alias_target(self, place: Place) -> str:
        """The other unit that an entry is a link to; empty for the unit itself and for a linked unit file."""
        if place.entry.kind is not Kind.LINK or self._mask_word(place):
            return ""
        target = place.entry.target.rpartition(b"/")[2].decode("utf-8", "replace")
        is_other = target not in (place.name, template_of(place.name)) and is_unit_name(target)
        return target if is_other else ""

    def _alias_word(self, place: Place, target: str) -> str:
        """An alias must be of the same kind and shape, and lead somewhere, also through other aliases."""
        seen = {place.name}
        name = place.name
        while target:
            if not _may_stand_for(name, target) or target in seen:
                return "bad"
            seen.add(target)
            places = self._layout.places.get(target) or self._layout.places.get(template_of(target))
            if not places:
                return "alias" if self._files.exists(place.path) else "bad"
            if mask := self._mask_word(places[0]):
                return mask
            name, target = target, self._alias_target(places[0])
        return "alias"


def _places_on_the_way(files: Files, path: bytes) -> Iterator[bytes]:
    """Where a link leads, and that one if it is a link: by their words, not by what is there; `/dev` is empty in most trees."""
    for _ in range(_LINKS_FOLLOWED):
        entry = files.entry(path)
        if entry is None or entry.kind is not Kind.LINK:
            return
        path = entry.leads_to(path)
        yield path


def _may_stand_for(name: str, target: str) -> bool:
    """May a unit of this name be a link to that one? Same kind; plain to plain, template to template, instance kept."""
    stem, at, instance = name.rpartition(".")[0].partition("@")
    other, other_at, other_instance = target.rpartition(".")[0].partition("@")
    if name.rpartition(".")[2] != target.rpartition(".")[2] or at != other_at or not stem or not other:
        return False
    return instance == other_instance or (bool(instance) and not other_instance)


def _settings(files: Files, path: bytes, data: bytes) -> tuple[list[Setting], list[str]]:
    """What is too much is not kept, and said twice: as a problem of the unit, and as a gap."""
    settings, problems = parse_settings(data, shown(path))
    if len(settings) > MOST_SETTINGS:
        why = f"more than {MOST_SETTINGS:,} settings: the rest was not read"
        files.refuse(path, why)
        return settings[:MOST_SETTINGS], [f"{shown(path)}: {why}", *problems]
    return settings, problems


def _read_manager(files: Files) -> tuple[Setting, ...]:
    """`system.conf` and its drop-ins: the defaults of every unit."""
    main = next((path for path in (root + b"/systemd/system.conf" for root in _ROOTS) if files.exists(path)), None)
    paths = ([main] if main else []) + confs_in(files, (root + b"/systemd/system.conf.d" for root in _ROOTS))
    return tuple(setting for path in paths for setting in _settings(files, path, files.read(path) or b"")[0])


def _read_bus_names(files: Files) -> dict[str, str]:
    """Units that start when somebody calls their D-Bus name."""
    found: dict[str, str] = {}
    for folder in _BUS:
        for name in files.list(folder):
            path = folder + b"/" + name
            settings, _ = _settings(files, path, files.read(path) or b"")
            said = {setting.key: setting.value for setting in settings}
            if is_unit_name(unit := said.get("SystemdService", "")):
                found.setdefault(unit, said.get("Name", ""))
    return found


READS = (*SEARCH_PATH, *_BUS, *(root + b"/systemd" for root in _ROOTS))


_INIT = b"/sbin/init"
_SYSTEMD = (b"/usr/lib/systemd/systemd", b"/lib/systemd/systemd")
_LINKS_FOLLOWED = 8


def read_other_init(files: Files) -> str:
    """The program's name; empty for systemd, and where nothing tells: an image may keep its init elsewhere."""
    if way := list(_places_on_the_way(files, _INIT)):
        name = way[-1].rpartition(b"/")[2]
        return "" if name == b"systemd" else shown(name)
    is_older = all(map(files.exists, (b"/etc/inittab", _INIT))) and not any(map(files.exists, _SYSTEMD))
    return "init of /etc/inittab" if is_older else ""


FOLDERS = (b"/run/containers/systemd", b"/etc/containers/systemd", b"/usr/share/containers/systemd")
_KINDS = {b"container": ("Container", "Image"), b"kube": ("Kube", "Yaml")}
_RELATIONS = {"WantedBy": "Wants", "RequiredBy": "Requires", "UpheldBy": "Upholds"}
_DEPTH = 3


def with_quadlets(units: UnitFiles, files: Files) -> UnitFiles:
    """Adds the services that the generator would make, and the links. What it has made already stays as it is."""
    added: dict[str, UnitFile] = {}
    links: list[Link] = []
    for path in _quadlets(files):
        unit = _service(files, path)
        if unit is None or unit.name in units.units or unit.name in added:
            continue
        added[unit.name] = unit
        for key, relation in _RELATIONS.items():
            links += [Link(owner, relation, unit.name, shown(path)) for owner in unit.words("Install", key)]
    return dataclasses.replace(units, units={**units.units, **added}, links=(*units.links, *links))


def _quadlets(files: Files) -> Iterator[bytes]:
    pending = [(folder, 0) for folder in reversed(FOLDERS)]
    while pending:
        folder, depth = pending.pop()
        for name in sorted(files.list(folder)):
            path = folder + b"/" + name
            entry = files.entry(path)
            if entry is not None and entry.kind is Kind.FOLDER and depth < _DEPTH and not name.endswith(b".d"):
                pending.append((path, depth + 1))
            elif name.rpartition(b".")[2] in _KINDS:
                yield path


def _service(files: Files, path: bytes) -> UnitFile | None:
    stem, _, kind = path.rpartition(b"/")[2].rpartition(b".")
    section, key = _KINDS[kind]
    data, origin = files.read(path), shown(path)
    settings, problems = parse_settings(data or b"", origin)
    said = {(setting.section, setting.key): setting.value for setting in settings}
    told = said.get(("Quadlet", "ServiceName")) or said.get((section, "ServiceName"))
    name = told or stem.decode("utf-8", "replace")
    if not is_unit_name(f"{name}.service"):
        files.refuse(path, "not a name that a unit can have: podman ignores it")
        return None
    for drop_in in confs_in(files, (path + b".d",)):
        settings += parse_settings(files.read(drop_in) or b"", shown(drop_in))[0]
    verb = "run" if kind == b"container" else "kube play"
    command = f"/usr/bin/podman {verb} {said.get((section, key), '')}"
    if data is None:
        problems.append(f"{origin}: {UNREAD}")
    return UnitFile(
        f"{name}.service",
        origin,
        "generated",
        (*settings, *(Setting("Service", *made, origin) for made in (("Delegate", "yes"), ("ExecStart", command)))),
        from_vendor=path.startswith(b"/usr/"),
        problems=tuple(problems),
    )
