# SPDX-License-Identifier: Apache-2.0
"""The law over every command that there is: the first line is the answer, the last line is what to type next.

Every command of the tree has rows here, or stands in `FILES` by name: a new one cannot be forgotten."""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests.build import Cgroup, v2_machine, write_machine
from tests.profiler.archived import ship_fleet
from tests.profiler.perf_files import KALLSYMS, small_capture
from tests.unit.cli.test_history import leak
from tests.unit.cli.test_top import PICTURE
from tests.unit.execution.machine import build
from tests.unit.execution.test_restoring import DELETE, MASK, deleted
from tests.unit.machines.shape import NEXT, check_last, check_shape, check_typed
from tests.unit.trees import TARGETS, WANTED, enabled, plant

from zombiescope.analysis.reaping import Pass, ReapChoice, Reaping, Tally
from zombiescope.cli.command import TextAnswer
from zombiescope.cli.main import commands
from zombiescope.diagnosis.outcome import Holding, Outcome
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.fleet import SeriesSeen
from zombiescope.facts.reaping import EvictionOrder
from zombiescope.facts.reclaim import vitals_of
from zombiescope.facts.remedies import Remedy
from zombiescope.host.live import TreeHost
from zombiescope.lab.cleaning import Cleaned
from zombiescope.lab.truth import Made, Truth, stamp
from zombiescope.pipeline.self_check import check_self
from zombiescope.profiler.archive.places import Where, place_at
from zombiescope.remedies.receipts import Verified

FILES = {
    "completion": "a script for a shell",
    "export audit-schedule": "a file for a pipeline",
    "export dashboard": "a file for Grafana",
    "export fleet-dashboard": "a file for Grafana",
    "export fleet-rules": "a file for Prometheus",
    "export kubelet": "a fragment of a configuration",
    "export npd": "a file for node-problem-detector",
    "export policy": "a document to keep",
    "export profile-unit": "a unit file",
    "export reap-unit": "a unit file",
    "export rules": "a file for Prometheus",
    "export sh": "a script",
    "export slice": "a unit file",
    "export stop-hook": "a drop-in",
    "export stream-aggregation": "a file for a metrics agent",
    "export unit": "a unit file",
}
"""What prints a file for another program: nothing may stand before or after it."""

ROWS = """
scan --root {ok}
scan --root {sick}
autopsy --root {ok}
doctor --root {ok}
doctor --root {sick}
plan --root {ok}
plan --root {image}
cores --root {sick} --seconds 1
apply --root {ok}
undo --state {state}
undo --state {state} --yes
undo --state {lost}
undo --state {lost} --yes
undo --state {lost} --restore --yes
actions --state {state}
actions --state {new}
verify --window 0
audit --root {ok}
check --root {ok}
check --root {sick}
check --root {empty}
reap
agent
serve --root {ok}
top --plain --count 1
top --plain
history --state {history} --last all
record {new}.tar.gz --root {ok} --seconds 0
self-check
explain
explain tmpfs
explain runbook
explain zombie-population
help
help scan
help lab
help lab zombies
licenses
lab list
lab zombies --pin tmpfs --count 2
lab churn
lab leak --maker crashy --per-minute 60 --seconds 1
lab clean
lab incident
fleet doctor --prometheus http://127.0.0.1:9
fleet nodes --from {documents}
fleet cohorts --from {documents}
fleet plan --from {documents}
fleet serve --from {documents}
profile record --captures {captures}
profile import {perf} --captures {captures} --name again
profile list --captures {captures}
profile list --captures {new}
profile heatmap --captures {captures}
profile heatmap --captures {captures} --svg {new}.svg --png {new}.png
profile flame --captures {captures}
profile flame --captures {captures} --svg {new}.svg
profile diff latest@0..1 latest@1..2 --captures {captures}
profile push --ring --to http://127.0.0.1:9 --as otlp --captures {new}
profile find --captures {captures}
profile find --ring --captures {captures}
profile find --cause reclaim --captures {captures}
profile ring --captures {captures}
profile ring --captures {new}
profile keep --captures {captures}
profile export --form speedscope --output {new}.json --captures {captures}
profile serve --captures {captures}
profile ship latest --captures {captures} --to {archive} --node n --at 2h
profile ship --all --captures {captures} --to {archive} --node n
profile fleet top --archive {archive}
profile fleet flame --archive {archive}
profile fleet flame --archive {archive} --svg {new}.svg
profile fleet diff --archive {archive} --where zone=c
profile fleet diff --archive {archive} --where zone=c --svg {new}.svg
profile fleet find --archive {archive}
profile fleet find --archive {archive} --function nothing
""".strip().splitlines()
_UNTOUCHED = ("agent", "serve", "top", "help", "profile serve", "fleet serve")
"""They print themselves, or print the help."""
PLAIN = {
    "commands/agent.py": "--show-config prints a configuration file",
    "commands/autopsy.py": "CSV",
    "commands/check.py": "formats of monitoring tools",
    "commands/completion.py": "a script",
    "commands/doctor.py": "a report as HTML or Markdown",
    "commands/fleet.py": "CSV, a playbook, manifests",
    "commands/help.py": "the help",
    "commands/history.py": "CSV",
    "commands/licenses.py": "the text of a licence",
    "commands/export.py": "files",
}
"""Who may print text that is not laid out for a person, and what."""


def leaves(group: click.Group, before: str = "") -> Iterator[str]:
    """Every command of the tree, with the groups that it is in."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, f"{before}{name} ")
        else:
            yield before + name


def leaf_of(row: str) -> str:
    words = row.split()
    if words[:2] == ["profile", "fleet"]:
        return " ".join(words[:3])
    return " ".join(words[:2]) if words[0] in ("lab", "fleet", "profile") else words[0]


def test_every_command_has_a_row_or_prints_a_file() -> None:
    asked = {leaf_of(row) for row in ROWS}
    assert asked.isdisjoint(FILES)
    assert set(leaves(commands)) == asked | set(FILES)


def test_only_what_programs_read_is_plain() -> None:
    folder = Path(sys.modules["zombiescope.cli"].__path__[0])
    users = set()
    for path in folder.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        if any(isinstance(call.func, ast.Name) and call.func.id == "PlainAnswer" for call in calls):
            users.add(str(path.relative_to(folder)))
    assert users == set(PLAIN)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    for name, zombies in (("ok", 3), ("sick", 10_000)):
        write_machine(tmp_path / name, v2_machine({b"/a": Cgroup(zombies=zombies)}))
        plant(tmp_path / name, {**TARGETS, **enabled("ssh.service", WANTED)})
    units = tmp_path / "image/usr/lib/systemd/system"
    units.mkdir(parents=True)
    (units / "a.service").write_text("[Service]\nExecStart=/bin/true\n")
    (tmp_path / "empty").mkdir()
    places = {name: str(tmp_path / name) for name in ("ok", "sick", "image", "empty", "state", "lost", "new")}
    places |= {name: str(tmp_path / name) for name in ("history", "documents", "captures", "archive")}
    places["perf"] = str(tmp_path / "perf.data")
    monkeypatch.chdir(tmp_path)
    return lambda row: row.format(**places)


def prepare(leaf: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row needs to be there, and what it must not touch here."""
    if leaf in ("undo", "actions"):
        for name, steps in (("state", [MASK]), ("lost", [DELETE])):
            deleted(build(folder / f"root of {name}"), folder / name, *steps)
    elif leaf == "history":
        leak(folder / "history", 1.7e9)
    elif leaf.startswith("profile fleet"):
        ship_fleet(place_at(Where(str(folder / "archive"))), nodes=4)
    elif leaf.startswith("profile"):
        (folder / "perf.data").write_bytes(small_capture().file())
        (folder / "kallsyms").write_bytes(KALLSYMS)
        run(f"profile import {folder}/perf.data --kallsyms {folder}/kallsyms --captures {folder}/captures")
        monkeypatch.setattr("zombiescope.profiler.files.recorder.Recording.segments", lambda *_: iter(()))
    elif leaf.startswith("fleet"):
        (folder / "documents").mkdir()
        (folder / "documents/node.json").write_text(json.dumps(run(f"scan --root {folder}/sick --json").document))
        seen = SimpleNamespace(
            series=[SeriesSeen("up", "whether it answers", 1, 1.0, "a scrape", is_needed=True)], gaps=(), taken_at=1e9
        )
        monkeypatch.setattr("zombiescope.pipeline.fleet.examine", lambda *_: seen)
    elif leaf.startswith("lab"):
        _quiet_lab(monkeypatch)


def _quiet_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made: what it would have made is told."""
    made = (Made(7, "/lab/r/z0", "tmpfs", "/dev/shm/x", 4096), Made(8, "/lab/r/z1", "tmpfs", "/dev/shm/y", 4096))
    churned = {"churn": {"births": 1, "deaths": 1, "achieved_per_second": 19.612}}
    truth = Truth("r", "/zombiescope-lab/r", "v2", "zombies", made, seconds=0.02, more=churned)
    run = SimpleNamespace(
        name="r", end=lambda: None, undo=lambda: Cleaned("r"), journal=SimpleNamespace(keep_truth=lambda _: None)
    )
    monkeypatch.setattr("zombiescope.lab.runs.begin", lambda _: run)
    monkeypatch.setattr("zombiescope.lab.runs.guarded", lambda _: nullcontext())
    for name in ("lab.runs.make_zombies", "cli.commands.lab.churn_run", "cli.commands.lab.leak_run"):
        monkeypatch.setattr(f"zombiescope.{name}", lambda *_: truth)
    monkeypatch.setattr("zombiescope.lab.runs.clean", lambda _: ([Cleaned("r", cgroups=1, files=2)], ""))
    document = {**stamp(), "stages": [{"name": "a", "seconds": 1.0, "told": "b"}]}
    monkeypatch.setattr("zombiescope.cli.commands.lab._here", lambda *_, **__: document)


@pytest.fixture(autouse=True)
def nothing_of_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    after = vitals_of({"at": 1.0, "seconds": 60.0})._replace(ours=1)
    seen = Verified("one", Outcome(Holding("held"), "it held"), after, after, 1.0, Identity(None, None, None, None))
    monkeypatch.setattr("zombiescope.cli.commands.verify.look", lambda *_: seen)
    host = TreeHost(os.fsencode(tmp_path / "ok"))
    monkeypatch.setattr("zombiescope.cli.commands.self_check.check_self", lambda *_: check_self(host, "", ""))
    choice = ReapChoice((EvictionOrder(Remedy.DROP_FILE, b"/etc/x", b"/a", 1, frozenset({7})),), 1, {"tmpfs": 1})
    one = Pass(
        1.0, Identity(None, None, None, None), Reaping.WOULD_EVICT, "1 zombie would go", 2, choice, (), 0, 0, Tally(1)
    )
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("zombiescope.cli.commands.reap.Reaper", lambda *_: SimpleNamespace(run_pass=lambda: one))
    looks = iter([PICTURE])
    monkeypatch.setattr(
        "zombiescope.cli.commands.top.Watching",
        lambda _: SimpleNamespace(picture=lambda: next(looks), close=lambda: None),
    )
    monkeypatch.setattr(
        "zombiescope.cli.commands.top.open_host", lambda _: SimpleNamespace(is_live=True, wait=lambda _: _ended(looks))
    )
    server = SimpleNamespace(address="http://127.0.0.1:8097/", serve=lambda: None)
    monkeypatch.setattr("zombiescope.web.site.PageServer", lambda *_, **__: server)
    monkeypatch.setattr("zombiescope.agent.loop.serve", lambda *_: None)


def _ended(looks: Iterator[object]) -> None:
    """After the last picture a person ends it."""
    if looks.__length_hint__() == 0:  # type: ignore[attr-defined]
        raise KeyboardInterrupt


def run(line: str) -> Any:
    return commands.main(args=line.split(), prog_name="zombiescope", standalone_mode=False)


@pytest.mark.parametrize("row", ROWS)
def test_the_answer_first_and_what_to_type_last(
    row: str,
    place: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    leaf = leaf_of(row)
    prepare(leaf, tmp_path, monkeypatch)
    capsys.readouterr()
    monkeypatch.setattr("zombiescope.cli.progress._is_watched", lambda: leaf in _UNTOUCHED)
    answer = run(place(row))
    if isinstance(answer, TextAnswer):
        assert leaf not in _UNTOUCHED
        is_page = "runbook" in row  # drawn from Markdown, which fills its lines with blanks
        check_last(answer.parts, row) if is_page else check_shape(answer.parts, row)
        return
    assert leaf in _UNTOUCHED, "text for a person is a TextAnswer"
    told = capsys.readouterr()
    text = getattr(answer, "text", "") or told.out + told.err
    last = text.strip().splitlines()[-1]
    typed = NEXT.search(last)
    assert typed, last
    if isinstance(answer, int | None):  # in a help the last example may have a comment beside it
        check_typed(last[typed.start() :])


@pytest.mark.parametrize("leaf", [*leaves(commands), "lab", "fleet", "profile", "profile fleet", "export"])
def test_every_help_ends_with_what_to_type(leaf: str) -> None:
    answer = run(f"help {leaf}")
    assert "zombiescope " in answer.text.splitlines()[-1]
