# SPDX-License-Identifier: Apache-2.0
"""Parse, call, print, exit code: the only place that prints a report or exits, and the only place that catches a bug."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from zombiescope import __version__
from zombiescope.cli.answer import Answer, JsonAnswer, PlainAnswer, TextAnswer
from zombiescope.cli.catalogue import COMMANDS, DEFAULT
from zombiescope.errors import EXIT_BUG, EXIT_FINE, ObservationError, ZombiescopeError

_EXIT_INTERRUPTED = 130
_EXIT_PIPE = 141
_OWN_FLAGS = ("--help", "-h", "--version", "--debug")


class _Commands(click.Group):
    """Loads a command from `cli/commands/` when it is asked for; flags alone mean the default command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"zombiescope.cli.commands.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = [argument for argument in args if argument in _OWN_FLAGS] if args and args[0] in _OWN_FLAGS else []
        rest = args[len(own) :] if args[: len(own)] == own else args
        if own in ([], ["--debug"]) and (not rest or rest[0].startswith("-")):
            args = [*own, DEFAULT, *rest]
        return super().parse_args(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="zombiescope")
@click.option("--debug", is_flag=True, help="Print the traceback of a bug instead of keeping it in a file.")
def commands(*, debug: bool) -> None:
    """Finds zombie memory cgroups: those that were removed but live on in the kernel, where no tool shows them.

    Without a command: scan. Every command that reads takes --json and --root; `zombiescope COMMAND --help` has examples.
    """
    del debug


def run() -> NoReturn:
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    try:
        answer = commands.main(args=arguments, prog_name="zombiescope", standalone_mode=False)
        return answer if isinstance(answer, int) else _print(answer)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away: point stdout elsewhere, or the interpreter complains once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_PIPE
    except ZombiescopeError as error:
        _explain(error)
        return error.exit_code
    except Exception:
        return _report_bug(keep=arguments[:1] != ["--debug"])


def _print(answer: Answer | None) -> int:
    if answer is None:
        return EXIT_FINE
    try:
        _write(answer)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise ObservationError(
            "cannot write the answer (standard output)", why.lower(), "give it a place to write"
        ) from error
    return answer.exit_code


def _write(answer: Answer) -> None:
    match answer:
        case JsonAnswer(document=document):
            import json  # noqa: PLC0415 (each form loads only what it needs)

            print(json.dumps(document, indent=2))
        case PlainAnswer(text=text):
            print(text)
        case TextAnswer(parts=parts):
            from rich.console import Console  # noqa: PLC0415 (drawing is loaded only when it is needed)

            if hasattr(sys.stdout, "reconfigure"):
                sys.stdout.reconfigure(errors="backslashreplace")
            console = Console(highlight=False, emoji=False, soft_wrap=False)
            for part in parts:
                console.print(part)


def _explain(error: ZombiescopeError) -> None:
    print(f"error: {error.what}\n  why: {error.why}", file=sys.stderr)
    if error.hint:
        print(f"  try: {error.hint}", file=sys.stderr)


def _report_bug(*, keep: bool) -> int:
    """One line for the person; the traceback in a file, or on the screen with --debug."""
    import tempfile  # noqa: PLC0415 (a healthy run does not pay for a bug)
    import traceback  # noqa: PLC0415

    trace = traceback.format_exc()
    if not keep:
        print(trace, file=sys.stderr)
        return EXIT_BUG
    where = "nowhere: no temporary folder can be written"
    try:
        with tempfile.NamedTemporaryFile("w", prefix="zombiescope-bug-", suffix=".txt", delete=False) as file:
            file.write(trace)
            where = file.name
    except OSError:
        print(trace, file=sys.stderr)
    print(f"error: this is a bug in zombiescope {__version__}\n  why: {trace.splitlines()[-1]}", file=sys.stderr)
    print(f"  try: report it with the traceback, which is in {where}", file=sys.stderr)
    return EXIT_BUG
