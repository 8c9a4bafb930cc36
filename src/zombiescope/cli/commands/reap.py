# SPDX-License-Identifier: Apache-2.0
"""`zombiescope reap`: frees evictable zombies within a budget. Opt-in: without --yes it only says what it would do."""

from __future__ import annotations

import os
import signal
import time
from select import select
from typing import Any

import click

from zombiescope import agent
from zombiescope.analysis.reaping import Pass, Reaping
from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option, root_option
from zombiescope.errors import EXIT_FINE, ActionFailedError, UsageError
from zombiescope.execution.reap import ReapLog
from zombiescope.facts.reaping import ReapBudget
from zombiescope.host.live import LiveHost, choose_host
from zombiescope.pipeline.reap import Reaper, Scope, keep_down
from zombiescope.presenters.reap_text import (
    reap_next,
    render_left,
    render_orders,
    render_pass,
    render_reap_json,
    render_reaper_families,
    render_refused,
    render_tally,
)

_DEFAULT = ReapBudget()


@click.command(
    epilog=examples(
        "zombiescope reap                       what one pass would free, and what it cannot; changes nothing",
        "zombiescope reap --yes                 one pass",
        "zombiescope reap --watch --yes         keep the stock down until SIGTERM",
        "zombiescope export reap-unit           the same as a systemd unit, off until it is enabled",
    )
)
@click.option("--watch", is_flag=True, help="Keep going, pass after pass, until a signal or until it does harm.")
@click.option("--yes", is_flag=True, help="Evict. Without it nothing is changed.")
@click.option("--maker", metavar="GLOB", help="Only zombies of these makers.")
@click.option("--parent", metavar="CGROUP", help="Only zombies at and below this live cgroup.")
@click.option(
    "--leave",
    type=click.IntRange(0),
    default=_DEFAULT.leave,
    show_default=True,
    help="How many zombies to leave alone.",
)
@click.option(
    "--pages-per-second", type=click.FloatRange(1), default=_DEFAULT.pages_per_second, show_default=True,
    help="How many pages per second to evict at most.",
)  # fmt: skip
@click.option(
    "--core-share", type=click.FloatRange(0.0001, 1), default=_DEFAULT.core_share, show_default=True,
    help="How much of one core to use at most.",
)  # fmt: skip
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=_DEFAULT.interval_seconds,
    show_default=True,
    help="Seconds between looks.",
)
@click.option(
    "--memory-pressure", type=click.FloatRange(0, 100), default=_DEFAULT.memory_pressure, show_default=True,
    help="Percent (PSI some avg10) above which nothing is evicted.",
)  # fmt: skip
@click.option(
    "--io-pressure",
    type=click.FloatRange(0, 100),
    default=_DEFAULT.io_pressure,
    show_default=True,
    help="The same for I/O.",
)
@click.option(
    "--refaults", type=click.FloatRange(0), default=_DEFAULT.refaults_per_second, show_default=True,
    help="Pages per second that are read again, above twice the usual, that count as harm. Three harmful passes stop it.",
)  # fmt: skip
@click.option(
    "--state", default="/var/lib/zombiescope", show_default=True, metavar="DIR", help="Where the log is kept."
)
@click.option("--textfile", metavar="FILE", help="Write metrics here, for node_exporter's textfile collector.")
@json_option
@root_option
def reap(
    *, watch: bool, yes: bool, as_json: bool, textfile: str | None, state: str, root: bytes | None, **asked: Any
) -> Answer:
    """Free zombies that only page cache keeps, in the least harmful way: by dropping the cache of the very files that hold them.

    Files in use by live programs, mapped or dirty pages, shared memory, swap, sockets and processes are never touched: they are
    counted and named. No setting is changed, so nothing has to be undone; evicted pages are read again when needed.
    Exit code 5: it stopped itself because it did harm.
    """
    if os.geteuid() != 0:
        raise UsageError("cannot reap", "it needs root", "sudo zombiescope reap")
    host = choose_host(root)
    if not isinstance(host, LiveHost):
        raise UsageError(
            f"cannot reap {host.label}", "nothing can be freed there", "zombiescope reap, on the host itself"
        )
    parent = asked["parent"]
    scope = Scope(asked["maker"], os.fsencode(parent) if parent else None)
    log = ReapLog(os.fsencode(state)) if yes else None
    try:
        last, lines = _passes(Reaper(host, _budget(asked), scope, log), watch=watch, as_json=as_json, textfile=textfile)
    finally:
        if log:
            log.close()
    return _answer(last, lines, as_json=as_json)


def _budget(asked: dict[str, Any]) -> ReapBudget:
    return ReapBudget(
        asked["leave"],
        asked["pages_per_second"],
        asked["core_share"],
        asked["memory_pressure"],
        asked["io_pressure"],
        asked["refaults"],
        asked["interval"],
    )


def _passes(reaper: Reaper, *, watch: bool, as_json: bool, textfile: str | None) -> tuple[Pass, list[str]]:
    """The last pass, and the lines about it that were not printed on the way."""
    if not watch:
        one = reaper.run_pass()
        if one.done:
            time.sleep(1.0)  # the kernel frees what lost its last page a moment later
            reaper.settle()
            one = one._replace(freed=reaper.tally.freed, tally=reaper.tally)
        _export(one, textfile)
        return one, _lines(one._replace(freed=0))
    ending = _Ending()
    said: list[str] = []

    def told(each: Pass) -> None:
        lines = _lines(each)
        if not as_json and (lines != said or each.state is Reaping.EVICTED):
            click.echo("\n".join(lines))
        said[:] = lines
        _export(each, textfile)

    return keep_down(reaper, told, ending.wait), []


class _Ending:
    """SIGTERM, SIGINT and SIGHUP (unless nohup) end the watch between two passes."""

    def __init__(self) -> None:
        self._is_asked = False
        self._reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heard)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def _heard(self, *_: object) -> None:
        self._is_asked = True

    def wait(self, seconds: float) -> bool:
        if not self._is_asked:
            select([self._reading], [], [], seconds)
        return not self._is_asked


def _lines(each: Pass) -> list[str]:
    return [
        render_pass(each.state, each.why, each.zombies, each.freed),
        *render_orders(each.choice.orders),
        *render_left(each.choice.left),
        *render_refused(each.done),
    ]


def _export(each: Pass, textfile: str | None) -> None:
    if not textfile:
        return

    tally = each.tally
    figures = (tally.freed, tally.pages, tally.cpu_seconds, tally.passes, tally.walks, tally.refused)
    _, body = agent.api.Exposition(lambda: render_reaper_families(figures, each.choice.left, each.state)).render()
    why = agent.api.write_textfile(textfile, body)
    if why:
        click.echo(f"cannot write {textfile}: {why}", err=True)


def _answer(last: Pass, lines: list[str], *, as_json: bool) -> Answer:
    exit_code = ActionFailedError.exit_code if last.state is Reaping.STOPPED else EXIT_FINE
    if as_json:
        return JsonAnswer(render_reap_json(last), exit_code)
    return TextAnswer([*lines, render_tally(last.tally), reap_next(last.state)], exit_code)
