# SPDX-License-Identifier: Apache-2.0
"""`self-check` on the running kernel: what it says works does work, and nobody is promised what only root has."""

from __future__ import annotations

import json

import pytest
from tests.kernel.command import run_command

pytestmark = pytest.mark.kernel
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def told(*prefix: str) -> dict[str, dict[str, object]]:
    ended = run_command(["self-check", "--json"], prefix)
    assert ended.status == 0, ended.err
    answer = json.loads(ended.out)
    facts = {gap["fact"] for gap in answer["gaps"]}
    for name, part in answer["parts"].items():
        assert (part["by"] is None) == (f"parts.{name}.by" in facts)
        assert (part["status"] == "partly") == (f"parts.{name}.status" in facts)
    parts: dict[str, dict[str, object]] = answer["parts"]
    return parts


def test_it_agrees_with_the_autopsy() -> None:
    parts = told()
    tier = json.loads(run_command(["autopsy", "--json", "--limit", "1"]).out)["tier"]
    best = next(name for name in ("exact", "kcore", "pages", "files") if parts[name]["status"] == "works")
    assert {"bpf": "exact", "kcore": "kcore", "pages": "pages", "residual": "files"}[tier] == best


def test_nobody_is_told_what_root_would_add() -> None:
    parts = told(*NOBODY)
    assert parts["files"]["status"] == "works"
    assert {parts[name]["status"] for name in ("exact", "kcore", "pages", "sampler", "levers")} == {"no"}
    last = run_command(["self-check"], NOBODY).out.splitlines()[-1]
    assert last == "to see what root would add: sudo zombiescope self-check"
