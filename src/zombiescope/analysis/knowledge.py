# SPDX-License-Identifier: Apache-2.0
"""The knowledge base: which agent serves what, how to see that it has nothing to do, and what it makes.

Data, not code: TOML shipped with the package, extended or overridden by a user's file. Conditions are short words:
`path:/etc/x`, `text:/etc/x:REGEX`, `unit:NAME`, `program:NAME`, `role:NAME`; a leading `!` turns one around.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zombiescope.errors import UsageError

_KINDS = ("path", "text", "unit", "program", "role")
_OTHERWISE = ("needed", "unneeded", "unknown")


@dataclass(frozen=True, slots=True)
class Agent:
    id: str
    title: str
    units: tuple[str, ...]
    """Names or patterns."""
    serves: str = ""
    needed_if: tuple[str, ...] = ()
    unneeded_if: tuple[str, ...] = ()
    otherwise: str = "unknown"
    why: str = ""
    makes_cgroups: bool | None = None
    vendor_only: bool = False
    """Its patterns are broad: they speak only of units that the distribution ships."""
    restarts_inside: bool = False
    """It restarts a child or a container inside one running unit, so NRestarts stays 0."""


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    agents: tuple[Agent, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allow: tuple[str, ...] | None = None
    """A closed world: what matches none of these is unneeded. None: an open world."""

    _named: dict[str, Agent | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _patterns: list[tuple[re.Pattern[str], Agent]] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for agent in self.agents:
            forms = [fnmatch.translate(name) for name in agent.units if set(name) & set("*?[")]
            for name in agent.units:
                self._named.setdefault(name, agent)
            if forms:
                self._patterns.append((re.compile("|".join(forms)), agent))

    def agent_of(self, unit: str) -> Agent | None:
        """The entry that speaks of a unit; one that names it comes before a pattern."""
        if unit not in self._named:
            self._named[unit] = next((agent for form, agent in self._patterns if form.match(unit)), None)
        return self._named[unit]

    def is_allowed(self, unit: str) -> bool:
        return self.allow is None or any(fnmatch.fnmatchcase(unit, pattern) for pattern in self.allow)

    @property
    def paths(self) -> frozenset[str]:
        """Every path that a condition asks for."""
        said = [condition for agent in self.agents for condition in (*agent.needed_if, *agent.unneeded_if)]
        said += [condition for conditions in self.roles.values() for condition in conditions]
        parts = (condition.lstrip("!").split(":", 2) for condition in said)
        return frozenset(part[1] for part in parts if part[0] in ("path", "text"))

    def extended(self, other: KnowledgeBase) -> KnowledgeBase:
        """With a user's entries: the same id replaces, a new one comes first."""
        replaced = {agent.id for agent in other.agents}
        kept = tuple(agent for agent in self.agents if agent.id not in replaced)
        allow = other.allow if other.allow is not None else self.allow
        return replace(self, agents=other.agents + kept, roles={**self.roles, **other.roles}, allow=allow)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What conditions are asked about."""

    texts: Mapping[str, str]
    """By path, of those that exist; empty for a folder."""
    starting: frozenset[str]
    programs: frozenset[str]
    roles: frozenset[str] = frozenset()

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
            case "program":
                return rest in self.programs
            case _:
                return rest in self.roles

    def first(self, conditions: tuple[str, ...]) -> str | None:
        return next((condition for condition in conditions if self.holds(condition)), None)


def derive_roles(knowledge: KnowledgeBase, around: Surroundings) -> Surroundings:
    """What the node is for, as far as its files, units and programs tell."""
    roles = frozenset(role for role, conditions in knowledge.roles.items() if around.first(conditions))
    return replace(around, roles=roles)


def parse_knowledge(text: bytes, source: str) -> KnowledgeBase:
    """Raises UsageError with the entry that is wrong."""
    try:
        data = tomllib.loads(text.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot use {source}", str(error), "it must be TOML in UTF-8") from error
    unknown = set(data) - {"agent", "role", "policy"}
    if unknown:
        raise UsageError(f"cannot use {source}", f"unknown table {min(unknown)!r}", "agent, role and policy are known")
    agents = tuple(_agent(entry, source) for entry in _tables(data, "agent", source))
    roles = {_text(entry, "id", source): _conditions(entry, "if", source) for entry in _tables(data, "role", source)}
    policy = data.get("policy", {})
    allow = _words(policy, "allow", source) if isinstance(policy, dict) and "allow" in policy else None
    return KnowledgeBase(agents, roles, allow)


def _tables(data: Mapping[str, object], name: str, source: str) -> list[Mapping[str, object]]:
    found = data.get(name, [])
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UsageError(f"cannot use {source}", f"{name} must be an array of tables", f"write [[{name}]]")
    return found


def _agent(entry: Mapping[str, object], source: str) -> Agent:
    name = _text(entry, "id", source)
    known = {
        "id",
        "title",
        "units",
        "serves",
        "needed_if",
        "unneeded_if",
        "otherwise",
        "why",
        "makes_cgroups",
        "vendor_only",
        "restarts_inside",
    }
    if set(entry) - known:
        wrong = min(set(entry) - known)
        raise UsageError(
            f"cannot use {source}",
            f"agent {name!r} has the unknown key {wrong!r}",
            "known: " + ", ".join(sorted(known)),
        )
    otherwise = str(entry.get("otherwise", "unknown"))
    if otherwise not in _OTHERWISE:
        raise UsageError(
            f"cannot use {source}", f"agent {name!r}: otherwise = {otherwise!r}", "needed, unneeded or unknown"
        )
    makes = entry.get("makes_cgroups")
    return Agent(
        id=name,
        title=str(entry.get("title", name)),
        units=_words(entry, "units", source),
        serves=str(entry.get("serves", "")),
        needed_if=_conditions(entry, "needed_if", source),
        unneeded_if=_conditions(entry, "unneeded_if", source),
        otherwise=otherwise,
        why=str(entry.get("why", "")),
        makes_cgroups=makes if isinstance(makes, bool) else None,
        vendor_only=entry.get("vendor_only") is True,
        restarts_inside=entry.get("restarts_inside") is True,
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


def _conditions(entry: Mapping[str, object], key: str, source: str) -> tuple[str, ...]:
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
