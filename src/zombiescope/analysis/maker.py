# SPDX-License-Identifier: Apache-2.0
"""From a cgroup's path to the name of who made it: a unit, a workload or a pod, a container runtime, a login session, else the
path itself with its ids folded. Patterns of every driver of systemd, Kubernetes, containerd, Docker, Podman, CRI-O, LXC, nspawn.

`maker_of(b"/system.slice/ecs.service") == "unit:ecs.service"`; the first rule that knows the path names it.
"""

import re
from collections.abc import Iterable, Mapping

from zombiescope.facts.lifecycle import FlowsSeen, MakerFlow
from zombiescope.facts.names import raw, shown
from zombiescope.facts.pods import POD_PREFIX, workload_of

_ID = rb"[0-9a-f]{64}|[0-9a-f]{32}-[0-9]{10}"
_UID = rb"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rb"(?:^|[/-])pod(" + _UID + rb")(?:\.slice|/|:|$)")
_SESSION = re.compile(rb"/user\.slice/user-([0-9]+)\.slice(?:/|$)")
_UNIT = re.compile(rb"[A-Za-z0-9:_.\\@-]+\.(?:service|scope|slice|socket|mount|swap)")
_MACHINE = re.compile(rb".*?/(?:machine-[^/]+\.scope|systemd-nspawn@[^/]+\.service)(?=/|$)", re.DOTALL)
"""What lies below is another system's: its units have nothing to do with those of this host."""
_CONTAINER_ID = re.compile(rb"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_RUNTIMES = {
    "docker": rb"/docker-(?:ID)|/docker/(?:ID)|:docker:",
    "podman": rb"/libpod(?:-conmon)?-(?:ID)|[/-]libpod_pod_(?:ID)|/(?:libpod_parent|libpod|podman)/(?:ID)|:libpod:",
    "cri_o": rb"/crio(?:-conmon)?-(?:ID)|:crio:",
    "containerd": rb"/(?:cri-containerd|nerdctl|containerd)-(?:ID)|:(?:cri-containerd|nerdctl):"
    rb"|^/(?:default|k8s\.io|moby|nerdctl)/[^/]",
    "buildkit": rb"/(?:docker/)?buildkit[-/]",
    "lxc": rb"/lxc/[^/]|/lxc\.(?:payload|monitor)[./]",
    "ecs": rb"/ecs/[^/]|/ecstasks\.slice/ecstasks-",
}
_RUNTIME = re.compile(
    b"|".join(
        b"(?P<" + name.encode() + b">" + form.replace(b"ID", _ID) + b")" for name, form in reversed(_RUNTIMES.items())
    )
)

_HEX_ID = re.compile(
    rb"(?<![0-9A-Za-z])(?:(?:" + _UID + rb")|(?=[a-f]*[0-9])[0-9a-f]{6,})(?![0-9A-Za-z])|(?=[a-f]*[0-9])[0-9a-f]{8,}"
)
_DIGITS = re.compile(rb"[0-9]+")
_UNIT_DIGITS = re.compile(rb"(\\x[0-9a-f]{2})|[0-9]+")
"""Not those of a character that systemd has escaped."""
_TRANSIENT = re.compile(rb"run-[rupi]?\*?[0-9a-f]+(?:-i[0-9]+)?(?=\.)")
_STARS = re.compile(rb"\*(?:[-_.]?\*)+")
_ZEROES = bytes.maketrans(b"123456789", b"000000000")
_HAS_DIGIT = re.compile(r"[0-9]")
_MOST_REMEMBERED = 4096
NO_PODS: Mapping[str, str] = {}


class Makers:
    """Names makers; remembers those that do not depend on the digits of a path, for thousands of zombies differ in nothing else."""

    def __init__(self, pods: Mapping[str, str] = NO_PODS) -> None:
        """`pods`: makers by the uid of a pod; it may grow meanwhile."""
        self._known: dict[bytes, str] = {}
        self._pods = pods

    def of(self, path: bytes) -> str:
        key = path.translate(_ZEROES)
        maker = self._known.get(key)
        if maker is None:
            maker = maker_of(path)
            if maker.startswith(POD_PREFIX):
                return self._pods.get(maker.removeprefix(POD_PREFIX), maker)
            if not _HAS_DIGIT.search(maker):
                if len(self._known) >= _MOST_REMEMBERED:  # ids have letters too: paths differ without end
                    self._known.clear()
                self._known[key] = maker
        return maker


def maker_of(path: bytes) -> str:
    return _pod(path) or _container(path) or _session(path) or _unit(path) or "path:" + shown(fold_path(path))


def fold_path(path: bytes) -> bytes:
    """Ids (hexadecimal words of six, runs of eight) and runs of digits become `*`, so that a thousand siblings are one pattern."""
    return _STARS.sub(b"*", _DIGITS.sub(b"*", _HEX_ID.sub(b"*", path)))


def _pod(path: bytes) -> str | None:
    uid = pod_uid_of(path)
    return POD_PREFIX + uid if uid else None


def pod_uid_of(path: bytes) -> str | None:
    found = _POD.search(path) if b"pod" in path else None
    return found[1].replace(b"_", b"-").decode("ascii") if found else None


def container_id_of(path: bytes) -> str | None:
    """The deepest one's."""
    found = _CONTAINER_ID.findall(path)
    return str(found[-1], "ascii") if found else None


def _container(path: bytes) -> str | None:
    """ECS before the runtime it uses, which stands deeper in the path."""
    found = {match.lastgroup for match in _RUNTIME.finditer(path)}
    name = next((name for name in reversed(_RUNTIMES) if name in found), None)
    return "container:" + name.replace("_", "-") if name else None


def _session(path: bytes) -> str | None:
    found = _SESSION.search(path)
    return "session:" + found[1].decode("ascii") if found else None


def _unit(path: bytes) -> str | None:
    """The deepest unit of the path: what a unit makes inside its own cgroup is the unit's."""
    slice_name: bytes | None = None
    machine = _MACHINE.match(path) if b"machine-" in path or b"nspawn@" in path else None
    for name in reversed((machine[0] if machine else path).split(b"/")):
        plain = name.removeprefix(b"_")
        if not _UNIT.fullmatch(plain):
            continue
        if not plain.endswith(b".slice"):
            return "unit:" + shown(fold_unit(plain))
        slice_name = slice_name or plain
    return "unit:" + shown(fold_unit(slice_name)) if slice_name else None


def instance_of(path: bytes, maker: str | None = None) -> str | None:
    """The unit of a path under its own name, where its maker is a template or a pattern of many; None for all others. `maker`: what
    it is counted for, where that is known."""
    for name in reversed(path.split(b"/")):
        plain = name.removeprefix(b"_")
        if _UNIT.fullmatch(plain) and not plain.endswith(b".slice"):
            known = unit_maker(shown(plain)) if maker is None else maker
            return shown(plain) if known != f"unit:{shown(plain)}" else None
    return None


def unit_maker(name: str) -> str:
    """The maker that a unit of this name is, or is an instance of."""
    return "unit:" + shown(fold_unit(raw(name)))


def fold_unit(name: bytes) -> bytes:
    """A unit keeps its name, so that it can be typed; only what is made anew for each run is folded: instances of a template to the
    template, numbered scopes and transient units to their pattern."""
    stem, dot, kind = name.rpartition(b".")
    prefix, at, _ = stem.partition(b"@")
    if at:
        return prefix + at + dot + kind
    folded = _HEX_ID.sub(b"*", stem)
    if _TRANSIENT.match(name) or kind == b"scope":
        folded = _UNIT_DIGITS.sub(lambda found: found[1] or b"*", folded)
    return _STARS.sub(b"*", folded) + dot + kind


_NUMBERED = re.compile(r"(unit:.*[^0-9*][-_.])[0-9]+(\.service)")
_LEAST_NAMES = 5
"""More than the versions or shards of one service that lie side by side and were each stopped once."""
_MOST_EACH = 2.0
"""On average: a service that is restarted leaves many under one name, one that is made anew leaves one."""


def folding(counts: Mapping[str, int], known: Iterable[str] = ()) -> dict[str, str]:
    """`counts`: by maker, zombies or births. `known`: patterns that something else has shown to be such."""
    names: dict[str, list[str]] = {}
    for maker in counts:
        found = _NUMBERED.fullmatch(maker)
        if found:
            names.setdefault(f"{found[1]}*{found[2]}", []).append(maker)
    sure = frozenset(known)
    return {
        maker: pattern
        for pattern, makers in names.items()
        if pattern in sure or _are_made_anew([counts[maker] for maker in makers])
        for maker in makers
    }


def _are_made_anew(each: list[int]) -> bool:
    return len(each) >= _LEAST_NAMES and sum(each) < _MOST_EACH * len(each)


def fold_flows(seen: FlowsSeen, known: Iterable[str] = ()) -> FlowsSeen:
    patterns = folding({flow.maker: flow.births for flow in seen.makers}, known)
    if not patterns:
        return seen
    together: dict[str, MakerFlow] = {}
    for flow in seen.makers:
        maker = patterns.get(flow.maker, flow.maker)
        other = together.get(maker)
        together[maker] = flow._replace(maker=maker) if other is None else _sum(other, flow)
    ranked = sorted(together.values(), key=lambda flow: (-(flow.left or 0), -flow.deaths, flow.maker))
    return seen._replace(makers=tuple(ranked))


def _sum(one: MakerFlow, other: MakerFlow) -> MakerFlow:
    is_known = one.releases is not None and other.releases is not None
    return MakerFlow(
        one.maker,
        one.births + other.births,
        one.deaths + other.deaths,
        (one.releases or 0) + (other.releases or 0) if is_known else None,
    )


_MAKERS = {"unit": "{}", "path": "{}", "container": "containers of {}", "session": "the login session of user {}"}


def maker_said(maker: str) -> str:
    """Who made them, as a person says it: `ecs.service`, `the login session of user 998`, `CronJob batch/etl`."""
    if workload := workload_of(maker):
        return workload.called
    kind, _, name = maker.partition(":")
    return _MAKERS.get(kind, f"{kind} {{}}").replace("{}", name) if name else maker
