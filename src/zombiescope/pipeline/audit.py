# SPDX-License-Identifier: Apache-2.0
"""The story of an audit: open a host, a folder or an image, read its services, judge them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

from zombiescope.analysis.knowledge import KnowledgeBase, parse_knowledge
from zombiescope.analysis.pod_owner import by_names, node_in
from zombiescope.analysis.unit_starts import timers
from zombiescope.diagnosis.audit import Audit, AuditSubject, judge_services
from zombiescope.diagnosis.audit_findings import Accepted, judge_audit, parse_accepted
from zombiescope.diagnosis.finding import Finding
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import Declared, RestartingContainer, Running, Services, UnitFiles
from zombiescope.host.access import Host
from zombiescope.host.bounds import Budget, bounded
from zombiescope.host.files import REFUSALS_KEPT, Files, FolderTree
from zombiescope.host.images.choose import image_budget, open_image
from zombiescope.host.live import LiveHost, TreeHost
from zombiescope.host.safe_open import read_named, read_shipped
from zombiescope.pipeline.opening import open_host
from zombiescope.probes.readers.containers import (
    PODS,
    parsed_link,
    read_container_ids,
    read_containers,
    read_containers_of,
    read_links,
    read_pod_folders,
    read_schedules,
)
from zombiescope.probes.readers.node import read_identity
from zombiescope.probes.readers.unit_files import READS, UNREAD, read_other_init, read_unit_files, with_quadlets
from zombiescope.probes.readers.workloads import read_manifests, read_workloads
from zombiescope.probes.unit_layout import IGNORED
from zombiescope.watching.pods import read_own_pod, static_names
from zombiescope.watching.services import (
    OFFLINE_FIELDS,
    Live,
    ServicesWindow,
    inner_births,
    unit_births,
    watch_services,
)

_GENERATORS = Gap("units", "generators are programs and are not run: units that they would make are not known")
_OFFLINE = "nothing runs in a folder or an image"
_OF_A_FOLDER = Budget(0, 0, "unit files of a machine")
_FOLDER_BYTES = 64 << 20
"""Of manifests: more than any repository has."""


def nobody(why: str) -> Identity:
    """Of what is no running host."""
    fields = ("name", "kernel", "boot_id", "uptime_seconds")
    return Identity(None, None, None, None, tuple(Gap(f"host.{name}", why) for name in fields))


_NOBODY = nobody(_OFFLINE)


class Target(NamedTuple):
    """What is audited: this host, `root`, or `image`; and `manifests` with it, or alone."""

    root: bytes | None = None
    image: bytes | None = None
    manifests: bytes | None = None

    @property
    def is_manifests_alone(self) -> bool:
        return self.manifests is not None and self.root is None and self.image is None


def has_files(host: Host) -> bool:
    """A recording has answers to questions, no tree of files."""
    return isinstance(host, LiveHost | TreeHost)


class Audited(NamedTuple):
    audit: Audit
    findings: tuple[Finding, ...]
    services: Services
    taken_at: float
    identity: Identity
    source: str
    gaps: tuple[Gap, ...]


def read_knowledge(extra: bytes | None) -> KnowledgeBase:
    knowledge = parse_knowledge(read_shipped("agents.toml"), "the knowledge base")
    return knowledge if extra is None else knowledge.extended(parse_knowledge(read_named(extra), shown(extra)))


def audit(
    target: Target,
    knowledge: KnowledgeBase,
    window: ServicesWindow,
    reading: Callable[[int, int], None] = lambda _done, _total: None,
) -> Audited:
    """`window`: how long to watch a live host. `reading` is told how much of an image was read."""
    if target.root is not None and target.image is not None:
        raise UsageError("cannot audit two things at once", "both --root and --image were given", "give one of them")
    given = _given_manifests(target.manifests)
    if target.is_manifests_alone:
        return _audit_manifests(target.manifests or b"", given, knowledge)
    if target.image is not None:
        with bounded(f"cannot audit the image {shown(target.image)}", image_budget(target.image)):
            return _audit_image(target.image, knowledge, reading, given)
    host = open_host(target.root)
    if not has_files(host):
        hint = "audit the host itself, or its root folder"
        raise ObservationError(f"cannot audit {host.label}", "a recording does not keep unit files", hint)
    files = Files(FolderTree(target.root or b"/"))
    is_this_host = isinstance(host, LiveHost)
    live, gaps = (
        watch_services(host, window, is_elsewhere=host.label != LiveHost().label)
        if is_this_host
        else (Live(), _offline_gaps())
    )
    subject = AuditSubject.HOST if is_this_host else AuditSubject.ROOT
    with nullcontext() if target.root is None else bounded(f"cannot audit {shown(target.root)}", _OF_A_FOLDER):
        services = _with_manifests(_services(files, knowledge, live), given)
        seen = host.wall_clock(), read_identity(host), host.label
        return _audited(services, knowledge, subject, files, gaps, seen)


def audit_of_window(live: Live) -> tuple[Audit, UnitFiles]:
    """This host's services, after a window that somebody else watched."""
    knowledge = read_knowledge(None)
    services = _services(Files(FolderTree(b"/")), knowledge, live)
    return judge_services(services, knowledge, AuditSubject.HOST), services.files


def _services(files: Files, knowledge: KnowledgeBase, live: Live) -> Services:
    unit_files = with_quadlets(read_unit_files(files), files)
    other_init = read_other_init(files)
    unread = _unread(files, unit_files)
    texts = {
        path: _text(files, path) if path in knowledge.read_paths else ""
        for path in sorted(knowledge.paths)
        if files.exists(path.encode())
    }
    refused = {shown(refusal.path) for refusal in files.refusals}
    return Services(
        files=unit_files,
        live=live.units,
        schedules=(*timers(unit_files), *read_schedules(files)),
        containers=(*read_containers(files), *_restarting(files, live.running)),
        texts=texts,
        programs=live.programs,
        processes=live.processes,
        journal_restarts=live.journal,
        window_restarts=live.moved,
        inner_restarts=inner_births(live.births),
        births=unit_births(live.births),
        was_watched=live.was_watched,
        zombies=live.zombies,
        unreadable=(knowledge.paths & refused) - (texts.keys() - knowledge.read_paths),
        unread=unread,
        other_init=other_init,
        declared=read_workloads(files),
        running=live.running,
        container_ids=read_container_ids(files) if live.running else frozenset(),
        now=LiveHost().wall_clock() if live.running else None,
    )


def _restarting(files: Files, running: Running | None) -> list[RestartingContainer]:
    """Containers of pods that were started more than once, as an audit lists them."""
    folders = read_pod_folders(files)
    own = read_own_pod(LiveHost()) if running else ""
    pods = by_names(((pod.uid, pod.namespace, pod.name) for pod in folders), node_in(static_names(folders)))
    mine = next((pod.maker for pod in pods if pod.uid == own), "")
    links = [link for name in read_links(files) if (link := parsed_link(name))]
    alive = {(link.namespace, link.pod, link.container): False for link in links} | {
        (link.namespace, link.pod, link.container): True for link in links if running and link.id in running.containers
    }
    return [
        RestartingContainer(
            "kubelet", f"{pod.called}/{each.name}", each.restarts, shown(PODS + b"/" + folder.folder), each.restarted_at,
            each.pause_seconds, alive.get((pod.namespace, pod.name, each.name)) if running else None, maker=pod.maker,
        )
        for folder, pod in zip(folders, pods, strict=True)
        if pod.maker != mine
        for each in read_containers_of(files, folder)
        if each.restarts
    ]  # fmt: skip


def _given_manifests(folder: bytes | None) -> Declared:
    """Of the folder given with --manifests: paths in it are told as they were given, without a leading slash."""
    if folder is None:
        return Declared()
    if not os.path.isdir(folder):
        why = "it is not a folder" if os.path.exists(folder) else "there is no such folder"
        raise UsageError(f"cannot read manifests in {shown(folder)}", why, "give a folder of YAML or JSON files")
    gaps: list[Gap] = []
    with bounded(f"cannot read the manifests in {shown(folder)}", Budget(_FOLDER_BYTES, 4, "manifests")):
        found = tuple(read_manifests(Files(FolderTree(folder)), (b"/",), gaps))
    return Declared(tuple(dataclasses.replace(one, path=one.path.lstrip("/")) for one in found), tuple(gaps))


def _with_manifests(services: Services, given: Declared) -> Services:
    here = services.declared
    return dataclasses.replace(
        services, declared=here._replace(workloads=(*here.workloads, *given.workloads), gaps=(*here.gaps, *given.gaps))
    )


def _audit_manifests(folder: bytes, given: Declared, knowledge: KnowledgeBase) -> Audited:
    services = Services(UnitFiles({}), None, declared=given)
    judged = judge_services(services, knowledge, AuditSubject.MANIFESTS)
    now = LiveHost().wall_clock()
    source = f"manifests in {shown(folder)}"
    return Audited(judged, judge_audit(judged, now), services, now, _NOBODY, source, judged.unread_workloads)


def _unread(files: Files, units: UnitFiles) -> tuple[str, ...]:
    """What of systemd's configuration was refused, but for the unit files that say so themselves."""
    if len(files.refusals) >= REFUSALS_KEPT:
        return (f"{REFUSALS_KEPT:,} files and more were refused",)
    told = {line.partition(":")[0] for unit in units.units.values() for line in unit.problems if UNREAD in line}
    return tuple(
        f"{shown(refusal.path)}: {refusal.reason}"
        for refusal in files.refusals
        if refusal.path.startswith(READS) or refusal.path == b"/"
        if refusal.reason != IGNORED and shown(refusal.path) not in told
    )


def _text(files: Files, path: str) -> str:
    return (files.read(path.encode()) or b"").decode("utf-8", "replace")


def _offline_gaps() -> tuple[Gap, ...]:
    return (
        *tuple(Gap(f"units[].{name}", _OFFLINE) for name in OFFLINE_FIELDS),
        _GENERATORS,
    )


def _audited(
    services: Services,
    knowledge: KnowledgeBase,
    subject: AuditSubject,
    files: Files,
    gaps: tuple[Gap, ...],
    seen: tuple[float, Identity, str],
) -> Audited:
    """`seen`: when, of whom, and what was looked at."""
    judged = judge_services(services, knowledge, subject)
    refused = tuple(Gap(f"files: {shown(refusal.path)}", refusal.reason) for refusal in files.refusals[:100])
    hint = "is this the root of a system that systemd runs?"
    untold = (Gap("units", judged.cannot_tell, hint),) if judged.cannot_tell else ()
    gaps = (*gaps, *untold, *_unasked(judged, services), *judged.unread_workloads, *refused)
    return Audited(judged, judge_audit(judged, seen[0]), services, *seen, gaps)


def _unasked(judged: Audit, services: Services) -> tuple[Gap, ...]:
    """Systemd answers for most of its services and not for all: a security module may keep some from us."""
    silent = [unit.name for unit in judged.units if unit.state is None] if services.live else []
    if not silent:
        return ()
    why = f"systemd did not tell of {len(silent)} services, such as {silent[0]}"
    return tuple(Gap(f"units[].{field}", why, "systemctl status UNIT") for field in ("state", "restarts"))


def _audit_image(
    path: bytes, knowledge: KnowledgeBase, reading: Callable[[int, int], None], given: Declared
) -> Audited:
    wanted = frozenset(path.encode() for path in knowledge.paths)
    large = frozenset(path.encode() for path in knowledge.paths - knowledge.read_paths)
    image = open_image(path, wanted, reading, large)
    files = Files(image.tree, list(image.tree.refusals))
    services = _with_manifests(_services(files, knowledge, Live()), given)
    if not services.files.units:
        raise ObservationError(
            f"cannot audit {shown(path)}", f"a {image.kind} without unit files", "is systemd in this image?"
        )
    seen = LiveHost().wall_clock(), _NOBODY, f"{shown(path)} ({image.kind})"
    return _audited(services, knowledge, AuditSubject.IMAGE, files, _offline_gaps(), seen)


def accepted_audit(path: bytes) -> Accepted:
    return parse_accepted(read_named(path), shown(path))


def now() -> float:
    return LiveHost().wall_clock()


def shipped_text(name: str) -> str:
    return read_shipped(name).decode("utf-8")
