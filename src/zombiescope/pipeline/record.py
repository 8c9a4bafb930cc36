# SPDX-License-Identifier: Apache-2.0
"""Keep what the readers read, scrubbed, in one file that replays to the same answer: `record`."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from zombiescope import __version__
from zombiescope.diagnosis.case import Case
from zombiescope.errors import ActionUndoneError, ObservationError
from zombiescope.facts.cgroups import Hierarchy, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host
from zombiescope.host.bundle import pack, publish
from zombiescope.host.known_names import kernel_symbols, read_known_names
from zombiescope.host.live import LiveHost
from zombiescope.host.page_size import page_bytes_of
from zombiescope.host.recorder import Leak, RecordingHost, find_leaks
from zombiescope.host.recording import Header, ReplayHost, bytes_of, text_of
from zombiescope.host.scrub import Scrubber
from zombiescope.pipeline.autopsy import NAME, Gathered, gather, keep, recall
from zombiescope.pipeline.carrying import NOTHING, Carried, Carrying, Words, carry, makers_in_history
from zombiescope.pipeline.doctor import Examined, examine
from zombiescope.probes.readers.node import read_levers
from zombiescope.probes.readers.systemd_state import read_restart_times

_RESTARTS_SECONDS = 3600.0
_MOST_NAMED = 5


class Recorded(NamedTuple):
    snapshot: Snapshot
    size_bytes: int
    answers: int
    taken_out: int
    """Different names and addresses that were replaced."""
    verdict: str
    replays: bool
    """What was written gives the same counts and findings."""
    carried: Carried = NOTHING
    """Of the agent's history and of captures."""


class Asked(NamedTuple):
    keeps_names: bool = False
    """Names of units and cgroups stay."""
    replaces: bool = True
    """A file that is there already."""
    carrying: Carrying | None = None
    """What travels beside the answers; None: nothing."""


AS_USUAL = Asked()


def record(
    host: Host,
    file: str,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    asked: Asked = AS_USUAL,
) -> Recorded:
    """One look and a window, as `doctor` takes them: `scan` and `doctor` ask for nothing else."""
    scrubber = Scrubber(read_known_names(host), keeps_names=asked.keeps_names, symbols=lambda: kernel_symbols(host))
    recorder = RecordingHost(host, scrubber)
    page_bytes_of(recorder)
    seen = examine(recorder, seconds, progress)
    read_restart_times(recorder, seen.case.last.snapshot.taken_at - _RESTARTS_SECONDS)
    evidence = _evidence(host)
    if evidence is not None:
        recorder.learn()
        scrubber.learn(path for zombie in evidence.walk.zombies for path in (zombie.path, zombie.parent) if path)
        recorder.keep_outcome(NAME, keep(evidence, scrubber.path))
        _keep_levers(recorder, seen.case, evidence)
    carried = _carried(host, asked.carrying, scrubber)
    header, answers = Header(__version__, "this host" if host.is_live else "a recording"), recorder.answers
    archive = pack(header, answers, carried.members)
    functions = kernel_symbols(host) if carried.captures else frozenset()
    _refuse_leaks(find_leaks(archive, read_known_names(host), scrubber.kept, functions), file)
    again = examine(ReplayHost("the recording", answers), seconds)
    recalled = recall(ReplayHost("the recording", answers))
    replays = _gist(seen) == _gist(again) and _bodies(evidence) == _bodies(recalled)
    size = publish(file, archive, replace=asked.replaces)
    snapshot = seen.case.observations[0].snapshot
    return Recorded(snapshot, size, len(answers), scrubber.taken_out, seen.diagnosis.verdict, replays, carried)


def _carried(host: Host, wanted: Carrying | None, scrubber: Scrubber) -> Carried:
    """With the substitutes that the answers have: a maker is the same one in both."""
    if wanted is None:
        return NOTHING
    scrubber.learn(makers_in_history(wanted.places.state) if scrubber.keeps_names else ())
    functions = cache(lambda: kernel_symbols(host))
    return carry(wanted, Words(lambda text: text_of(scrubber.path(bytes_of(text))), functions))


def _refuse_leaks(leaks: Sequence[Leak], file: str) -> None:
    """Rather no recording than one that tells a name: whoever sends it cannot read a million lines."""
    if leaks:
        named = ", ".join(f"{shown(leak.name)} ({leak.where})" for leak in leaks[:_MOST_NAMED])
        more = f" and {len(leaks) - _MOST_NAMED:,} more" if len(leaks) > _MOST_NAMED else ""
        why = f"{len(leaks):,} names that this host knows would still be in it: {named}{more}; nothing was written"
        hint = "report it without the names; names of units and cgroups that you mean to keep: --keep-names"
        raise ActionUndoneError(f"cannot record to {file}", why, hint)


def _keep_levers(recorder: RecordingHost, case: Case, evidence: Gathered) -> None:
    """So that `plan --root FILE` knows what could be pulled there."""
    hierarchy = case.last.snapshot.hierarchy
    if isinstance(hierarchy, Hierarchy):
        read_levers(recorder, hierarchy, sorted({zombie.parent for zombie in evidence.walk.zombies}))


def _evidence(host: Host) -> Gathered | None:
    """Of this machine by looking; of a recording by what it kept; of a folder there is none."""
    if isinstance(host, LiveHost):
        try:
            return gather(host)
        except ObservationError:
            return None
    kept = recall(host)
    return kept if isinstance(kept, Gathered) else None


def _bodies(evidence: Gathered | str | None) -> list[object]:
    """What must not change by recording: each zombie, its pages and its pins. Names may: they are scrubbed."""
    if not isinstance(evidence, Gathered):
        return []
    return [
        (zombie.id, zombie.serial, zombie.references, zombie.pages, [pin._replace(**_NAMELESS) for pin in zombie.pins])
        for zombie in evidence.walk.zombies
    ]


_NAMELESS: dict[str, Any] = {"path": None, "path_in_fs": None, "holder": None}


def _gist(examined: Examined) -> tuple[object, ...]:
    """What must not change by recording: counts and findings. Names may: they are scrubbed."""
    findings = [(finding.id, finding.verdict, finding.severity) for finding in examined.diagnosis.findings]
    return (*_counts(examined.case), *findings)


def _counts(case: Case) -> list[object]:
    populations = [observation.scan.population for observation in case.observations]
    return [None if isinstance(population, Gap) else population for population in populations]
