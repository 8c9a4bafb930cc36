# SPDX-License-Identifier: Apache-2.0
"""Do what a plan says, journal first: `apply`. Whether it holds: `verify.py`; taking it back: `past_actions.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from zombiescope.errors import ActionUndoneError, reason_of
from zombiescope.execution.executor import Executor, Surroundings
from zombiescope.execution.journal import ActionFolder, Journal, undo_line
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import Attention, InterruptedActionError
from zombiescope.execution.way_back import (
    KeptCopy,
    WayBack,
    ended_in_the_middle,
    is_one_at_work,
    kept_copies,
    refuse_in_the_middle,
)
from zombiescope.facts.cgroups import Identity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import Vitals
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost, TreeHost, choose_host
from zombiescope.host.writes import Writer
from zombiescope.pipeline.mistyped import refuse_consents
from zombiescope.pipeline.plan import Planned, Scope, make_plan
from zombiescope.pipeline.verify import remembers
from zombiescope.probes.readers.node import read_identity, read_machine_health
from zombiescope.probes.readers.zombie_walk import read_zombie_serials
from zombiescope.remedies.plan import Plan, Step
from zombiescope.remedies.receipts import StepReceipt
from zombiescope.watching.recovery import Recovered, Treated, watch_recovery, watch_vitals

_DAY = 86400
_MOST_REPEATS = 3
_SHORT_SECONDS = 1.0
Progress = Callable[[float], None]
Say = Callable[[str], None]


class Order(NamedTuple):
    state: str
    root: bytes | None = None
    scope: Scope = Scope()
    seconds: float = 5.0
    """How long services are watched before."""
    consents: frozenset[str] = frozenset()
    again: bool = False
    """Also what was done several times today."""
    before_seconds: float = 1.0
    """How long all that `verify` compares is watched before anything is changed, where no history remembers it."""


class Applied(NamedTuple):
    action: str
    folder: str
    """Where its journal is."""
    planned: Planned
    receipts: tuple[StepReceipt, ...]
    before: Vitals
    kept: tuple[KeptCopy, ...] = ()
    """Deleted files of which a copy can be put back."""


class Talk(NamedTuple):
    """With whoever started it. `ask` is asked for each step that needs consent and has none by name."""

    ask: Callable[[Step], bool]
    say: Say
    attention: Attention
    """Whom signals are told."""
    tell: Say
    """What must be heard where nobody watches, too."""


def apply(order: Order, talk: Talk) -> Applied:
    host = LiveHost()
    folder = ActionFolder(order.state)
    with folder.locked():
        refuse_in_the_middle(order.state, read_identity(host).boot_id)
        try:
            return _apply(order, folder, host, talk)
        except InterruptedActionError as interruption:
            raise ActionUndoneError(
                interruption.what, "nothing had been changed yet", "zombiescope apply begins anew"
            ) from interruption


def _apply(order: Order, folder: ActionFolder, host: Host, talk: Talk) -> Applied:
    with talk.attention.at_ease():
        talk.say("looking before anything is changed")
        planned = make_plan(order.root, order.scope, order.seconds)
        if not planned.plan.own_steps:
            raise ActionUndoneError("nothing to apply", "the plan has no step that can be applied", "zombiescope plan")
        refuse_consents(order.consents, planned.plan, host, planned.levers.hierarchy)
        _break_circuit(folder, planned.plan, host.wall_clock(), again=order.again)
        before = _look_before(
            host, Treated(planned.plan.makers, order.scope.maker, order.scope.below, order.scope.zombie), order, talk
        )
    journal = _begin(folder, host, planned.plan, order, before, talk.attention.point)
    work = _Work(host, planned, order, Hands(Writer(order.root or b"", talk.attention.point), journal), talk)
    receipts = WayBack(work.hands, talk.attention, planned.levers.has_systemd).guard(work.run_all)
    kept = kept_copies(journal.entries(), journal.folder)
    return Applied(journal.name, journal.folder, planned, tuple(receipts), before.vitals, tuple(kept))


def _look_before(host: Host, subject: Treated, order: Order, talk: Talk) -> Recovered:
    """For as long as it is watched afterwards, where no history remembers the time before: like is compared with like."""
    if order.before_seconds <= _SHORT_SECONDS or order.root is not None or remembers(order.state, host.wall_clock()):
        return Recovered(watch_vitals(host, subject, _SHORT_SECONDS))
    length = f"{order.before_seconds:,.0f} s"
    talk.tell(
        f"no history of the time before: watching for {length} first, so that before and after can be compared; "
        "nothing is changed until then (to change it at once: --before 1)"
    )
    talk.say(f"watching for {length} before anything is changed")
    return watch_recovery(host, subject, order.before_seconds)


class _Work:
    def __init__(self, host: Host, planned: Planned, order: Order, hands: Hands, talk: Talk) -> None:
        self.host, self.planned, self.order, self.hands, self.talk = host, planned, order, hands, talk
        self.serials: frozenset[int] = frozenset()
        self.spared: set[str] = set()
        """Steps that are not needed any more: another did the same at a lower price."""
        around = Surroundings(self._stock, self._pressure, self._wait, planned.levers.hierarchy)
        self.executor = Executor(hands, around, has_systemd=planned.levers.has_systemd)

    def run_all(self) -> list[StepReceipt]:
        steps = self.planned.plan.steps
        first = [step for step in steps if step.expected is None and not step.is_for_people]
        receipts = [self._one(step) for step in first]
        rest = [step for step in steps if step.expected is not None or step.is_for_people]
        if rest and any(receipt.status == "done" for receipt in receipts) and self.order.root is None:
            rest = self._looked_again(len(first))
        found = self.planned.autopsy
        self.serials = frozenset(body.zombie.serial for body in found.bodies) if found else frozenset()
        receipts += [self._one(step) for step in rest]
        with suppress(OSError):  # every step has its own line
            self.hands.journal.add("end", outcome="done")
        return receipts

    def _looked_again(self, done: int) -> list[Step]:
        """The maker is stopped: what it left until then is freed too. Consent goes by name, so it still stands."""
        with self.talk.attention.at_ease():
            self.talk.say("looking again, now that the maker is stopped")
            fresh = make_plan(None, self.order.scope, 0.0, makers=self.planned.plan.makers)
        self.planned = fresh
        wanted = [step for step in fresh.plan.steps if step.expected is not None or step.is_for_people]
        return [step._replace(n=done + number) for number, step in enumerate(wanted, 1)]

    def _one(self, step: Step) -> StepReceipt:
        with self.talk.attention.at_ease():
            is_named = not step.needs_consent or step.name in self.order.consents
            is_spared = not is_named and step.name in self.spared
            is_allowed = is_named or (not is_spared and self.talk.ask(step))
            if is_allowed:
                self.talk.say(step.title)
        if is_spared:
            return self.executor.skip(step, "not needed: what stands in for it was done")
        if not is_allowed:
            return self.executor.skip(step, f"no consent: --consent {step.name}")
        done = self.executor.run(step)
        self.spared.update(step.instead_of)
        return done

    def _stock(self) -> int | None:
        with self.talk.attention.at_ease():
            now = read_zombie_serials(self.host)
        return None if isinstance(now, Gap) else len(now & self.serials)

    def _wait(self, seconds: float) -> None:
        with self.talk.attention.at_ease():
            self.host.wait(seconds)

    def _pressure(self) -> float | None:
        return read_machine_health(self.host).memory_pressure


def rehearse(order: Order, progress: Progress) -> Planned:
    """What an apply of this order would do, and whether its words of consent name steps. Changes nothing."""
    planned = make_plan(order.root, order.scope, order.seconds, progress)
    refuse_consents(order.consents, planned.plan, LiveHost(), planned.levers.hierarchy)
    return planned


def _begin(folder: ActionFolder, host: Host, plan: Plan, order: Order, before: Recovered, point: Say) -> Journal:
    stamp = datetime.fromtimestamp(host.wall_clock(), UTC).strftime("%Y%m%dT%H%M%S")
    try:
        journal = Journal(folder.folder(f"{stamp}-{plan.id[:6]}"), host.wall_clock, point)
        journal.add(
            "begin",
            plan=plan.id,
            findings=list(plan.findings),
            makers=list(plan.makers),
            maker=order.scope.maker,
            below=None if order.scope.below is None else shown(order.scope.below),
            zombie=order.scope.zombie,
            root=shown(order.root or b""),
            boot_id=read_identity(host).boot_id,
            before=before.vitals._asdict(),
            before_samples=[[sample.at, sample.boot, dict(sample.values)] for sample in before.samples],
        )
    except OSError as error:
        raise ActionUndoneError(
            "cannot begin a journal", reason_of(error), "nothing was changed; --state DIR"
        ) from error
    return journal


def _break_circuit(folder: ActionFolder, plan: Plan, now: float, *, again: bool) -> None:
    done = Counter(folder.steps_done_since(now - _DAY))
    often = [step.name for step in plan.own_steps if done[step.name] >= _MOST_REPEATS]
    if often and not again:
        raise ActionUndoneError(
            f"stopped by the circuit breaker: {', '.join(often)}",
            f"done {_MOST_REPEATS} times within a day and needed again: it does not hold",
            "nothing was changed; find what makes them (zombiescope doctor), or --again",
        )


def unfinished(state: str) -> list[str]:
    """What to type for each action that ended in the middle and that nobody is at work on."""
    boot_id = read_identity(LiveHost()).boot_id
    names = [] if is_one_at_work(state) else ended_in_the_middle(state, boot_id)
    return [undo_line(ActionFolder(state).folder(name)) for name in names]


class Now(NamedTuple):
    taken_at: float
    identity: Identity


def now() -> Now:
    host = LiveHost()
    return Now(host.wall_clock(), read_identity(host))


def is_folder(root: bytes) -> bool:
    """The root of an image: files, and nothing that runs."""
    return isinstance(choose_host(root), TreeHost)
