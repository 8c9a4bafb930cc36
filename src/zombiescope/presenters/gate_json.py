# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.check/1` and SARIF 2.1.0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from rich.console import RenderableType
from rich.text import Text

from zombiescope.diagnosis.gate import Gate, GateReason, GateVerdict
from zombiescope.diagnosis.limits import Limits
from zombiescope.diagnosis.loops import OF_CONTAINERS
from zombiescope.diagnosis.rules import crash_looping_unit, image_risk, unneeded_agent
from zombiescope.facts.cgroups import CountSource
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.presenters.figures import clean
from zombiescope.presenters.layout import Block, Command, Prose

NPD_CHARACTERS = 80
_NAMED_FIRST = 3
_NAMED_AS_NOTES = 20
_ANNOTATIONS = {
    GateVerdict.OK: "notice",
    GateVerdict.WARNING: "warning",
    GateVerdict.CRITICAL: "error",
    GateVerdict.UNKNOWN: "error",
}
_ANNOTATIONS_PER_STEP = 10
_UNITS = {"sweep": " s", "growth": " per hour"}
_SOURCES: dict[str, str] = {
    CountSource.PROC_CGROUPS: "/proc/cgroups",
    CountSource.CGROUP_STAT_SUBSYS: "cgroup.stat",
    CountSource.CGROUP_STAT_DESCENDANTS: "cgroup.stat",
}
_PERFORMANCE = ("zombies", "ratio", "growth", "sweep", "directories")


def render_check_text(gate: Gate, source: str, where: str = "", *, is_image: bool = False) -> list[RenderableType]:
    """`where`: the options that name the same machine or image."""
    first, *rest = render_text(gate, source).split("\n")
    reasons = [Block(f"  {line[2:10].rstrip()}", [line[10:].lstrip()], style="", width=11) for line in rest]
    if is_image:
        next_ = Command("to see every service", f"zombiescope audit{where}")
    elif gate.verdict is GateVerdict.OK:
        next_ = Command("nothing to do; to look closer", f"zombiescope doctor{where}")
    else:
        next_ = Command("to see the cause and what to do", f"zombiescope doctor{where}")
    return [Prose(first, "bold"), *reasons, Text(), next_]


def render_text(gate: Gate, source: str) -> str:
    lines = [f"{gate.verdict}: {source}: {sentence(gate)}"]
    for reason in gate.reasons:
        is_compared = reason.threshold is not None and reason.rule in _PERFORMANCE and not _is_excused(reason)
        limit = f" (limit {_figure(reason.threshold)}{_UNITS.get(reason.rule, '')})" if is_compared else ""
        where = f" [{_SOURCES.get(reason.source, reason.source)}]" if reason.source else ""
        lines.append(f"  {reason.verdict:<8} {clean(reason.what)}: {clean(reason.summary)}{limit}{where}")
    lines += [
        f"  waiver   {clean(one.waiver.what)}: {one.state}, until {one.waiver.expires}; {clean(one.waiver.told)}"
        for one in gate.waivers
        if one.state != "used"
    ]
    return "\n".join(lines)


def render_nagios(gate: Gate, limits: Limits) -> str:
    performance = " ".join(_performance(gate, limits))
    summary = sentence(gate).replace("|", "/")
    lines = [
        f"ZOMBIESCOPE {gate.verdict} - {summary}" + (f" | {performance}" if performance else ""),
        *(
            f"{reason.verdict}: {clean(reason.what)}: {clean(reason.summary).replace('|', '/')}"
            for reason in gate.failing[1:]
        ),
    ]
    return "\n".join(lines)


def _performance(gate: Gate, limits: Limits) -> Iterator[str]:
    for reason in sorted(gate.reasons, key=lambda reason: reason.what):
        if reason.rule in _PERFORMANCE:
            value = "U" if reason.value is None else f"{reason.value:.15g}"
            warning, critical = (limits.of(f"{reason.rule}_{level}") for level in ("warning", "critical"))
            yield f"{reason.rule}={value};{warning:.15g};{critical:.15g};0"
    yield f"not_judged={'U' if gate.not_judged is None else len(gate.not_judged)};;;0"


def render_npd(gate: Gate) -> str:
    """One line of at most 80 characters: node-problem-detector cuts the rest."""
    reasons = gate.failing or gate.reasons
    more = f", {len(gate.failing) - 1} more" if len(gate.failing) > 1 else ""
    line = f"{gate.verdict}: {_brief(reasons[0]) if reasons else 'nothing was looked at'}{more}"
    tail = f"; {not_judged(gate)}" if not_judged(gate) else ""
    room = NPD_CHARACTERS - len(tail)
    return (line if len(line) <= room else line[: room - 3] + "...") + tail


def _brief(reason: GateReason) -> str:
    if reason.value is None or reason.rule not in _PERFORMANCE:
        return clean(reason.what if reason.value is not None else f"{reason.what}: {reason.summary}")
    return f"{reason.rule} {_figure(reason.value)} (limit {_figure(reason.threshold)})"


def render_prometheus(gate: Gate, limits: Limits, at: float) -> str:
    tally = Counter((reason.rule, reason.verdict) for reason in gate.reasons)
    reasons = [f'{{rule="{rule}",verdict="{verdict}"}} {count}' for (rule, verdict), count in sorted(tally.items())]
    values = [
        f'{{rule="{reason.rule}"}} {reason.value:.15g}'
        for reason in gate.reasons
        if reason.rule in _PERFORMANCE and reason.value is not None
    ]
    left = [] if gate.not_judged is None else [f" {len(gate.not_judged)}"]
    thresholds = [
        f'{{rule="{rule}",severity="{level}"}} {limits.of(f"{rule}_{level}"):.15g}'
        for rule in _PERFORMANCE
        for level in ("warning", "critical")
    ]
    lines = [
        *_family("verdict", "The verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.", [f" {gate.verdict.exit_code}"]),
        *_family("reasons", "Reasons by rule and verdict.", reasons),
        *(_family("value", "What was measured.", values) if values else ()),
        *(_family("not_judged", "Services that start and could not be judged.", left) if left else ()),
        *_family("threshold", "The limits compared with.", thresholds),
        *_family("timestamp_seconds", "When the check was made.", [f" {at:.3f}"]),
    ]
    lines += [f"# failing: {reason.verdict}: {clean(reason.what)}: {clean(reason.summary)}" for reason in gate.failing]
    lines += [f"# {not_judged(gate, _NAMED_AS_NOTES)}"] if not_judged(gate) else []
    return "\n".join(lines)


def _family(name: str, told: str, samples: Iterable[str]) -> list[str]:
    """`samples`: of each its labels, if any, a space and its value."""
    metric = f"zombiescope_check_{name}"
    return [f"# HELP {metric} {told}", f"# TYPE {metric} gauge", *(f"{metric}{sample}" for sample in samples)]


def sentence(gate: Gate) -> str:
    """The worst reason first; for OK, the first one measured; then what could not be judged."""
    reasons = gate.failing or gate.reasons
    more = f", and {len(gate.failing) - 1} more" if len(gate.failing) > 1 else ""
    head = _short(reasons[0]) + more if reasons else "nothing was looked at"
    tail = not_judged(gate, _NAMED_FIRST)
    return f"{head}; {tail}" if tail else head


def not_judged(gate: Gate, named: int = 0) -> str:
    """How many services could not be judged, with the first names; empty when all were."""
    if gate.not_judged is None:
        return "services not judged"
    if not gate.not_judged:
        return ""
    names = ", ".join(shown(name.encode()) for name in gate.not_judged[:named])
    names += ", …" if named and len(gate.not_judged) > named else ""
    return f"{len(gate.not_judged)} could not be judged" + (f" ({names})" if names else "")


def _is_excused(reason: GateReason) -> bool:
    """Above its limit and still OK: its summary says why, and the bare limit beside it would only contradict it."""
    if reason.verdict is not GateVerdict.OK or reason.value is None or reason.threshold is None:
        return False
    return reason.value >= reason.threshold


def _short(reason: GateReason) -> str:
    limit = ""
    if reason.verdict in (GateVerdict.WARNING, GateVerdict.CRITICAL) and reason.rule in _PERFORMANCE:
        limit = f" (limit {_figure(reason.threshold)})"
    return clean(reason.summary) + limit


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:,.10g}"


def render_github(gate: Gate, source: str) -> str:
    """Annotations of GitHub Actions: the verdict first, then what is not OK or waived. GitHub shows ten of a kind per step."""
    lines = [
        _annotation(_ANNOTATIONS[gate.verdict], f"zombiescope check: {gate.verdict}", f"{source}: {sentence(gate)}")
    ]
    room = dict.fromkeys(_ANNOTATIONS.values(), _ANNOTATIONS_PER_STEP)
    room[_ANNOTATIONS[gate.verdict]] -= 1
    for reason in gate.reasons:
        kind = _ANNOTATIONS[reason.verdict]
        if (reason.verdict is GateVerdict.OK and not reason.is_waived) or not room[kind]:
            continue
        room[kind] -= 1
        where = f" [{reason.source}]" if reason.source else ""
        lines.append(_annotation(kind, f"{reason.verdict}: {reason.what}", f"{_short(reason)}{where}"))
    return "\n".join(lines)


def _annotation(kind: str, title: str, message: str) -> str:
    """A workflow command; what would end it or begin another is escaped as the runner reads it."""
    message, title = (clean(text).replace("%", "%25") for text in (message, title))
    title = title.replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={title}::{message}"


RULES = {
    "zombies": "Memory cgroups that died and were not released",
    "ratio": "Memory cgroups counted for each live one",
    "sweep": "Seconds to read the statistics of every cgroup once",
    "harm": "Zombies that reclaim was seen to pay for",
    "directories": "Empty directories of memory cgroups that nobody removed",
    "expected": "Memory cgroups counted, against the live ones that are expected",
    "growth": "Zombies per hour while the candidate was watched",
    "looping-unit": crash_looping_unit.FINDING.title,
    "looping-container": OF_CONTAINERS,
    "unneeded-agent": unneeded_agent.FINDING.title,
    "image-risk": image_risk.FINDING.title,
    "loop-risk": "A service that may be restarted for ever, and nobody could say whether it is needed",
    "audit": "The services could be looked at",
    "boot-loop": "A service was restarted over and over within minutes of the first boot",
    "boot-leak": "Zombies that the booted image would make per day",
    "boot": "The image could be booted",
    "workloads": "Containers, pods and schedules could be looked at, and none starts for ever without need",
}
_NAMED = 20
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/@._-~")
_LEVELS = {
    GateVerdict.CRITICAL: "error",
    GateVerdict.WARNING: "warning",
    GateVerdict.OK: "none",
    GateVerdict.UNKNOWN: "none",
}
_KINDS = {
    GateVerdict.CRITICAL: "fail",
    GateVerdict.WARNING: "fail",
    GateVerdict.OK: "pass",
    GateVerdict.UNKNOWN: "open",
}


def render_check(gate: Gate) -> Json:
    names = gate.not_judged
    return {
        "verdict": gate.verdict,
        "summary": sentence(gate),
        "not_judged": None if names is None else len(names),
        "not_judged_units": None if names is None else [shown(name.encode()) for name in names],
        "reasons": [_reason(reason) for reason in gate.reasons],
        "waivers": [
            {
                "what": one.waiver.what,
                "reason": one.waiver.reason,
                "owner": one.waiver.owner,
                "expires": one.waiver.expires.isoformat(),
                "state": one.state,
            }
            for one in gate.waivers
        ],
    }


def check_gaps(gate: Gate) -> list[Gap]:
    """One for each field that is null somewhere, with what is missing there."""
    missing = "; ".join(f"{clean(reason.what)}: {reason.summary}" for reason in gate.reasons if reason.value is None)
    gaps = [Gap(f"reasons[].{name}", missing) for name in ("value", "threshold") if missing]
    if gate.not_judged is None:
        gaps += [Gap(name, "nobody can tell which services start") for name in ("not_judged", "not_judged_units")]
    return gaps


def _reason(reason: GateReason) -> Json:
    waiver = reason.waiver
    return {
        "what": clean(reason.what),
        "value": reason.value,
        "threshold": reason.threshold,
        "verdict": reason.verdict,
        "summary": clean(reason.summary),
        "source": reason.source,
        "waiver": {"reason": waiver.reason, "expires": waiver.expires.isoformat(), "owner": waiver.owner}
        if waiver
        else None,
    }


def render_sarif(gate: Gate, source: str, version: str) -> Json:
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    unknowns = [reason for reason in gate.reasons if reason.verdict is GateVerdict.UNKNOWN]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "zombiescope", "version": version, "rules": rules}},
                "invocations": [
                    {
                        "executionSuccessful": not unknowns,
                        "exitCode": gate.verdict.exit_code,
                        "toolExecutionNotifications": [
                            {"level": "error", "message": {"text": f"{clean(reason.what)}: {clean(reason.summary)}"}}
                            for reason in unknowns
                        ]
                        + _note(gate),
                    }
                ],
                "results": [_result(reason, source) for reason in gate.reasons],
                "properties": {
                    "verdict": gate.verdict,
                    "notJudged": None if gate.not_judged is None else len(gate.not_judged),
                },
            }
        ],
    }


def _note(gate: Gate) -> list[Json]:
    told = not_judged(gate, _NAMED)
    return [{"level": "note", "message": {"text": told}}] if told else []


def _result(reason: GateReason, source: str) -> Json:
    text = clean(reason.summary) or clean(reason.what)
    result: Json = {
        "ruleId": reason.rule,
        "ruleIndex": list(RULES).index(reason.rule),
        "kind": _KINDS[reason.verdict],
        "level": _LEVELS[reason.verdict],
        "message": {"text": f"{clean(reason.what)}: {text}"},
        "locations": [_location(reason, source)],
    }
    if reason.waiver:
        result |= {"kind": "fail", "level": "warning"}
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": reason.waiver.reason}]
    return result


def _uri(path: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in path.encode("utf-8"))


def _location(reason: GateReason, source: str) -> Json:
    logical = {"fullyQualifiedName": clean(f"{source}: {reason.what}")}
    if not reason.source.startswith("/"):
        return {"logicalLocations": [logical]}
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(reason.source.lstrip("/"))}},
        "logicalLocations": [logical],
    }


def render_junit(gate: Gate, source: str, at: float) -> str:
    failures = sum(reason.verdict in (GateVerdict.WARNING, GateVerdict.CRITICAL) for reason in gate.reasons)
    errors = sum(reason.verdict is GateVerdict.UNKNOWN for reason in gate.reasons)
    skipped = sum(reason.is_waived for reason in gate.reasons)
    counts = f'tests="{len(gate.reasons)}" failures="{failures}" errors="{errors}"'
    host = quoteattr(clean(source))
    verdict = f'<property name="verdict" value="{gate.verdict}"/>'
    count = "unknown" if gate.not_judged is None else len(gate.not_judged)
    unsure = f'<property name="not_judged" value="{count}"/>'
    told = not_judged(gate, _NAMED)
    stamp = rfc3339(at).partition(".")[0]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="zombiescope check" {counts}>',
        f'  <testsuite name="zombiescope check" hostname={host} timestamp="{stamp}" {counts} skipped="{skipped}" time="0">',
        f"    <properties>{verdict}{unsure}</properties>",
        *(_case(reason) for reason in gate.reasons),
        *([f"    <system-out>{escape(told)}</system-out>"] if told else []),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines)


def _case(reason: GateReason) -> str:
    head = f'    <testcase classname="zombiescope.{reason.rule}" name={quoteattr(clean(reason.what))} time="0"'
    summary = clean(reason.summary)
    if reason.is_waived:
        return f"{head}><skipped message={quoteattr(summary)}/></testcase>"
    if reason.verdict is GateVerdict.OK:
        return f"{head}/>"
    element = "error" if reason.verdict is GateVerdict.UNKNOWN else "failure"
    opening = f"<{element} type={quoteattr(reason.verdict)} message={quoteattr(summary)}>"
    return f"{head}>{opening}{escape(summary)}</{element}></testcase>"
