# SPDX-License-Identifier: Apache-2.0
"""Nothing that a reader types escapes the tests: every fence is run, or says why it is not; few may say so."""

from __future__ import annotations

import pytest
from tools.fences import ROOT, TIERS, Fence, WrongDeclarationError, documents, fences_of, silent_commands

FENCES = [fence for document in documents() for fence in fences_of(document)]
_MOST_NEVER = 9


def test_few_commands_are_never_run_and_each_says_why() -> None:
    never = [fence for fence in FENCES if fence.never]
    assert len(never) <= _MOST_NEVER, [fence.name for fence in never]
    assert all(len(fence.never) > 20 for fence in never)
    assert len(FENCES) > 40, "the guides are read"


@pytest.mark.parametrize("document", documents())
def test_no_command_hides_in_a_fence_that_nobody_runs(document: str) -> None:
    assert list(silent_commands((ROOT / document).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_a_fence_is_short_enough_to_wait_for(fence: Fence) -> None:
    assert fence.limit_seconds <= 180
    assert (fence.stop_seconds or 0) <= 10
    assert "make test" not in fence.script


@pytest.mark.parametrize("fence", FENCES, ids=lambda fence: fence.name)
def test_a_run_of_the_lab_has_a_name_and_nothing_else_is_changed(fence: Fence) -> None:
    """Beside other work on the machine, a command of a document touches only what it made."""
    script = fence.script if not fence.never else ""
    for line in script.splitlines():
        if "lab zombies" in line or "lab leak" in line or "lab clean" in line:
            assert "--name " in line, line
        if "apply --yes" in line:
            assert "--below /zombiescope-lab/" in line, line
        if "reap" in line and "--yes" in line:
            assert "--parent /zombiescope-lab/" in line, line


@pytest.mark.parametrize("words", ["sometimes", "limit=soon", "never", "tier=moon", "exit=bad", "daemon="])
def test_a_declaration_that_says_nothing_is_refused(words: str) -> None:
    with pytest.raises(WrongDeclarationError):
        list(fences_of("x.md", f"<!-- run: {words} -->\n```sh\ntrue\n```\n"))


def test_what_is_declared_is_read() -> None:
    run = "<!-- run: limit=7s, exit=1|2 -->\n<!-- before: make -->\n```sh\nfalse\n```\n"
    never = "<!-- run: never, no moon -->\n\n```sh\nmoon\n```\n"
    first, second = fences_of("x.md", f"{run}\n{never}")
    assert (first.limit_seconds, first.exits, first.before, first.script) == (7.0, (1, 2), "make", "false")
    assert (second.never, second.line) == ("no moon", 9)
    assert TIERS == ("kubernetes", "release")
    (third,) = fences_of("x.md", "<!-- run: tier=release, in=bookworm|python3.11 -->\n```sh\ntrue\n```\n")
    assert (third.tier, third.places) == ("release", ("bookworm", "python3.11"))
