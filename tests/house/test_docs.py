# SPDX-License-Identifier: Apache-2.0
"""The documents are true to the repository: links lead somewhere, commands exist, each myth has its right command."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from zombiescope.cli.main import commands

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")] if path.is_file()
)
MYTHS = ROOT / "docs/explanation/myths.md"
RECORDS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CALL = re.compile(
    r"(?<![\w/.-])(?<!kubectl )(?<!-n )(?<!--namespace )(?<!template )(?<!uninstall )zombiescope ([a-z-][^\n;|#&]*)"
)
"""Not the plugin of kubectl, nor a namespace or a release of that name."""

# What common write-ups get wrong: every heading of the page carries one of these, and each of these has a heading.
MYTH_SUBJECTS = """
tmpfs
/sys/fs/cgroup/memory
listed
Empty directories
No `memory` row
dying
500 MB
minutes
cgdelete
Remounting
drop_caches
cgroup v2 fixes
CFS
KswapdWriteback
cgroupVersion
NRestarts
mem_cgroup_nr_lru_pages
memory.stat
list_lru
idle
""".strip().splitlines()


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code_of(text: str) -> list[str]:
    """Fenced blocks and code spans: where a document shows something to type."""
    fences = [match[2] for match in FENCE.finditer(text)]
    return fences + re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def myths() -> dict[str, str]:
    _, *sections = re.split(r"^## ", MYTHS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {section.partition("\n")[0]: section.partition("\n")[2] for section in sections}


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {
        anchor(heading)
        for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_resolves(document: Path) -> None:
    for target in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        place = (document.parent / file).resolve() if file else document
        assert place.is_relative_to(ROOT), f"{target} leads out of the repository"
        assert place.exists(), f"{target} leads nowhere"
        if fragment:
            assert fragment in anchors(place), f"{target}: no such heading"


def unknown_in(call: str) -> str:
    """The first word of a call that is no command or no flag of it; empty when all are."""
    words = call.split()
    command: click.Command = commands
    flags = flags_of(command)
    for word in words:
        if isinstance(command, click.Group):
            if word.startswith("["):
                return ""  # a line of usage
            inner = None if word.startswith("-") else command.get_command(click.Context(command), word)
            if inner is None:
                return "" if word in flags else word
            command, flags = inner, flags_of(inner)
        elif word.startswith("--") and word.partition("=")[0] not in flags:
            return word
    return ""


def flags_of(command: click.Command) -> set[str]:
    return {flag for option in command.params for flag in option.opts} | {"--help", "--version"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_and_flag_named_exists(document: Path) -> None:
    for code in code_of(document.read_text(encoding="utf-8")):
        for call in CALL.findall(code):
            assert not unknown_in(call), f"zombiescope {call}: no {unknown_in(call)}"


@pytest.mark.parametrize("call", ["resurrect", "scan --resurrect", "lab resurrect", "--resurrect"])
def test_a_command_that_does_not_exist_is_noticed(call: str) -> None:
    assert unknown_in(call).endswith("resurrect")


def test_the_map_shows_every_room_and_no_other() -> None:
    package = ROOT / "src/zombiescope"
    rooms = {path.stem for path in package.iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms -= {"__init__", "__main__", "__pycache__"}
    table = re.search(
        r"^## Rooms\n(.*?)^## ", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert table
    assert set(re.findall(r"^\| `(\w+)` \|", table[1], re.MULTILINE)) == rooms


MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`((?:[a-z_]+/)+[\w*.]*|[a-z_]+\.py)`")


def test_the_map_has_the_order_of_the_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = [re.findall(r"\w+", layer) for layer in contracts[0]["layers"]]
    wanted = [room for level in layers for room in level if room != "__main__"]
    rooms = re.findall(r"^\| `(\w+)` \|", MAP, re.MULTILINE)
    assert [room for room in rooms if room != "data"] == wanted


def test_a_room_is_under_the_contract_of_its_kind() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    sources = {each["name"]: {name.split(".")[1] for name in each.get("source_modules", ())} for each in contracts}
    kinds = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", MAP, re.MULTILINE))
    core = {room for room, kind in kinds.items() if kind == "core"} - {"data"}
    edges = {room for room, kind in kinds.items() if kind == "edge"} - {
        "profiler",
        "lab",
    }  # who have borders of their own
    assert core <= sources["The core is pure"]
    assert edges == sources["Edges observe and obey; they never judge or draw"]


def test_what_the_map_sends_people_to_is_there() -> None:
    changes = MAP.split("## I want to", 1)[1].split("\nTests mirror", 1)[0]
    places = {place for place in PLACE.findall(changes) if "NAME" not in place}
    assert len(places) > 40
    package = ROOT / "src/zombiescope"
    found = {
        place
        for place in places
        if any(package.glob(place.rstrip("/"))) or any(ROOT.glob(place.rstrip("/"))) or any(package.rglob(place))
    }
    missing = sorted(places - found)
    assert missing == []


def test_the_map_repeats_what_it_will_never_do() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    never = re.search(r"^## What it will never do\n\n(.*?)\n\n", readme, re.MULTILINE | re.DOTALL)
    assert never
    assert never[1] in MAP


@pytest.mark.parametrize("title", myths())
def test_every_myth_is_answered_with_a_command(title: str) -> None:
    assert any(subject in title for subject in MYTH_SUBJECTS), "a new myth: add its subject to MYTH_SUBJECTS"
    body = myths()[title]
    says_what_is_wrong = FENCE.sub("", body).strip()
    blocks = [match[2] for match in FENCE.finditer(body) if match[1] == "sh"]
    assert len(says_what_is_wrong) > 60
    assert any(line.strip() and not line.startswith("#") for block in blocks for line in block.splitlines())


def test_every_known_myth_has_its_section() -> None:
    titles = list(myths())
    assert [subject for subject in MYTH_SUBJECTS if not any(subject in title for title in titles)] == []
    assert [title.partition(".")[0] for title in titles] == [str(number) for number in range(1, len(titles) + 1)]


def test_the_commands_of_the_myths_are_valid_shell() -> None:
    for match in FENCE.finditer(MYTHS.read_text(encoding="utf-8")):
        if match[1] == "sh":
            checked = subprocess.run(["sh", "-n"], input=match[2], text=True, capture_output=True, check=False)
            assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("record", RECORDS, ids=name_of)
def test_a_decision_record_is_short_and_complete(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", record.name)
    assert len(text.splitlines()) <= 40
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "Context",
        "Decision",
        "Price",
        "What would change our mind",
    ]


def test_decision_records_are_numbered_without_holes() -> None:
    assert [record.name[:4] for record in RECORDS] == [f"{number:04}" for number in range(1, len(RECORDS) + 1)]


def test_a_test_that_a_page_names_is_there() -> None:
    """Below tests/: `folder/test_x.py::test_y`, and `::test_z` for one more of the same file."""
    found = []
    for page in DOCUMENTS:
        file = ""
        for named in re.finditer(r"`([\w/]+\.py)?::(test_\w+)`", page.read_text()):
            file = named[1] or file
            found.append(named[2])
            assert f"\ndef {named[2]}(" in (ROOT / "tests" / file).read_text(), f"{name_of(page)}: {file}::{named[2]}"
    assert found
