# SPDX-License-Identifier: Apache-2.0
"""Every command of `zombiescope` as data: what the reference and the man pages are written from."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

import click

from zombiescope.cli.main import COMMANDS, commands


class Flag(NamedTuple):
    names: str
    """With what it takes: `--seconds FLOAT RANGE`."""
    help: str


class Command(NamedTuple):
    words: tuple[str, ...]
    usage: str
    summary: str
    """One line."""
    paragraphs: tuple[str, ...]
    flags: tuple[Flag, ...]
    examples: tuple[str, ...]
    """What the help ends with, line by line; the first may be a heading."""
    inner: tuple[str, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)

    @property
    def page(self) -> str:
        """Of the manual."""
        return "-".join(self.words)


def every_command() -> Iterator[Command]:
    yield from _below(commands, None, ("zombiescope",), "Finds, explains and removes zombie memory cgroups.")


def _below(
    command: click.Command, parent: click.Context | None, words: tuple[str, ...], told: str
) -> Iterator[Command]:
    context = click.Context(command, parent=parent, info_name=words[-1], **command.context_settings)
    inner = command.list_commands(context) if isinstance(command, click.Group) else []
    yield Command(
        words,
        " ".join(command.collect_usage_pieces(context)),
        told,
        tuple(_paragraphs(command.help or "")),
        tuple(_flags(command, context)),
        tuple(_epilog(command)),
        tuple(inner),
    )
    for name in inner:
        assert isinstance(command, click.Group)
        one = command.get_command(context, name)
        assert one is not None
        yield from _below(
            one, context, (*words, name), COMMANDS[name] if len(words) == 1 else one.get_short_help_str(200)
        )


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        yield paragraph if paragraph.startswith("\b") else " ".join(paragraph.split())


def _flags(command: click.Command, context: click.Context) -> Iterator[Flag]:
    for parameter in command.get_params(context):
        if (
            isinstance(parameter, click.Option)
            and not parameter.hidden
            and (record := parameter.get_help_record(context))
        ):
            yield Flag(*record)


def _epilog(command: click.Command) -> Iterator[str]:
    for line in inspect.cleandoc((command.epilog or "").replace("\b", "")).splitlines():
        yield line.rstrip()
