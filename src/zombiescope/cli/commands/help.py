# SPDX-License-Identifier: Apache-2.0
"""`zombiescope help`: the help of a command, as `--help` prints it. Reads nothing of the host."""

from difflib import get_close_matches

import click
from click.shell_completion import CompletionItem

from zombiescope.cli.command import Answer, PlainAnswer, examples
from zombiescope.errors import UsageError

_NEXT = "to read about a word in a report: zombiescope explain WORD\nto read about a command: zombiescope help COMMAND"


def _complete(context: click.Context, _: click.Parameter, begun: str) -> list[CompletionItem]:
    root = context.find_root().command
    assert isinstance(root, click.Group)
    return [CompletionItem(name) for name in root.list_commands(context) if name.startswith(begun)]


@click.command(
    "help",
    epilog=examples(
        "zombiescope help",
        "zombiescope help apply",
        "zombiescope help lab zombies",
    ),
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=_complete)
@click.pass_context
def _help(context: click.Context, words: tuple[str, ...]) -> Answer:
    """Print the help of zombiescope, of a command, or of a command inside a command.

    Exit code 0, or 2 for a command that does not exist.
    """
    place = context.find_root()
    for word in words:
        place = _inside(place, word)
    text = place.command.get_help(place)
    return PlainAnswer(text if words else f"{text}\n\n{_NEXT}")


def _inside(place: click.Context, word: str) -> click.Context:
    group = place.command
    names = group.list_commands(place) if isinstance(group, click.Group) else []
    found = group.get_command(place, word) if isinstance(group, click.Group) and word in names else None
    if found is None:
        near = get_close_matches(word, names, n=1)
        hint = f"{place.command_path.replace('zombiescope', 'zombiescope help', 1)} {near[0]}" if near else ""
        raise UsageError(
            f"no such command: {place.command_path} {word}",
            f"commands: {', '.join(names)}" if names else f"{place.command_path} has no commands inside",
            hint or f"zombiescope help {' '.join(place.command_path.split()[1:])}".strip(),
        )
    return click.Context(found, info_name=word, parent=place, max_content_width=place.max_content_width)


help = _help  # noqa: A001 (a command has the name of its file)
