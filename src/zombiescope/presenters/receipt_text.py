# SPDX-License-Identifier: Apache-2.0
"""Receipts for a person: what was done, what went, whether it held, and how to take it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rich.console import RenderableType
from rich.text import Text

from zombiescope.analysis.comparing import ComparedRow, Measure, ShareChange
from zombiescope.diagnosis.outcome import Holding
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, zombies_said
from zombiescope.facts.reclaim import Vitals
from zombiescope.presenters.document import Dated, Json, document, null_gaps, rfc3339
from zombiescope.presenters.figures import UNKNOWN, duration
from zombiescope.presenters.layout import Block, Column, Command, Fitting, Prose
from zombiescope.presenters.plan_json import plan_gaps, render_plan, render_step
from zombiescope.remedies.plan import Plan, Undo
from zombiescope.remedies.receipts import Kept, StepReceipt, Taken, Verified

_UNTOLD = "it could not be measured on this host"
_REASONS = {
    "steps[].freed.zombies": "this step frees no zombie by itself, was not done, or the zombies could not be counted",
    "steps[].expected": "this step frees no zombie by itself, or is done by hand: nothing is predicted",
    "verify": "the window was left out (--window 0)",
    "action": "a dry run, or no action of ours: nothing was changed",
    "before": "no action of ours: the rows say what was before",
    "after": "no action of ours: the rows say what came after",
}


def render_dry_run(plan: Plan, seen: Dated, gaps: Iterable[Gap]) -> Json:
    return _document(
        "receipt/1",
        seen,
        {"verb": "apply", "action": None, "dry_run": True, **render_plan(plan)},
        [*gaps, *plan_gaps(plan)],
    )


class Applied(Protocol):
    @property
    def action(self) -> str: ...
    @property
    def receipts(self) -> Sequence[StepReceipt]: ...
    @property
    def kept(self) -> Sequence[Kept]: ...


def render_receipt(applied: Applied, plan: Plan, seen: Dated, gaps: Iterable[Gap], verified: Json | None) -> Json:
    body: Json = {
        "verb": "apply",
        "action": applied.action,
        "dry_run": False,
        "plan": plan.id,
        "steps": [_step(step) for step in applied.receipts],
        "verify": verified,
        "kept": [{"file": each.path, "copy": each.copy} for each in applied.kept],
    }
    return _document("receipt/1", seen, body, [*gaps, *plan_gaps(plan)])


def _step(done: StepReceipt) -> Json:
    return {
        **render_step(done.step),
        "status": done.status,
        "freed": {"zombies": done.zombies_freed},
        "note": done.note,
    }


def render_undo(
    action: str,
    taken: Sequence[Mapping[str, Any]],
    todo: Sequence[str],
    kept: Sequence[Kept],
    seen: Dated,
    *,
    dry_run: bool,
) -> Json:
    body = {
        "verb": "undo",
        "action": action,
        "dry_run": dry_run,
        "changes": list(taken),
        "todo": list(todo),
        "kept": [{"file": each.path, "copy": each.copy} for each in kept],
    }
    return _document("receipt/1", seen, body, [])


def render_verify(seen: Verified, gaps: Iterable[Gap] = ()) -> Json:
    return _document("verify/1", seen, verify_body(seen), gaps)


def verify_body(seen: Verified) -> Json:
    return {
        "action": seen.action,
        "verdict": seen.outcome.verdict,
        "why": seen.outcome.why,
        "before": _vitals(seen.before),
        "after": _vitals(seen.after),
        "rows": [_row(row) for row in seen.rows],
        **({"jobs_changed": _change(seen.jobs_changed)} if seen.jobs_changed else {}),
    }


def _row(row: ComparedRow) -> Json:
    why = {"why": row.why} if row.why else {}
    return {
        "what": row.what,
        "unit": row.unit,
        "before": _measure(row.before),
        "after": _measure(row.after),
        "verdict": row.verdict,
        **why,
    }


def _measure(measure: Measure) -> Json:
    """The range and the count where there are such."""
    told = {"low": measure.low, "high": measure.high, "count": measure.number}
    more = {name: value for name, value in told.items() if value is not None}
    return {"value": measure.value, "seconds": round(measure.seconds, 1), "source": measure.source, **more}


def _change(change: ShareChange) -> Json:
    sides = {"before": change.before, "after": change.after}
    return {
        "at": rfc3339(change.at),
        **{name: {"succeeded": good, "ended": all_} for name, (good, all_) in sides.items()},
    }


def _vitals(vitals: Vitals | None) -> Json | None:
    if vitals is None:
        return None
    return {**vitals._asdict(), "at": rfc3339(vitals.at), "slope_per_hour": vitals.slope_per_hour}


def _document(schema: str, seen: Dated, body: Json, gaps: Iterable[Gap]) -> Json:
    """Every null has its gap."""
    known = list(gaps)
    return document(schema, seen, body, [*known, *null_gaps(body, known, _REASONS, _UNTOLD)])


_STYLES = {Holding.HELD: "green", Holding.NOT_HELD: "bold red", Holding.INCONCLUSIVE: "yellow"}
_MARKS = {"done": "done", "skipped": "skipped", "for-people": "by hand"}


def render_receipt_text(
    action: str, steps: Sequence[StepReceipt], undo: str = "", kept: Sequence[Kept] = (), restore: str = ""
) -> list[RenderableType]:
    """`undo`, `restore`: what to type to take it back, and to put back deleted files of which copies were `kept`."""
    done = [step for step in steps if step.status == "done"]
    parts: list[RenderableType] = [Text(render_done_line(steps), style="bold"), Text()]
    for step in steps:
        line = Text(step.step.title)
        line.append(_came(step), style="bold" if step.zombies_freed else "dim")
        if step.note:
            line.append(f"   {step.note}", style="dim")
        style = "green" if step.status == "done" else "dim"
        parts.append(Block(_MARKS[step.status], [line], style=style, width=8))
    if kept:
        files = f"{len(kept):,} deleted file{'s' if len(kept) != 1 else ''}"
        parts += [Text(), Text(f"copies of {files} are kept, such as {kept[0].copy} of {kept[0].path}")]
        parts.append(Command("to put them back", restore))
    if any(step.step.undo is not Undo.NONE for step in done):
        return [*parts, Text(), Command("to take it back", undo or f"zombiescope undo {action} --yes")]
    return parts if kept else [*parts, Text(), Command("to look at the host", "zombiescope scan")]


def render_done_line(steps: Sequence[StepReceipt]) -> str:
    done = [step for step in steps if step.status == "done"]
    freed = sum(step.zombies_freed or 0 for step in done)
    return f"{len(done)} step{'s' if len(done) != 1 else ''} done, {zombies_said(freed)} freed"


def _came(step: StepReceipt) -> str:
    if step.zombies_freed is None:
        return ""
    expected = step.step.expected.zombies_freed if step.step.expected else None
    predicted = "not predicted" if expected is None else f"predicted {expected:,}"
    return f"   freed {step.zombies_freed:,} ({predicted})"


def render_verify_text(seen: Verified, lines: tuple[str, str] = ("", "")) -> list[RenderableType]:
    """`lines`: what to type to take it back, and to look again."""
    outcome = seen.outcome
    columns = (
        Column("", is_number=False, least_width=12),
        Column("before"),
        Column("after"),
        Column("", is_number=False, least_width=8),
    )
    told = [row for row in seen.rows if row.before.value is not None or row.after.value is not None]
    rows = [(_name(row), _value(row, row.before), _value(row, row.after), _verdict(row)) for row in told]
    parts: list[RenderableType] = [
        Prose(f"{outcome.verdict}: {outcome.why}", _STYLES[outcome.verdict]),
        Text(),
    ]
    if rows:
        parts += [Fitting(columns, rows), Text(), Prose(_watched(seen.rows), "dim")]
    parts += [Prose(_changed(seen.jobs_changed))] if seen.jobs_changed else []
    unknown = [row.what for row in seen.rows if row not in told]
    if unknown:
        parts.append(Prose(f"not measured here: {', '.join(unknown)}", "dim"))
    return [*parts, Text(), _then(seen, *lines)]


def _then(seen: Verified, undo: str, again: str) -> Command:
    verdict, action = seen.outcome.verdict, seen.action
    if verdict is Holding.NOT_HELD and action:
        return Command("to take it back", undo or f"zombiescope undo {action} --yes")
    if verdict is Holding.NOT_HELD:
        return Command("next", "zombiescope doctor")
    if verdict is Holding.INCONCLUSIVE and action is None:
        return Command("to keep a history to compare with", "zombiescope agent")
    if verdict is Holding.INCONCLUSIVE:
        return Command("to watch for longer", f"{again or f'zombiescope verify {action}'} --window 3600")
    return Command("to look at the host", "zombiescope scan")


def _name(row: ComparedRow) -> str:
    return row.what if row.unit in ("at the end", "seconds", "share") else f"{row.what} ({row.unit})"


def _value(row: ComparedRow, measure: Measure) -> str:
    value = measure.value
    if value is None:
        return UNKNOWN
    if row.unit == "at the end":
        return f"{value:,.0f}"
    if row.unit == "seconds":
        return duration(value)
    if row.unit == "share":
        return f"{value:.1%}" + (f" of {measure.number:,}" if measure.number is not None else "")
    if row.unit == "per hour":
        around = f" ({measure.low:,.1f} to {measure.high:,.1f})" if measure.low is not None and value else ""
        return f"{value:,.1f}{around}"
    return f"{value:.2%}"


def _verdict(row: ComparedRow) -> str:
    is_plain = not row.why or row.before.value is None or row.after.value is None
    return str(row.verdict) if is_plain else f"{row.verdict}: {row.why}"


def _watched(rows: Sequence[ComparedRow]) -> str:
    sides = []
    for name in ("before", "after"):
        longest = max((getattr(row, name) for row in rows), key=lambda each: each.seconds, default=None)
        if longest is not None and longest.seconds:
            sides.append(f"{name}: {duration(longest.seconds)} ({longest.source})")
    return "; ".join(sides)


def _changed(change: ShareChange) -> str:
    (was, tried), (now, later) = change.before, change.after
    sides = f"{was / tried:.0%} of {tried:,} before, {now / later:.0%} of {later:,} after"
    return f"job success changed at {rfc3339(change.at)}: {sides}"


_EXAMPLES = 5
_CLEAN = ("restored", "nothing-to-do")


def render_undo_text(action: str, taken: Sequence[Taken], kept: Sequence[Kept], restore: str) -> list[RenderableType]:
    clean = sum(each.outcome in _CLEAN for each in taken)
    lost = len(taken) - clean
    if not taken:
        head = Text(f"nothing is left to take back of {action}", style="green")
    elif not lost and not any(each.outcome == "restored" for each in taken):
        head = Text(f"nothing had to be taken back of {action}: what it did needs no undo", style="green")
    elif lost:
        head = Text(
            f"not everything was taken back: {clean:,} of {counted(len(taken), 'change')} of {action}; ",
            style="bold red",
        )
        head.append(f"{lost:,} cannot be undone")
    else:
        head = Text(f"taken back: {counted(len(taken), 'change')} of {action}", style="green")
    return [head, *_outcomes(taken), Text(), *_kept_lines(kept), _next(kept, restore, to_do="zombiescope scan")]


def _outcomes(taken: Sequence[Taken]) -> Iterator[RenderableType]:
    """A line for each, and one for what is left of many that came out alike."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in taken:
        alike = each.outcome, each.why
        seen[alike] += 1
        if seen[alike] <= _EXAMPLES:
            told = f"{each.what.removeprefix('restore ')}   {each.why}".rstrip()
            yield Block(f"  {each.outcome.replace('-', ' ')}", [told], style="", width=19)
    rest = sum(max(number - _EXAMPLES, 0) for number in seen.values())
    if rest:
        yield Text(f"  and {rest:,} more (--json lists all)", style="dim")


def render_undo_dry_run(
    action: str,
    todo: Sequence[str],
    lost: Sequence[str],
    kept: Sequence[Kept],
    lines: tuple[str, str],
    *,
    also_files: bool,
) -> list[RenderableType]:
    """`lost`: what cannot be undone; `lines`: what to type with and without deleted files; `also_files`: they were asked for."""
    restore, undo = lines
    number = len(todo) + (len(kept) if also_files else 0)
    if not number and not kept and not lost:
        return [
            Text(f"nothing is left to take back of {action}", style="green"),
            Text(),
            Command("to look at the host", "zombiescope scan"),
        ]
    would = (
        f"{counted(number, 'change')} of {action} would be taken back"
        if number
        else f"nothing of {action} would be taken back"
    )
    never = f"; {counted(len(lost), 'change')} cannot be undone" if lost else ""
    head = f"dry run: nothing was changed; {would}{never}"
    parts: list[RenderableType] = [
        Text(head, style="yellow"),
        *(Text(f"  {line}") for line in todo),
        *(Text(f"  cannot be undone: {line}") for line in lost),
        Text(),
    ]
    if not number:
        return [*parts, *_kept_lines(kept), _next(kept, restore, to_do="zombiescope scan")]
    do_it = Command("to do it", restore if also_files else undo)
    if not kept:
        return [*parts, do_it]
    more = [] if also_files else [Command("to put them back, too", restore)]
    return [*parts, *_kept_lines(kept), *more, do_it]


def _kept_lines(kept: Sequence[Kept]) -> list[Text]:
    if not kept:
        return []
    files = "1 deleted file" if len(kept) == 1 else f"{len(kept):,} deleted files"
    lines = [
        Text(f"copies of {files} are kept:"),
        *(Text(f"  {each.path}   copy: {each.copy}") for each in kept[:_EXAMPLES]),
    ]
    if len(kept) > _EXAMPLES:
        lines.append(Text(f"  and {len(kept) - _EXAMPLES:,} more (--json lists all)"))
    return lines


def _next(kept: Sequence[Kept], restore: str, to_do: str) -> Command:
    return Command("to put them back", restore) if kept else Command("to look at the host", to_do)
