# SPDX-License-Identifier: Apache-2.0
"""What a report looks like on a screen of some width, and the laws that hold at every width."""

from __future__ import annotations

import io
import re
import shlex
from collections import Counter
from collections.abc import Sequence

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType

from zombiescope.cli.command import Next, TextAnswer
from zombiescope.cli.main import COMMANDS, Quiet, commands
from zombiescope.presenters.cores import Row
from zombiescope.presenters.layout import Command

WIDTHS = (40, 80, 120)
ONE_SCREEN = 40
_WIDE = 20_000
_MARGIN = 16
_JOINTS = re.compile(r"[\s/._:@=,|\\'\"-]+")
NEXT = re.compile(r"(?:sudo )?zombiescope [a-z]")


def parts_of(*arguments: str) -> Sequence[RenderableType]:
    """What a command answers, before it is drawn."""
    answer = commands.main(args=list(arguments), prog_name="zombiescope", standalone_mode=False)
    assert isinstance(answer, TextAnswer), arguments
    return answer.parts


def drawn(parts: Sequence[RenderableType], width: int) -> str:
    """As a terminal of this width shows it."""
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False, color_system=None)
    for part in parts:
        console.print(Quiet(part))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def check_shape(parts: Sequence[RenderableType], what: object) -> None:
    """Nothing past the edge, no word broken, the first line says something, the last is what to type next."""
    whole = [Counter(_pieces(drawn([part], _WIDE))) for part in parts]
    for width in WIDTHS:
        texts = [drawn([part], width) for part in parts]
        lines = "".join(texts).splitlines()
        assert not [line for line in lines if cell_len(line) > width or line != line.rstrip()], (what, width)
        assert texts[0][0] not in " \n", (what, width)
        for part, pieces, text in zip(parts, whole, texts, strict=True):
            missing = pieces - Counter(_pieces(text))
            is_picture = isinstance(part, Row)
            assert is_picture or all(cell_len(each) > width - _MARGIN for each in missing), (what, width, missing)
    check_last(parts, what)


def _pieces(text: str) -> list[str]:
    """Words and the parts of names: what may stand on two lines is cut between these."""
    return [piece for piece in _JOINTS.split(text) if piece]


def check_last(parts: Sequence[RenderableType], what: object) -> None:
    """A command line that we take, whole at every width."""
    last = parts[-1]
    assert isinstance(last, Command | Next), (what, str(last))
    assert NEXT.match(last.command), (what, last.command)
    for width in WIDTHS:
        told = shlex.split(drawn([last], width).removeprefix(_why(last, width)).replace("\\\n", ""))
        assert told == shlex.split(last.command), (what, width, told)
    check_typed(last.command)


def _why(last: Command | Next, width: int) -> str:
    """Of what was drawn, that which stands before the command."""
    text = drawn([last], width)
    end = re.search(r"(?:sudo\s+(?:\\\n\s*)?)?zombiescope\s", text)
    assert end is not None
    return text[: end.start()]


def check_typed(line: str) -> None:
    """What is said to be typed is a command line that we take."""
    words = shlex.split(line)
    words = words[: words.index(">")] if ">" in words else words
    _, name, *rest = words[1:] if words[0] == "sudo" else words
    assert name in COMMANDS, line
    command = commands.get_command(click.Context(commands), name)
    while isinstance(command, click.Group):
        name, *rest = rest
        command = command.get_command(click.Context(command), name)
    assert command is not None, line
    command.make_context(name, rest, resilient_parsing=False)
