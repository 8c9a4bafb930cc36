# SPDX-License-Identifier: Apache-2.0
"""The knowledge base: which agent serves what, which hosts need it, which evidence tells, and what it makes.

Data, not code: TOML shipped with the package, extended or overridden by a user's file. Conditions are short words:
`path:/etc/x`, `text:/etc/x:REGEX`, `unit:NAME` (it starts), `installed:NAME` (it has a unit file), `program:NAME` (it runs),
`cgroup:NAME` (something runs in a cgroup of that name), `role:NAME`; a leading `!` turns one around. A list of them may be
a table by evidence: `{config = [...], credentials = [...]}`.
"""

import fnmatch
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zombiescope.errors import UsageError

_KINDS = ("path", "text", "unit", "installed", "program", "cgroup", "role")
EVIDENCE = ("config", "credentials", "role", "orchestration", "platform", "hardware")
_ON_FILES = ("path", "text")
_KEYS = frozenset(
    {
        "id", "title", "units", "serves", "hosts", "needed_if", "unneeded_if", "contested_if", "contested_why", "otherwise", "why",
        "makes_cgroups", "vendor_only", "restarts_inside", "images", "variables",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KnownAgent:
    id: str
    title: str
    units: tuple[str, ...]
    """Names or patterns."""
    serves: str = ""
    hosts: str = ""
    """Which hosts need it."""
    needed_if: tuple[str, ...] = ()
    unneeded_if: tuple[str, ...] = ()
    contested_if: tuple[str, ...] = ()
    """What speaks against a need that other evidence shows: then nobody can tell."""
    contested_why: str = ""
    tells: Mapping[str, str] = field(default_factory=dict)
    """What kind of evidence a condition is."""
    otherwise: str = "unknown"
    why: str = ""
    makes_cgroups: bool | None = None
    vendor_only: bool = False
    """Its patterns are broad: they speak only of units that the distribution ships."""
    restarts_inside: bool = False
    """It restarts a child or a container inside one running unit, so NRestarts stays 0."""
    is_owners: bool = False
    """From the owner's own file: its patterns speak of every unit."""
    images: tuple[str, ...] = ()
    """Patterns of the container images it comes in, without registry, tag and digest."""
    variables: tuple[str, ...] = ()
    """Of its container's environment: with one of them set it has something to do."""

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*self.contested_if, *self.needed_if, *self.unneeded_if)

    def speaks_of(self, unit: str, *, from_vendor: bool) -> bool:
        """A pattern of ours vouches for what a vendor ships, not for a local unit that is named alike."""
        if from_vendor or self.is_owners:
            return True
        return not self.vendor_only and (self.otherwise != "needed" or unit in self.units)


@dataclass(frozen=True, slots=True)
class RoleSigns:
    signs: tuple[str, ...]
    unless: tuple[str, ...] = ()
    """Roles that say more."""


@dataclass(frozen=True, slots=True)
class DeclaredNeed:
    """The owner says that a unit is needed, and why."""

    unit: str
    """A name or a pattern."""
    reason: str


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    agents: tuple[KnownAgent, ...] = ()
    roles: Mapping[str, RoleSigns] = field(default_factory=dict)
    allow: tuple[str, ...] | None = None
    """A closed world: what matches none of these is unneeded. None: an open world."""
    declared: tuple[DeclaredNeed, ...] = ()

    _named: dict[str, KnownAgent | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _patterns: list[tuple[re.Pattern[str], KnownAgent]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for agent in self.agents:
            forms = [fnmatch.translate(name) for name in agent.units if set(name) & set("*?[")]
            for name in agent.units:
                self._named.setdefault(name, agent)
            if forms:
                self._patterns.append((re.compile("|".join(forms)), agent))

    def agent_of(self, unit: str) -> KnownAgent | None:
        """The entry that speaks of a unit; one that names it comes before a pattern."""
        if unit not in self._named:
            self._named[unit] = next((agent for form, agent in self._patterns if form.match(unit)), None)
        return self._named[unit]

    def agent_of_image(self, image: str) -> KnownAgent | None:
        """The entry that speaks of a container image: `quay.io/prometheus/node-exporter:v1` is `prometheus/node-exporter`."""
        name = bare_image(image)
        found = (agent for agent in self.agents if any(fnmatch.fnmatchcase(name, form) for form in agent.images))
        return next(found, None) if name else None

    def is_allowed(self, unit: str) -> bool:
        return self.allow is None or any(fnmatch.fnmatchcase(unit, pattern) for pattern in self.allow)

    def declared_need(self, unit: str) -> DeclaredNeed | None:
        return next((said for said in self.declared if fnmatch.fnmatchcase(unit, said.unit)), None)

    @property
    def paths(self) -> frozenset[str]:
        """Every path that a condition asks for."""
        return self._asked_for(_ON_FILES)

    @property
    def read_paths(self) -> frozenset[str]:
        """Those whose text matters; of the others, that they are there."""
        return self._asked_for(("text",))

    def _asked_for(self, kinds: tuple[str, ...]) -> frozenset[str]:
        said = [condition for agent in self.agents for condition in agent.conditions]
        said += [condition for role in self.roles.values() for condition in (*role.signs, *role.unless)]
        return frozenset(path_of(each) for each in said if each.removeprefix("!").partition(":")[0] in kinds)

    def extended(self, other: "KnowledgeBase") -> "KnowledgeBase":
        """With a user's entries: the same id replaces, a new one comes first."""
        replaced = {agent.id for agent in other.agents}
        kept = tuple(agent for agent in self.agents if agent.id not in replaced)
        allow = other.allow if other.allow is not None else self.allow
        theirs = tuple(replace(agent, is_owners=True) for agent in other.agents)
        extended = replace(self, agents=theirs + kept, roles={**self.roles, **other.roles}, allow=allow)
        return extended.with_needs(other.declared)

    def with_needs(self, declared: tuple[DeclaredNeed, ...]) -> "KnowledgeBase":
        return replace(self, declared=(*declared, *self.declared))


def bare_image(image: str) -> str:
    """Without registry, tag and digest."""
    name = image.partition("@")[0]
    head, slash, rest = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        name = rest
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(":")[0]


def path_of(condition: str) -> str:
    """The file that a condition asks about; empty for any other kind."""
    kind, _, rest = condition.removeprefix("!").partition(":")
    return rest.partition(":")[0] if kind in _ON_FILES else ""


@dataclass(frozen=True, slots=True)
class NodeSigns:
    """What conditions are asked about."""

    texts: Mapping[str, str]
    """By path, of those that exist; empty for a folder."""
    starting: frozenset[str]
    programs: frozenset[str]
    installed: frozenset[str] = frozenset()
    """Units that have a file, whether they start or not."""
    unreadable: frozenset[str] = frozenset()
    """Paths that are asked for and could not be looked at."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """What the node is for, and the condition that told."""
    cgroups: frozenset[str] = frozenset()
    """Names of cgroups in which something runs; empty offline."""

    def holds(self, condition: str) -> bool:
        kind, _, rest = condition.removeprefix("!").partition(":")
        return self._holds(kind, rest) != condition.startswith("!")

    def _holds(self, kind: str, rest: str) -> bool:
        match kind:
            case "path":
                return rest in self.texts
            case "text":
                path, _, pattern = rest.partition(":")
                return re.search(pattern, self.texts.get(path, ""), re.MULTILINE) is not None
            case "unit":
                return any(fnmatch.fnmatchcase(unit, rest) for unit in self.starting)
            case "installed":
                return any(fnmatch.fnmatchcase(unit, rest) for unit in self.installed)
            case "program":
                return rest in self.programs
            case "cgroup":
                return any(fnmatch.fnmatchcase(name, rest) for name in self.cgroups)
            case _:
                return rest in self.roles

    def first(self, conditions: tuple[str, ...]) -> str | None:
        return next((condition for condition in conditions if self.holds(condition)), None)


def derive_roles(knowledge: KnowledgeBase, around: NodeSigns) -> NodeSigns:
    """What the node is for, as far as its files, units and programs tell."""
    for name, role in knowledge.roles.items():
        sign = around.first(role.signs)
        if sign and not around.first(role.unless):
            around = replace(around, roles={**around.roles, name: sign})
    return around


def hidden_path(knowledge: KnowledgeBase, around: NodeSigns, conditions: tuple[str, ...]) -> str:
    """A file that one of the conditions asks about, by itself or through a role, and that could not be looked at; or empty."""
    for condition in conditions:
        role = knowledge.roles.get(condition.removeprefix("!").removeprefix("role:"))
        for asked in (condition, *(role.signs if role else ())):
            if path_of(asked) in around.unreadable:
                return path_of(asked)
    return ""


def parse_knowledge(text: bytes, source: str) -> KnowledgeBase:
    """Raises UsageError with the entry that is wrong."""
    try:
        data = tomllib.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot use {source}", str(error), "it must be TOML in UTF-8") from error
    unknown = set(data) - {"agent", "role", "policy", "need"}
    if unknown:
        hint = "agent, role, policy and need are known"
        raise UsageError(f"cannot use {source}", f"unknown table {min(unknown)!r}", hint)
    agents = tuple(_agent(entry, source) for entry in _tables(data, "agent", source))
    roles = {
        _text(entry, "id", source): RoleSigns(_conditions(entry, "if", source), _conditions(entry, "unless", source))
        for entry in _tables(data, "role", source)
    }
    policy = data.get("policy", {})
    allow = _words(policy, "allow", source) if isinstance(policy, dict) and "allow" in policy else None
    return KnowledgeBase(agents, roles, allow, parse_needs(data.get("need", []), source))


def parse_needs(entries: object, source: str) -> tuple[DeclaredNeed, ...]:
    """`[[need]]` with unit and reason, in the owner's policy file."""
    if not isinstance(entries, list):
        raise UsageError(f"cannot use {source}", "need must be an array of tables", "write [[need]]")
    return tuple(_need(entry, source) for entry in entries)


def _need(entry: object, source: str) -> DeclaredNeed:
    said = entry if isinstance(entry, dict) else {}
    unit, reason = said.get("unit"), said.get("reason")
    is_whole = isinstance(unit, str) and isinstance(reason, str) and reason.strip() and set(said) == {"unit", "reason"}
    if not is_whole or not isinstance(unit, str) or not unit.partition(".")[0].strip("*?"):
        hint = 'unit = "our-agent.service", reason = "ships our metrics; team X"'
        raise UsageError(f"cannot use {source}", "a need has a unit, by name, and a reason", hint)
    return DeclaredNeed(unit, str(reason).strip())


def _tables(data: Mapping[str, object], name: str, source: str) -> list[Mapping[str, object]]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UsageError(f"cannot use {source}", f"{name} must be an array of tables", f"write [[{name}]]")
    return found


def _agent(entry: Mapping[str, object], source: str) -> KnownAgent:
    name = _text(entry, "id", source)
    if set(entry) - _KEYS:
        raise UsageError(
            f"cannot use {source}",
            f"agent {name!r} has the unknown key {min(set(entry) - _KEYS)!r}",
            "known: " + ", ".join(sorted(_KEYS)),
        )
    otherwise = str(entry.get("otherwise", "unknown"))
    if otherwise not in ("needed", "unneeded", "unknown"):
        raise UsageError(
            f"cannot use {source}", f"agent {name!r}: otherwise = {otherwise!r}", "needed, unneeded or unknown"
        )
    makes = entry.get("makes_cgroups")
    return KnownAgent(
        id=name,
        title=str(entry.get("title", name)),
        units=_words(entry, "units", source),
        serves=str(entry.get("serves", "")),
        hosts=str(entry.get("hosts", "")),
        needed_if=_conditions(entry, "needed_if", source),
        unneeded_if=_conditions(entry, "unneeded_if", source),
        contested_if=_conditions(entry, "contested_if", source),
        contested_why=str(entry.get("contested_why", "")),
        tells=_tells(entry, source),
        otherwise=otherwise,
        why=str(entry.get("why", "")),
        makes_cgroups=makes if isinstance(makes, bool) else None,
        vendor_only=entry.get("vendor_only") is True,
        restarts_inside=entry.get("restarts_inside") is True,
        images=_words(entry, "images", source),
        variables=_words(entry, "variables", source),
    )


def _text(entry: Mapping[str, object], key: str, source: str) -> str:
    found = entry.get(key)
    if not isinstance(found, str) or not found:
        raise UsageError(f"cannot use {source}", f"an entry has no {key}", f'give every entry {key} = "…"')
    return found


def _words(entry: Mapping[str, object], key: str, source: str) -> tuple[str, ...]:
    found = entry.get(key, [])
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise UsageError(f"cannot use {source}", f"{key} must be a list of strings", f'{key} = ["ecs.service"]')
    return tuple(found)


def _tells(entry: Mapping[str, object], source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("unneeded_if", "needed_if", "contested_if"):
        said = entry.get(key)
        if isinstance(said, dict):
            found |= {word: str(kind) for kind in said for word in _words(said, kind, source)}
    return found


def _conditions(entry: Mapping[str, object], key: str, source: str) -> tuple[str, ...]:
    said = entry.get(key)
    if isinstance(said, dict):
        if set(said) - set(EVIDENCE):
            wrong = f"{min(set(said) - set(EVIDENCE))!r} is no kind of evidence"
            raise UsageError(f"cannot use {source}", wrong, ", ".join(EVIDENCE))
        words = tuple(word for kind in said for word in _words(said, kind, source))
    else:
        words = _words(entry, key, source)
    for word in words:
        kind, colon, rest = word.removeprefix("!").partition(":")
        if kind not in _KINDS or not colon or not rest:
            raise UsageError(f"cannot use {source}", f"{word!r} is not a condition", "such as path:/etc/ecs/ecs.config")
        if kind == "text":
            _check_pattern(rest.partition(":")[2], source)
    return words


def _check_pattern(pattern: str, source: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(
            f"cannot use {source}", f"the pattern {pattern!r} is wrong: {error}", "a Python regular expression"
        ) from error
