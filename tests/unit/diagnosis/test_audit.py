# SPDX-License-Identifier: Apache-2.0
"""The judgement: the case on a Kubernetes node, elsewhere, mended, waived, in a closed world; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.trees import (
    CONFIG,
    ECS_DEB,
    ECS_RPM,
    KUBELET,
    SERVICE,
    SYSTEM,
    TARGETS,
    WANTED,
    enabled,
    files_of,
    plant,
)

from zombiescope.analysis.knowledge import KnowledgeBase, parse_knowledge
from zombiescope.diagnosis.audit import Audit, AuditSubject, UnitAudit, judge_services
from zombiescope.diagnosis.audit_findings import judge_audit
from zombiescope.diagnosis.gate import judge_units
from zombiescope.diagnosis.limits import Limits
from zombiescope.diagnosis.rules import crash_looping_unit, image_risk, unneeded_agent
from zombiescope.errors import UsageError
from zombiescope.facts.units import LiveUnit, RestartingContainer, Services
from zombiescope.host.safe_open import read_shipped
from zombiescope.presenters.gate_json import RULES
from zombiescope.probes.readers.unit_files import read_unit_files

KNOWN = parse_knowledge(read_shipped("agents.toml"), "the knowledge base")
DOCKER = enabled("docker.service", WANTED)
FIXED = {f"{CONFIG}/ecs.service.d/50-limit.conf": "[Unit]\nStartLimitIntervalSec=300\nStartLimitBurst=5\n"}


def audit(root: Path, files: Mapping[str, str], knowledge: KnowledgeBase = KNOWN, **live: object) -> Audit:
    tree = files_of(plant(root, {**TARGETS, **files}))
    texts = {path: (tree.read(path.encode()) or b"").decode() for path in knowledge.paths if tree.exists(path.encode())}
    services = Services(read_unit_files(tree), live.pop("live", None), texts=texts, **live)  # type: ignore[arg-type]
    return judge_services(services, knowledge, AuditSubject.HOST if services.live is not None else AuditSubject.ROOT)


def unit(found: Audit, name: str) -> UnitAudit:
    return next(row for row in found.units if row.name == name)


@pytest.mark.parametrize("text", [ECS_DEB, ECS_RPM])
def test_the_agent_of_the_case(tmp_path: Path, text: str) -> None:
    found = audit(tmp_path, {**enabled("ecs.service", text), **DOCKER, **KUBELET})
    row = unit(found, "ecs.service")
    assert (row.need, row.policy.can_loop, row.makes_cgroups, row.restarts_inside) == ("unneeded", True, True, True)
    assert "Kubernetes" in row.why
    findings = {finding.id: finding for finding in judge_audit(found, 0.0)}
    assert findings["image-risk"].verdict == "present"
    assert "8,640" in findings["image-risk"].summary
    assert unit(found, "docker.service").need == "needed"
    assert unit(found, "kubelet.service").need == "needed"


def test_the_knowledge_base_says_which_hosts_need_an_agent_and_which_evidence_tells() -> None:
    silent = [agent.id for agent in KNOWN.agents if agent.otherwise == "unknown" and not agent.hosts]
    assert silent == []
    untold = [agent.id for agent in KNOWN.agents if agent.hosts and not agent.conditions]
    assert [agent.id for agent in KNOWN.agents if agent.id in untold and "no file tells" not in agent.hosts] == []
    ecs = KNOWN.agent_of("ecs.service")
    assert ecs is not None
    assert ecs.tells == {
        "role:ecs": "config",
        "role:kubernetes": "orchestration",
        "role:kubernetes-installed": "orchestration",
    }


def test_a_wrong_kind_of_evidence_is_explained() -> None:
    with pytest.raises(UsageError, match="hearsay"):
        parse_knowledge(b'[[agent]]\nid = "x"\nneeded_if = {hearsay = ["path:/x"]}\n', "ours")


def test_only_our_own_units_are_us() -> None:
    """A name that merely begins like ours, the lab's looping unit among them, is judged like any other."""
    ours = KNOWN.agent_of("zombiescope.service")
    assert ours is not None and ours.id == "zombiescope"
    assert KNOWN.agent_of("zombiescope-lab-run-unused-agent.service") is None


def test_with_the_limit_mended_it_cannot_loop_by_systemd(tmp_path: Path) -> None:
    row = unit(audit(tmp_path, {**enabled("ecs.service", ECS_DEB), **DOCKER, **KUBELET, **FIXED}), "ecs.service")
    assert (row.policy.can_loop, row.policy.can_trip) == (False, True)


def test_masked_or_disabled_it_is_no_risk(tmp_path: Path) -> None:
    files = {f"{SYSTEM}/ecs.service": ECS_DEB, **DOCKER, **KUBELET}
    assert audit(tmp_path / "off", files).risks == []
    hidden = {**enabled("ecs.service", ECS_DEB), f"{CONFIG}/ecs.service": "-> /dev/null", **KUBELET}
    assert audit(tmp_path / "masked", hidden).risks == []


def test_an_agent_with_a_cluster_is_needed_and_without_one_unknown(tmp_path: Path) -> None:
    named = {**enabled("ecs.service", ECS_DEB), "etc/ecs/ecs.config": "ECS_CLUSTER=prod\n"}
    assert unit(audit(tmp_path / "named", named), "ecs.service").need == "needed"
    assert unit(audit(tmp_path / "bare", enabled("ecs.service", ECS_DEB)), "ecs.service").need == "unknown"


def test_what_nobody_knows_stays_unknown(tmp_path: Path) -> None:
    row = unit(audit(tmp_path, enabled("mystery.service", WANTED)), "mystery.service")
    assert (row.need, row.starts, row.makes_cgroups) == ("unknown", True, None)


def test_asked_for_by_something_needed(tmp_path: Path) -> None:
    files = {
        **enabled("ssh.service", WANTED + "[Unit]\nRequires=mystery.service\n"),
        f"{SYSTEM}/mystery.service": SERVICE,
        f"{SYSTEM}/called.service": SERVICE,
        "usr/share/dbus-1/system-services/x.service": "[D-BUS Service]\nName=org.x\nSystemdService=called.service\n",
        **enabled("dbus.service", WANTED),
    }
    found = audit(tmp_path, files)
    assert (unit(found, "mystery.service").need, unit(found, "mystery.service").needed_by) == (
        "needed",
        ("ssh.service",),
    )
    assert unit(found, "called.service").need == "needed"


def test_timers_start_services(tmp_path: Path) -> None:
    files = {
        **enabled("tick.timer", "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"),
        f"{SYSTEM}/tick.service": SERVICE,
    }
    assert unit(audit(tmp_path, files), "tick.service").starts


def test_an_allow_list_closes_the_world(tmp_path: Path) -> None:
    closed = KNOWN.extended(parse_knowledge(b'[policy]\nallow = ["ssh*.service"]\n', "ours"))
    found = audit(tmp_path, {**enabled("ssh.service", WANTED), **enabled("nginx.service", WANTED)}, closed)
    assert [row.name for row in found.unneeded] == ["nginx.service"]


def test_a_users_entry_overrides(tmp_path: Path) -> None:
    ours = KNOWN.extended(
        parse_knowledge(b'[[agent]]\nid = "ecs"\nunits = ["ecs.service"]\notherwise = "needed"\n', "ours")
    )
    assert unit(audit(tmp_path, {**enabled("ecs.service", ECS_DEB), **KUBELET}, ours), "ecs.service").need == "needed"


@pytest.mark.parametrize(
    "text",
    [b"\xff", b"[[agent]]\n", b'[[agent]]\nid = "x"\nunits = 3\n', b'[[agent]]\nid = "x"\nneeded_if = ["what"]\n', b"[other]\n",
     b'[[agent]]\nid = "x"\notherwise = "maybe"\n', b'[[agent]]\nid = "x"\nneeded_if = ["text:/a:("]\n',
     b'[[agent]]\nid="x"\nzz=1\n'],
)  # fmt: skip
def test_a_wrong_knowledge_file_is_explained(text: bytes) -> None:
    with pytest.raises(UsageError) as error:
        parse_knowledge(text, "ours.toml")
    assert "ours.toml" in error.value.what


def test_loops_of_a_live_host(tmp_path: Path) -> None:
    live = {
        "crash.service": LiveUnit("crash.service", "activating", "auto-restart", restarts=400),
        "nightly.service": LiveUnit("nightly.service", "active", "running", restarts=300),
        "inside.service": LiveUnit("inside.service", "active", "running", restarts=0),
    }
    found = audit(
        tmp_path, {}, live=live, inner_restarts={"inside.service": 9, "quiet.service": 1}, window_restarts={"nightly.service": 1},
        containers=(
            RestartingContainer("docker", "web", 12, "/x", 995.0, is_running=False),
            RestartingContainer("kubelet", "once", 1, "/y"),
            RestartingContainer("docker", "healed", 12, "/z", 100.0, is_running=True),
        ), now=1000.0,
    )  # fmt: skip
    assert [(loop.name, loop.kind) for loop in found.loops] == [
        ("crash.service", "unit"),
        ("web", "container"),
        ("inside.service", "inside"),
    ]
    findings = {finding.id: finding.verdict for finding in judge_audit(found, 0.0)}
    assert findings == {"crash-looping-unit": "present", "looping-container": "present", "unneeded-agent": "unknown"}


def test_a_loop_is_judged_alike_by_audit_and_gate(tmp_path: Path) -> None:
    """By what it left; what comes and goes inside a unit is told whatever it leaves."""
    live = {
        "crash.service": LiveUnit("crash.service", "activating", "auto-restart", restarts=400),
        "inside.service": LiveUnit("inside.service", "active", "running", restarts=0),
    }
    inner = {"inside.service": 9}
    for zombies, crash, inside, gate in (
        (None, "warning", "warning", ["WARNING", "WARNING"]),
        ({}, "warning", "warning", ["WARNING", "WARNING"]),
        ({"crash.service": 3_000, "inside.service": 2_000}, "critical", "critical", ["CRITICAL", "CRITICAL"]),
    ):
        found = audit(
            tmp_path / str(zombies and 1) / crash / inside, {}, live=live, inner_restarts=inner, zombies=zombies
        )
        findings = {finding.id: finding for finding in judge_audit(found, 0.0)}
        unit_loop, inner_loop = findings["crash-looping-unit"], findings["looping-container"]
        assert (unit_loop.severity, inner_loop.severity) == (crash, inside)
        reasons = [each for each in judge_units(found, Limits()) if each.rule.startswith("looping")]
        assert [each.verdict for each in reasons] == gate
        assert unit_loop.title == crash_looping_unit.FINDING.title == RULES["looping-unit"]
        assert unit_loop.remedies == ("limit-restarts", "stop-unit"), "nobody knows whether it is needed"


def test_what_nothing_needs_is_judged_alike_by_audit_and_gate(tmp_path: Path) -> None:
    found = audit(tmp_path, {**enabled("ecs.service", ECS_DEB), **DOCKER, **KUBELET})
    findings = {finding.id: finding for finding in judge_audit(found, 0.0)}
    reasons = {each.rule: each for each in judge_units(found, Limits())}
    for declared in (unneeded_agent.FINDING, image_risk.FINDING):
        assert findings[declared.id].title == declared.title == RULES[declared.id]
        assert findings[declared.id].remedies == declared.remedies
        assert findings[declared.id].severity == "critical"
    assert reasons["image-risk"].verdict == "CRITICAL"


def test_a_journal_counts_when_the_state_does_not_show_it(tmp_path: Path) -> None:
    live = {"a.service": LiveUnit("a.service", "active", "running", restarts=5)}
    found = audit(tmp_path, {}, live=live, journal_restarts={"a.service": 5})
    assert [loop.name for loop in found.loops] == ["a.service"]


def test_a_broad_pattern_does_not_vouch_for_a_local_unit(tmp_path: Path) -> None:
    local = {
        f"{CONFIG}/systemd-evil.service": WANTED,
        f"{CONFIG}/multi-user.target.wants/systemd-evil.service": "-> ../systemd-evil.service",
    }
    found = audit(tmp_path, {**local, **enabled("systemd-fine.service", WANTED)})
    assert unit(found, "systemd-evil.service").need == "unknown"
    assert unit(found, "systemd-fine.service").need == "needed"
