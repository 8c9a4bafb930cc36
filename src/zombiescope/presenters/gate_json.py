# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.check/1` and SARIF 2.1.0."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from zombiescope.diagnosis.gate import Gate, GateVerdict, Reason
from zombiescope.diagnosis.loops import OF_CONTAINERS
from zombiescope.diagnosis.rules import crash_looping_unit, image_risk, unneeded_agent
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.document import Json, rfc3339
from zombiescope.presenters.gate_formats import clean, not_judged, sentence

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


def _reason(reason: Reason) -> Json:
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


def _result(reason: Reason, source: str) -> Json:
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


def _location(reason: Reason, source: str) -> Json:
    logical = {"fullyQualifiedName": clean(f"{source}: {reason.what}")}
    if not reason.source.startswith("/"):
        return {"logicalLocations": [logical]}
    uri = _uri(reason.source.lstrip("/"))
    return {"physicalLocation": {"artifactLocation": {"uri": uri}}, "logicalLocations": [logical]}


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


def _case(reason: Reason) -> str:
    head = f'    <testcase classname="zombiescope.{reason.rule}" name={quoteattr(clean(reason.what))} time="0"'
    summary = clean(reason.summary)
    if reason.is_waived:
        return f"{head}><skipped message={quoteattr(summary)}/></testcase>"
    if reason.verdict is GateVerdict.OK:
        return f"{head}/>"
    element = "error" if reason.verdict is GateVerdict.UNKNOWN else "failure"
    opening = f"<{element} type={quoteattr(reason.verdict)} message={quoteattr(summary)}>"
    return f"{head}>{opening}{escape(summary)}</{element}></testcase>"
