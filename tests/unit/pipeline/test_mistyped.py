# SPDX-License-Identifier: Apache-2.0
"""A mistyped --maker, --below or --consent is an error that lists what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.build import Cgroup, v2_machine, write_machine
from tests.unit.pipeline.test_plan import SEEN, looks_once
from tests.unit.remedies.situations import V2, autopsy, body, diagnosis, levers, pin

from zombiescope.cli.main import main
from zombiescope.errors import UsageError
from zombiescope.facts.zombies import PinKind
from zombiescope.host.live import LiveHost, TreeHost
from zombiescope.pipeline.mistyped import nearest, refuse_below, refuse_consents, refuse_maker
from zombiescope.remedies.planner import propose

Capture = pytest.CaptureFixture[str]
BODIES = SEEN.bodies


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    return write_machine(tmp_path, v2_machine({b"/a": Cgroup(zombies=2), b"/empty": Cgroup()}))


@pytest.mark.parametrize(
    ("command", "words", "hint"),
    [
        ("plan", ["--maker", "unit:a.servce"], "--maker unit:a.service"),
        ("apply", ["--maker", "nobody*"], "--maker unit:a.service"),
        ("plan", ["--below", "/a/belo"], "--below /a/below"),
        ("apply", ["--below", "/a/belo"], "--below /a/below"),
        ("apply", ["--consent", "delete:/dev/shn"], "--consent delete:/dev/shm"),
    ],
)
def test_it_exits_with_2_and_names_the_nearest(
    command: str, words: list[str], hint: str, root: bytes, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    looks_once(monkeypatch, SEEN)
    scope = [] if words[0] == "--below" else ["--below", "/a"]
    assert main([command, "--seconds", "0", "--root", root.decode(), *scope, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: no ")
    assert hint in err


def test_what_is_there_is_not_refused(root: bytes) -> None:
    host = TreeHost(root)
    for maker in (None, "unit:*", "unit:a.service"):
        refuse_maker(maker, BODIES)
    refuse_maker("unit:idle.service", BODIES, ["unit:idle.service"])
    for below in (None, b"/", b"/a", b"/a/", b"/c", b"/empty"):
        refuse_below(below, BODIES, host, V2)
    with pytest.raises(UsageError, match=r"zombies are below: /a, /a/below, /c"):
        refuse_below(b"/b", BODIES, host, V2)


def test_where_no_zombie_was_seen_nothing_is_called_mistyped(root: bytes) -> None:
    refuse_maker("nobody", ())
    refuse_below(b"/b", (), TreeHost(root), V2)


def test_consent_goes_by_the_names_of_the_plan(tmp_path: Path) -> None:
    shared = body(pin(PinKind.TMPFS, b"/dev/shm/x/f"))
    plan = propose(diagnosis("zombie-population"), autopsy(shared), None, levers())
    (tmp_path / "a").mkdir()
    here = V2._replace(mount_point=bytes(tmp_path))
    refuse_consents([step.name for step in plan.steps], plan, LiveHost(), here)
    gone = [f"delete:{tmp_path}", "reclaim:/a", "swap-in"]  # steps no more, and there
    refuse_consents(gone, plan, LiveHost(), here)
    with pytest.raises(UsageError, match="steps that need consent: rewrite:/dev/shm/x, delete:/dev/shm/x") as error:
        refuse_consents(["delete:/dev/shm/y/z"], plan, LiveHost(), here)
    assert "nothing was changed" in error.value.hint


def test_the_nearest_word() -> None:
    assert nearest("ziombie", ["zombie", "other"]) == "zombie"
    assert nearest("q", ["zombie"]) == ""
