# SPDX-License-Identifier: Apache-2.0
"""Catalogues are explicit, so a file that nobody lists is a file that nobody runs."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest

from zombiescope.cli.main import COMMANDS, DEFAULT, commands
from zombiescope.diagnosis.catalogue import FINDINGS, RULES
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.catalogue import RECIPES

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "zombiescope"


def entries(*room: str) -> set[str]:
    return {path.stem for path in PACKAGE.joinpath(*room).glob("*.py") if path.stem != "__init__"}


def imported_by(folder: Path) -> set[str]:
    """Every module of ours that is imported in a folder, inside functions too."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    return names


def test_every_command_file_is_listed_and_every_listed_command_has_a_file() -> None:
    assert {name.replace("-", "_") for name in COMMANDS} == entries("cli", "commands")
    assert DEFAULT in COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_loads_and_says_what_it_does(name: str) -> None:
    command = commands.get_command(click.Context(commands), name)
    assert command is not None
    assert command.help
    assert COMMANDS[name].endswith(".")


def test_every_rule_file_is_in_the_catalogue() -> None:
    """Named as its finding, or as the word that its findings begin with."""
    files = entries("diagnosis", "rules")
    whole = {name.replace("-", "_") for name in FINDINGS}
    assert {name if name in files else name.partition("_")[0] for name in whole} == files
    assert len(FINDINGS) == len(RULES)


def test_every_recipe_is_in_the_catalogue() -> None:
    """A recipe is a public function of a file in `recipes/`; a step has its name."""
    files = PACKAGE.joinpath("remedies", "recipes").glob("*.py")
    functions = [node for path in files for node in ast.parse(path.read_text(encoding="utf-8")).body]
    written = [node.name for node in functions if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    assert sorted(written) == sorted(name.replace("-", "_") for name in RECIPES)
    listed = {f"{recipe.propose.__module__}.{recipe.propose.__qualname__}" for recipe in RECIPES.values()}
    assert {name.rpartition(".")[2].replace("_", "-") for name in listed} == set(RECIPES)


def test_every_remedy_has_a_recipe_or_is_for_people_alone() -> None:
    carried = {remedy for recipe in RECIPES.values() for remedy in recipe.remedies}
    alone = {"wait", "remove-directories", "give-memory", "raise-cpu-limit", "lower-priority", "move-host"}
    assert {remedy for remedy in Remedy if not remedy.changes_nothing} - carried == alone
    asked = {remedy for declared in FINDINGS.values() for remedy in declared.remedies}
    assert set(Remedy) - asked - carried == {"wait", "look-from-the-host"}, "a word that nobody says"


def test_every_reader_is_read() -> None:
    used = set().union(*(imported_by(PACKAGE / room) for room in ("pipeline", "watching", "cli")))
    unused = {name for name in entries("probes", "readers") if f"zombiescope.probes.readers.{name}" not in used}
    assert unused == set()
