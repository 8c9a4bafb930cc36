# SPDX-License-Identifier: Apache-2.0
"""What every command shares: what it gives back to `main` (a JSON document or text for a person, and the exit code), and options,
with what is made of them. Loaded by every command, so it loads little."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TextIO

import click

from zombiescope.cli.progress import tell
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown, unshown

if TYPE_CHECKING:  # rich is loaded only when text is drawn
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from zombiescope.pipeline.plan import Scope
    from zombiescope.presenters.plan_json import Asked


class Next(NamedTuple):
    """What to type next, and what for. For a file or a program it needs no drawing; on a terminal it is drawn as `Command` is."""

    why: str
    command: str

    def __str__(self) -> str:
        return f"{self.why}: {self.command}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from zombiescope.presenters.layout import Command  # drawing is loaded only when it is needed

        return Command(self.why, self.command).__rich_console__(console, options)


class JsonAnswer(NamedTuple):
    document: dict[str, Any]
    exit_code: int = 0


class TextAnswer(NamedTuple):
    parts: Sequence[RenderableType]
    exit_code: int = 0


class PlainAnswer(NamedTuple):
    """Text for a program: printed as it is."""

    text: str
    exit_code: int = 0


Answer = JsonAnswer | TextAnswer | PlainAnswer


def standard_output() -> TextIO:
    """Raises OSError where it was closed before we began."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sys.stdout


Decorated = Callable[..., Any]
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|h|d)")
_SECONDS_PER = {"s": 1, "m": 60, "h": 3600, "d": 86400}

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
config_option = click.option(
    "--config", metavar="FILE", help="Thresholds from this file (TOML) instead of /etc/zombiescope.toml."
)
root_option = click.option(
    "--root",
    type=click.Path(path_type=bytes, readable=False),
    metavar="DIR",
    help="Look at a host mounted at DIR, or at a recorded one, instead of this host.",
)


def together(*options: Decorated) -> Decorated:
    """Several options as one, in the order in which the help shows them."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


asking_options = together(
    click.option(
        "--cri-socket",
        metavar="PATH",
        help="Ask the container runtime why containers ended, at its socket, such as /run/containerd/containerd.sock.",
    ),
    click.option(
        "--kube-api",
        is_flag=True,
        help="Ask the cluster's API server who owns the pods and why containers ended. Off unless given.",
    ),
)
"""Who may be asked about pods besides: nobody, unless it is switched on."""

manifests_option = click.option(
    "--manifests",
    type=click.Path(path_type=bytes),
    metavar="DIR",
    help="Kubernetes manifests and compose files too; alone, nothing else.",
)


def listen_option(port: int) -> Callable[[Decorated], Decorated]:
    """Where a page is served; `port`, unless told otherwise."""
    return click.option(
        "--listen",
        default=f"127.0.0.1:{port}",
        show_default=True,
        metavar="ADDRESS:PORT",
        help="Where to serve; port 0 takes any free one. unix:PATH is a socket that only its owner can open.",
    )


def examples(*lines: str) -> str:
    """The end of a help: what to type."""
    return "\b\nExamples:\n" + "".join(f"  {line}\n" for line in lines)


class Late(click.Group):
    """Each command is loaded when it is asked for, and listed without being loaded: `about` says what it does."""

    about: ClassVar[dict[str, str]]

    def load(self, name: str) -> click.Command:
        raise NotImplementedError

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.about)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        return self.load(cmd_name) if cmd_name in self.about else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(self.about.items()))


class Listed(click.Group):
    """Lists its commands with their first sentence in full."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(limit=300)) for name, each in found if each])


def same_place(root: bytes | None, image: bytes | None = None) -> str:
    """The options that name the same machine, folder or image once more, for a line to paste."""
    from shlex import quote

    given = (("root", root), ("image", image))
    return "".join(f" --{name} {quote(shown(value))}" for name, value in given if value is not None)


def age_of(age: str, why: str, hint: str, *, may_be_bare: bool = False) -> float:
    """In seconds. `may_be_bare`: a number alone is of seconds."""
    parsed = _AGE.fullmatch(age.strip() + ("s" if may_be_bare and age.strip()[-1:].isdigit() else ""))
    if not parsed:
        raise UsageError(f"cannot read the age {age!r}", why, hint)
    return float(parsed[1]) * _SECONDS_PER[parsed[2]]


def moment_of(text: str, now: float, option: str = "--at") -> float:
    """Seconds since the epoch, from an age or a date and time."""
    ago = _AGE.fullmatch(text.strip())
    if ago:
        return now - float(ago[1]) * _SECONDS_PER[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        why = "it is neither a date and time nor an age"
        hint = f"such as {option} 2026-01-31T14:02, or {option} 2h"
        raise UsageError(f"cannot read the time {text!r}", why, hint) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


WATCHING = "watching services and zombies"
THEN = "looking at each zombie, choosing steps"


scope_options = together(
    click.option("--maker", metavar="GLOB", help="Only zombies of makers that match, such as 'unit:ecs*'."),
    click.option(
        "--below", metavar="PATH", help="Only zombies whose nearest live parent is this cgroup or lies below it."
    ),
    click.option(
        "--zombie", type=click.IntRange(min=0), metavar="ID", help="Only this one, by its id in autopsy or on the page."
    ),
)
"""Which zombies a plan is about."""


def scope_of(maker: str | None, below: str | None, zombie: int | None = None) -> Scope:
    from zombiescope.pipeline.plan import Scope  # a scan does not pay for it

    return Scope(maker, None if below is None else unshown(below), zombie)


def asked_of(scope: Scope, root: bytes | None) -> Asked:
    """What a plan's last line repeats, so that what is done is what was planned."""
    from zombiescope.pipeline.act import is_folder  # --help does not pay for it
    from zombiescope.presenters.plan_json import Asked

    below = None if scope.below is None else shown(scope.below)
    if root is None or is_folder(root):
        is_root = os.geteuid() == 0
        return Asked(scope.maker, below, None if root is None else shown(root), zombie=scope.zombie, is_root=is_root)
    return Asked(scope.maker, below, is_elsewhere=True, zombie=scope.zombie, recording=shown(root))


def tell_unfinished(state: bytes | str | None = None) -> None:
    """On standard error, of this host alone."""
    from zombiescope.pipeline.act import unfinished

    folder = shown(state) if isinstance(state, bytes) else state
    for undo in unfinished(folder or "/var/lib/zombiescope"):
        tell(f"an earlier apply ended in the middle; to put back what it had changed: {undo}")


state_option = click.option(
    "--state",
    type=click.Path(path_type=bytes, readable=False),
    default=b"/var/lib/zombiescope",
    show_default="/var/lib/zombiescope",
    metavar="DIR",
    help="Where journals of actions are kept.",
)
window_option = click.option(
    "--window",
    type=click.FloatRange(min=0, max=86400),
    default=600.0,
    show_default=True,
    help="How many seconds to watch afterwards.",
)
