# SPDX-License-Identifier: Apache-2.0
"""The shell script of `export sh` with the agents of the knowledge base in it: each condition as a test of POSIX sh.

What sh cannot tell (which programs run, some patterns) is left out: an agent is then judged by the rest, and unknown otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from zombiescope.analysis.knowledge import KnowledgeBase, KnownAgent

MARK = "# @known@\n"
_NOT_IN_SH = re.compile(r"\(\?|\\[bBdDwWAZ]")
_PLAIN = re.compile(r"[A-Za-z0-9_.@*?\[\]:-]+")


def with_agents(script: str, knowledge: KnowledgeBase) -> str:
    """Raises ValueError where the script has no place for them."""
    head, mark, tail = script.partition(MARK)
    if not mark:
        raise ValueError("the script has no place for the agents")
    return head + "\n".join([*_roles(knowledge), *_agents(knowledge)]) + "\n" + tail


def _roles(knowledge: KnowledgeBase) -> Iterable[str]:
    for name, role in knowledge.roles.items():
        told = _any(role.signs)
        without = _any(role.unless)
        yield (
            f"role_{_word(name)}() {{ {told} && ! {{ {without}; }}; }}"
            if role.unless
            else f"role_{_word(name)}() {{ {told}; }}"
        )


def _agents(knowledge: KnowledgeBase) -> Iterable[str]:
    yield "known() { # unit vendor: sets need and why"
    yield "    need=unknown why='nothing is known of it'"
    yield "    case $1 in"
    for agent in knowledge.agents:
        names = [name for name in agent.units if _PLAIN.fullmatch(name)]
        exact = [name for name in names if not set(name) & set("*?[")]
        broad = [name for name in names if set(name) & set("*?[")]
        is_broad_trusted = agent.otherwise != "needed" and not agent.vendor_only
        if exact and not agent.vendor_only:
            yield f"    {'|'.join(exact)}) {_judged(agent)} ;;"
        listed = names if agent.vendor_only else broad
        if listed:
            guard = "" if is_broad_trusted else '[ "$2" = vendor ] || return 0; '
            yield f"    {'|'.join(listed)}) {guard}{_judged(agent)} ;;"
    yield "    esac"
    yield "}"


def _judged(agent: KnownAgent) -> str:
    title = _quoted(agent.title)
    otherwise = agent.otherwise
    why = _quoted(
        agent.why
        if otherwise != "unknown"
        else f"needed by {agent.hosts}"
        if agent.hosts
        else "whether it is needed cannot be told"
    )
    parts = [f"need={otherwise} why={title}': '{why}"]
    if agent.unneeded_if and _any(agent.unneeded_if) != "false":
        parts.append(f"if {_any(agent.unneeded_if)}; then need=unneeded why={title}': '{_quoted(agent.why)}; fi")
    if agent.needed_if and _any(agent.needed_if) != "false":
        then = f"need=needed why={title}"
        if agent.contested_if:
            then = (
                f"if {_any(agent.contested_if)}; then need=unknown why={_quoted(agent.contested_why)}; else {then}; fi"
            )
        parts.append(f"if {_any(agent.needed_if)}; then {then}; fi")
    return "; ".join(parts)


def _any(conditions: Iterable[str]) -> str:
    return " || ".join(test for condition in conditions if (test := _test(condition))) or "false"


def _test(condition: str) -> str:
    """Empty where sh cannot tell."""
    kind, _, rest = condition.removeprefix("!").partition(":")
    turned = "! " if condition.startswith("!") else ""
    match kind:
        case "path":
            return f"{turned}has {_quoted(rest)}"
        case "text":
            path, _, pattern = rest.partition(":")
            if _NOT_IN_SH.search(pattern):
                return ""
            plain = pattern.replace(r"\s", "[[:space:]]").replace(r"\S", "[^[:space:]]")
            return f"{turned}says {_quoted(path)} {_quoted(plain)}"
        case "unit" | "installed":
            return (
                f"{turned}{'starts' if kind == 'unit' else 'installed'} {_quoted(rest)}"
                if _PLAIN.fullmatch(rest)
                else ""
            )
        case "role":
            return f"{turned}role_{_word(rest)}"
        case _:
            return ""


def _word(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
