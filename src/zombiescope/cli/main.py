# SPDX-License-Identifier: Apache-2.0
"""Parse, call, print, exit code: the only place that prints a report or exits, and the only place that catches a bug.

And the list of commands: one is loaded when it is asked for, so that `scan` does not pay for the others.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import click

from zombiescope import __version__
from zombiescope.cli.command import Answer, JsonAnswer, Late, Next, PlainAnswer, TextAnswer, standard_output
from zombiescope.cli.progress import tell
from zombiescope.errors import EXIT_BUG, EXIT_FINE, EXIT_INTERRUPTED, ObservationError, ZombiescopeError, reason_of
from zombiescope.facts.names import quiet_lines

if TYPE_CHECKING:  # rich is loaded only when text is drawn
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

COMMANDS: dict[str, str] = {
    "scan": "How many zombies there are, where, how much memory they hold and what they cost.",
    "autopsy": "Each zombie: who made it, what holds it (down to the file), what would free it.",
    "doctor": "Watch for a few seconds, then say what is wrong, what causes it and what to do.",
    "plan": "What can be done: steps in order, with what each frees and risks and how to undo it.",
    "cores": "What each core spends its time on, and who keeps a saturated one busy.",
    "apply": "Carry out the plan. A dry run unless you say --yes; every change can be traced.",
    "undo": "Undo what an apply changed.",
    "actions": "What was applied here, when, and whether it can be undone.",
    "verify": "Check whether an apply held: the same numbers before and after.",
    "audit": "Services and agents: which can loop for ever, which nothing needs.",
    "check": "A gate for pipelines and monitoring: one verdict, many formats, an exit code.",
    "profile": "CPU time by moment and core: heat map, flame graph, differences.",
    "reap": "Free zombies that only page cache holds, within a budget (opt-in).",
    "agent": "Watch this host all the time: history, metrics for Prometheus, and the page.",
    "serve": "Show the page without an agent: this host, or any recording.",
    "fleet": "Many nodes: which are sick, what they share, since when, where to begin.",
    "top": "Live view: births, deaths, releases and zombies by maker.",
    "history": "What the agent recorded: growth, forecast, events, any past moment.",
    "export": "Print alert rules, a dashboard, systemd units, a policy and more.",
    "lab": "Make real zombies in a place of its own, to try things out, and remove them.",
    "record": "Save what was read to one file, without names, to replay elsewhere.",
    "self-check": "What of this tool works on this host, how, and why not.",
    "explain": "What a finding, a kind of pin, a metric or a gap means. Works offline.",
    "help": "Show the help of a command.",
    "licenses": "The parts of this build, their versions, licences and licence texts.",
    "completion": "Print a shell's completion script.",
}
DEFAULT = "scan"


_EXIT_PIPE = 141
_WIDTH_UNKNOWN = 80
_CANNOT_WRITE = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)
_OWN_FLAGS = ("--help", "-h", "--version", "--debug")


class _Commands(Late):
    """From `cli/commands/`; flags alone mean the default command."""

    about = COMMANDS

    def load(self, name: str) -> click.Command:
        module = name.replace("-", "_")
        command = getattr(import_module(f"zombiescope.cli.commands.{module}"), module)
        if not gc.isenabled():  # what was loaded stays, and is not looked through again and again
            gc.freeze()
            gc.enable()
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches  # only for who mistyped

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = [argument for argument in args if argument in _OWN_FLAGS] if args and args[0] in _OWN_FLAGS else []
        rest = args[len(own) :] if args[: len(own)] == own else args
        # A shell that completes the first word wants commands, not those of the default one.
        is_completed = ctx.resilient_parsing and not rest
        if own in ([], ["--debug"]) and (not rest or rest[0].startswith("-")) and not is_completed:
            args = [*own, DEFAULT, *rest]
        return super().parse_args(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="zombiescope")
@click.option("--debug", is_flag=True, help="Print the traceback of a bug instead of keeping it in a file.")
def commands(*, debug: bool) -> None:
    """Finds zombie memory cgroups: those that were removed but live on in the kernel, where no tool shows them.

    Without a command: scan. Every command that reads takes --json and --root; `zombiescope help COMMAND` has examples, `zombiescope
    explain WORD` says what a word in a report means.
    """
    del debug


def run() -> NoReturn:
    gc.disable()  # until a command is loaded: a start makes much and drops little
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
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader went away, seen by us or (as SystemExit) by click, which prints --help itself.
        _drop_standard_output()
        return _EXIT_PIPE
    except ZombiescopeError as error:
        _explain(error)
        return error.exit_code
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _CANNOT_WRITE:
            return _say_unwritten(error)
        return _report_bug(keep=arguments[:1] != ["--debug"])


def _print(answer: Answer | None) -> int:
    if answer is None:
        return EXIT_FINE
    try:
        standard_output()
        _write(answer)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        return _say_unwritten(error)
    return answer.exit_code


def _say_unwritten(error: OSError) -> int:
    _drop_standard_output()
    _explain(
        ObservationError("cannot write the answer (standard output)", reason_of(error), "give it a place to write")
    )
    return ObservationError.exit_code


def _drop_standard_output() -> None:
    """Point it elsewhere, or the interpreter complains once more when it ends."""
    if sys.stdout is not None:
        from zombiescope.host.own_folder import open_nothing  # only for who cannot be heard

        os.dup2(open_nothing(), sys.stdout.fileno())


def _write(answer: Answer) -> None:
    match answer:
        case JsonAnswer(document=document):
            import json  # each form loads only what it needs

            print(json.dumps(document, indent=2))
        case PlainAnswer(text=text):
            print(quiet_lines(text))
        case TextAnswer(parts=parts):
            _draw(parts)


def _draw(parts: Sequence[RenderableType]) -> None:
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    plain = [str(part) for part in parts if isinstance(part, str | Next)]
    if len(plain) == len(parts) and not sys.stdout.isatty() and all(line.isprintable() for line in plain):
        print("\n".join(line.rstrip() for line in plain))
        return
    from rich.console import Console  # drawing is loaded only when it is needed
    from rich.text import Text

    from zombiescope.presenters.layout import Block, Command, Prose

    console = Console(highlight=False, emoji=False, soft_wrap=False)
    console.width = console.width or _WIDTH_UNKNOWN  # COLUMNS=0, and terminals that do not know their size
    if console.is_terminal:
        for part in parts:
            console.print(Quiet(part))
        return
    # For a file or a program: a sentence is one line, and no line ends in blanks.
    with console.capture() as capture:
        for part in parts:
            console.print(Quiet(part), soft_wrap=isinstance(part, Text | str | Prose | Block | Command | Next))
    print("\n".join(line.rstrip() for line in capture.get().rstrip().split("\n")))


def _explain(error: ZombiescopeError) -> None:
    # The last guard: whatever a stranger's file brought into a message, a terminal does not obey it.
    tell(f"error: {quiet_lines(error.what)}\n  why: {quiet_lines(error.why)}")
    if error.hint:
        tell(f"  try: {quiet_lines(error.hint)}")


def _report_bug(*, keep: bool) -> int:
    """One line for the person; the traceback in a file, or on the screen with --debug."""
    import tempfile  # a healthy run does not pay for a bug
    import traceback

    trace = quiet_lines(traceback.format_exc())  # a stranger may have chosen its last words
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


class Quiet:
    """A part of an answer. Colours are styles here and become escapes later: those are ours."""

    def __init__(self, part: RenderableType) -> None:
        from rich.text import Text  # drawing is loaded only when it is needed

        from zombiescope.presenters.layout import Prose

        self._part = Prose(part) if isinstance(part, Text | str) else part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self._part, options):
            yield segment if segment.control else Segment(quiet_lines(segment.text), segment.style)
