# SPDX-License-Identifier: Apache-2.0
"""Each stored capture summed up at once, beside it: and what changed against what is usual in its ring."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from zombiescope.facts.names import quiet
from zombiescope.profiler.files.beside import read_beside
from zombiescope.profiler.files.ring import Held
from zombiescope.profiler.formats.summary_document import Json, figure, read_document, write_summary
from zombiescope.profiler.stacks.capture import Capture
from zombiescope.profiler.stacks.flame_graph import shape_of
from zombiescope.profiler.stacks.summary import CauseOf, Peaks, Summary, Usuals, changed, sum_up

_MOST_KNOWN = 60
_OWN_PART = 0.1


@dataclass(slots=True)
class Summing:
    cause_of: CauseOf = lambda _: None
    _known: deque[Peaks] = field(default_factory=lambda: deque(maxlen=_MOST_KNOWN))

    def know(self, captures: Iterable[Held]) -> None:
        """What was usual before this recorder began."""
        for one in list(captures)[-_MOST_KNOWN:]:
            document = read_document(read_beside(one.path) or b"")
            if document is not None:
                self._known.append(peaks_in(document))

    def summary_of(self, capture: Capture) -> bytes:
        summary = sum_up(capture, shape_of(capture.tree), self.cause_of)
        # Of functions only those that do something themselves: what merely calls them changes with them.
        own = tuple(one for one in summary.taken.get("function", ()) if one.own >= _OWN_PART * one.cores)
        peaks = peaks_of(summary._replace(taken={**summary.taken, "function": own}))
        news = changed(peaks, summary.rate_hz, Usuals(self._known))
        self._known.append(peaks_of(summary))
        return write_summary(summary, (), [one._asdict() for one in news])


def peaks_of(summary: Summary) -> Peaks:
    found: dict[str, dict[str, float]] = {}
    for kind, each in summary.taken.items():
        of_kind = found.setdefault(kind, {})
        for one in each:
            of_kind[one.name] = max(one.peak, of_kind.get(one.name, 0.0))
    return found


def peaks_in(document: Json) -> Peaks:
    """Of a summary that was stored; rows that make no sense are left out."""
    found: dict[str, dict[str, float]] = {}
    taken = document.get("taken")
    for kind, rows in taken.items() if isinstance(taken, dict) else ():
        of_kind = found.setdefault(str(kind), {})
        for row in rows if isinstance(rows, list) else ():
            peak = figure(row[2]) if isinstance(row, list) and len(row) >= 4 else None
            if peak is not None:
                name = quiet(str(row[0]))
                of_kind[name] = max(peak, of_kind.get(name, 0.0))
    return found
