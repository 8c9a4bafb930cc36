# SPDX-License-Identifier: Apache-2.0
"""`explain` has a page for every finding, pin, metric and gap; `help` for every command; a shell completes both."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

import zombiescope
from zombiescope.cli.main import COMMANDS, commands, main
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.errors import UsageError
from zombiescope.facts.metric_names import METRICS
from zombiescope.facts.zombies import PinKind
from zombiescope.pipeline.explain import KINDS, Library

Capture = pytest.CaptureFixture[str]
LIBRARY = Library()
WORDS = LIBRARY.words()
PACKAGE = Path(zombiescope.__file__).parent


def literals(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "\0" for each in node.values)
        yield text.lstrip("\0").replace("\0", "x")  # it may begin with the name of a document inside


def facts_in(path: Path) -> Iterator[str]:
    """Every fact that a gap in this file names, by a literal or by a constant called FACT."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in ("Gap", "about"):
                yield from literals(node.args[0])
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").strip("_") in ("FACT", "HANDED_ON"):
            yield from literals(node.value)


FACTS = sorted({fact for path in PACKAGE.rglob("*.py") for fact in facts_in(path) if re.sub(r"[x.]", "", fact)})


@pytest.mark.parametrize("word", [word for kind in KINDS if kind != "page" for word in WORDS[kind]])
def test_every_word_has_a_page_that_ends_with_what_to_type(word: str, capsys: Capture) -> None:
    assert main(["explain", word]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith((f"{word} (", word))
    assert last.startswith("next: zombiescope ")


@pytest.mark.parametrize(
    ("page", "first", "told"),
    [
        ("runbook", "Runbook: a node is sick", ["sudo zombiescope doctor", "Two: find the maker", "Poll latency"]),
        ("decision-matrix", "Decision matrix", ["What is right", "v2 has the same", "cgdelete, or remount"]),
    ],
)
def test_a_page_of_the_documentation_is_shown_offline(page: str, first: str, told: list[str], capsys: Capture) -> None:
    assert main(["explain", page]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == first
    assert out.splitlines()[-1].startswith("next: zombiescope ")
    assert all(words in out for words in told)
    assert not re.search(r"<!--|\]\(|\.md", out), "nothing that only a browser understands"


def test_in_a_narrow_terminal_no_word_of_a_page_is_broken(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for page in ("runbook", "decision-matrix"):
        monkeypatch.setenv("COLUMNS", "200")
        assert main(["explain", page]) == 0
        words = set(capsys.readouterr().out.split())
        monkeypatch.setenv("COLUMNS", "40")
        assert main(["explain", page]) == 0
        title, *narrow = capsys.readouterr().out.splitlines()
        assert max(map(len, narrow)) <= 40
        strange = (
            {word for line in narrow for word in line.split()} - words - {"•", "see:", "advised:", "right:", "Type:"}
        )
        assert strange <= {"Usually", "Instead:", "is"}, title


def test_the_pages_are_of_all_catalogues() -> None:
    assert set(WORDS["pin"]) == {str(kind) for kind in PinKind}
    assert {metric.name for metric in METRICS} <= set(WORDS["metric"])
    assert set(WORDS["finding"]) == set(FINDINGS)
    assert set(LIBRARY._told["pin"]) == set(WORDS["pin"])


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_that_a_gap_names_has_a_page(fact: str) -> None:
    assert "gap" in {page.kind for page in LIBRARY.pages(fact)}


def test_a_metric_is_known_without_its_prefix_and_a_pin_with_a_dash() -> None:
    assert LIBRARY.pages("memcg_zombies")[0].word == "zombiescope_memcg_zombies"
    assert LIBRARY.pages("page-cache")[0].word == "page_cache"
    assert LIBRARY.pages("plan.steps[].expected")[0].kind == "gap"


@pytest.mark.parametrize(
    ("word", "near"),
    [("zombie-populaton", "zombie-population"), ("tmpf", "tmpfs"), ("memcg_zombis", "memcg_zombies")],
)
def test_an_unknown_word_names_the_nearest(word: str, near: str, capsys: Capture) -> None:
    assert main(["explain", word]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"  try: zombiescope explain {near}"
    with pytest.raises(UsageError, match="nothing is known about 'qqqq'") as error:
        LIBRARY.pages("qqqq")
    assert error.value.hint == "zombiescope explain"


def test_without_a_word_everything_is_listed(capsys: Capture) -> None:
    assert main(["explain"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for kind in ("finding", "pin", "metric") for word in WORDS[kind])
    assert out.splitlines()[-1] == "to read one: zombiescope explain WORD"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_what_the_flag_prints(command: str, capsys: Capture) -> None:
    assert main(["help", command]) == 0
    told = capsys.readouterr().out
    assert main([command, "--help"]) == 0
    assert told == capsys.readouterr().out


def test_help_alone_inside_and_mistyped(capsys: Capture) -> None:
    assert main(["help"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("to read about a command: zombiescope help COMMAND")
    assert main(["help", "lab", "zombies"]) == 0
    assert capsys.readouterr().out.startswith("Usage: zombiescope lab zombies ")
    for words, hint in (
        (["aply"], "help apply"),
        (["lab", "zombis"], "help lab zombies"),
        (["scan", "x"], "help scan"),
    ):
        assert main(["help", *words]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == f"  try: zombiescope {hint}"


def completed(words: list[str], begun: str, **extra: Any) -> list[str]:
    return [item.value for item in ShellComplete(commands, extra, "zombiescope", "_X").get_completions(words, begun)]


def test_a_shell_completes_commands_flags_and_words() -> None:
    assert set(completed([], "")) == set(COMMANDS)
    assert completed([], "ap") == ["apply"]
    assert set(completed(["lab"], "")) == {"zombies", "churn", "leak", "incident", "list", "clean"}
    assert "--restore" in completed(["undo"], "--")
    assert completed(["help"], "und") == ["undo"]
    assert completed(["explain"], "zombie-p") == ["zombie-population"]
    assert isinstance(commands, click.Group)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_the_command_itself(shell: str, capsys: Capture) -> None:
    assert main(["completion", shell]) == 0
    assert f"_ZOMBIESCOPE_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_a_whole_page_is_readable_where_no_markdown_is_drawn(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """The one-file build leaves out what draws it."""
    monkeypatch.setitem(sys.modules, "rich.markdown", None)
    assert main(["explain", "runbook"]) == 0
    out = capsys.readouterr().out
    assert "zombiescope doctor" in out
    assert out.splitlines()[-1].startswith("next: zombiescope ")
    assert main(["explain", "zombie-population"]) == 0
