# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.history/1`, and the same as CSV."""

from collections.abc import Iterator, Sequence

from zombiescope.analysis.growth import Growth
from zombiescope.analysis.ledger import Account
from zombiescope.analysis.recall import Recall, RecalledSeries
from zombiescope.facts.agent import Moment
from zombiescope.facts.cgroups import Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Happening, KeptCapture, Sample
from zombiescope.facts.lifecycle import Histogram
from zombiescope.presenters.document import Json, csv_cell, document, missing, rfc3339

_REFUSED = "events."
_FACTS = {"births": "total.births", "releases": "total.releases"}
_SHARES = {"median": 0.5, "p99": 0.99}


def _quantiles(times: Histogram) -> Json:
    """Upper ends of powers of two: a cgroup lived, or was dead and not released, for less than this."""
    return {name: times.quantile_seconds(share) for name, share in _SHARES.items()}


def _of_events(moment: Moment) -> Iterator[Gap]:
    """Why no better tier was available, and what this one cannot tell."""
    if moment.total is None:
        for fact in ("tier", "total", "lost"):
            yield Gap(fact, "no way to see events is available")
        return
    better = [gap for gap in moment.event_gaps if gap.fact.startswith(_REFUSED)]
    if better:
        yield Gap(
            "tier", "; ".join(f"{gap.fact.removeprefix(_REFUSED)}: {gap.reason}" for gap in better), better[0].hint
        )
    for gap in moment.event_gaps:
        if gap not in better:
            yield gap.about(_FACTS.get(gap.fact, gap.fact))


def _of_makers(moment: Moment, *, is_backlog_known: bool) -> Iterator[Gap]:
    if not moment.has_releases:
        yield Gap("makers[].releases", "releases are not seen")
    if not is_backlog_known:
        yield Gap("makers[].zombies", "no walk has counted the zombies from before the agent began")
    elif moment.makers is None:
        yield Gap("makers[].zombies", "without releases they are known at the moment of a walk alone")


def render_ledger(moment: Moment, accounts: Sequence[Account], is_backlog_known: bool) -> Json:
    total = moment.total
    has_zombies = moment.makers is not None
    gaps = [*_of_events(moment), *_of_makers(moment, is_backlog_known=is_backlog_known)]
    if not any(moment.lifetimes.buckets):
        gaps += [Gap(f"seconds.lifetime.{name}", "no cgroup was seen to be born and to die") for name in _SHARES]
    if not any(moment.zombie_times.buckets):
        gaps += [Gap(f"seconds.as_zombie.{name}", "no cgroup was seen to die and to be released") for name in _SHARES]
    body: Json = {
        "tier": moment.tier,
        "lost": moment.lost,
        "total": None
        if total is None
        else {
            "births": total.births,
            "deaths": total.deaths,
            "releases": total.releases if moment.has_releases else None,
        },
        "seconds": {"lifetime": _quantiles(moment.lifetimes), "as_zombie": _quantiles(moment.zombie_times)},
        "makers": [
            {
                "maker": account.maker,
                "zombies": account.zombies if has_zombies else None,
                "births": account.counts.births,
                "deaths": account.counts.deaths,
                "releases": account.counts.releases if moment.has_releases else None,
            }
            for account in accounts
        ],
    }
    return document("ledger/1", moment.snapshot, body, gaps)


FIELDS = ("per_hour", "since", "threshold", "reached_at")
_SHORT = Gap("growth", "too little was watched to tell growth from noise", "look again in some minutes")
_STILL = Gap("growth", "nothing grows towards a threshold")


def render_growth(growth: Growth | Gap) -> Json:
    if isinstance(growth, Gap) or growth.total is None:
        return dict.fromkeys(FIELDS)
    trend = growth.total
    first = growth.forecasts[0] if growth.forecasts else None
    return {
        "per_hour": round(trend.slope.per_second * 3600, 2),
        "since": rfc3339(trend.since),
        "threshold": round(first.mark) if first else None,
        "reached_at": rfc3339(growth.at + first.soonest_seconds) if first else None,
    }


def growth_gaps(growth: Growth | Gap) -> list[Gap]:
    """One for each field that is null."""
    if isinstance(growth, Gap) or growth.total is None:
        return missing(growth if isinstance(growth, Gap) else _SHORT, *(f"growth.{name}" for name in FIELDS))
    return [] if growth.forecasts else missing(_STILL, *(f"growth.{name}" for name in FIELDS[2:]))


_NO_GROWTH = Gap("growth", "the history is too short to tell growth from noise", "look again in some minutes")


def render_history(
    snapshot: Snapshot,
    recall: Recall | None,
    happenings: Sequence[Happening],
    moment: Sample | None,
    gaps: Sequence[Gap],
    captures: Sequence[KeptCapture] = (),
) -> Json:
    growth: Growth | Gap = recall.growth if recall and recall.growth else _NO_GROWTH
    body: Json = {
        "samples": recall.samples if recall else 0,
        "since": rfc3339(recall.since) if recall else None,
        "until": rfc3339(recall.until) if recall else None,
        "boots": recall.boots if recall else 0,
        "series": [_series(each) for each in recall.series] if recall else [],
        "captures": [
            {"name": one.name, "from": rfc3339(one.begin), "to": rfc3339(one.end), "kept_for": one.why or None}
            for one in captures
        ],
        "moment": None
        if moment is None
        else {"at": rfc3339(moment.at), "boot_id": moment.boot, "values": dict(moment.values)},
        "growth": {
            **render_growth(growth),
            "makers": _makers(growth),
            "forecasts": _forecasts(growth),
            "onset": _onset(growth),
        },
        "pauses": [
            {"since": rfc3339(pause.since), "until": rfc3339(pause.until), "reboot": pause.is_reboot}
            for pause in (recall.pauses if recall else ())
        ],
        "events": [{"at": rfc3339(each.at), "what": each.what, "detail": each.detail} for each in happenings],
    }
    return document("history/1", snapshot, body, [*gaps, *_gaps(recall, moment, growth)])


def _gaps(recall: Recall | None, moment: Sample | None, growth: Growth | Gap) -> list[Gap]:
    found = growth_gaps(growth)
    if recall is None:
        found += [Gap(name, "no sample lies in that time") for name in ("since", "until")]
    if moment is None:
        found.append(Gap("moment", "no moment was asked for, or none is remembered before it", "--at 2026-01-31T14:00"))
    if isinstance(growth, Gap) or growth.onset is None:
        found.append(Gap("growth.onset", "no remembered boot reached the threshold"))
    return found


def _series(series: RecalledSeries) -> Json:
    found = series.figures
    return {
        "name": series.name,
        "samples": found.samples,
        "first": found.first,
        "last": found.last,
        "min": found.least,
        "max": found.most,
    }


def _makers(growth: Growth | Gap) -> list[Json]:
    if isinstance(growth, Gap):
        return []
    return [
        {
            "maker": trend.maker,
            "per_hour": round(trend.slope.per_second * 3600, 2),
            "per_hour_low": round(trend.slope.low * 3600, 2),
            "per_hour_high": round(trend.slope.high * 3600, 2),
            "grown": trend.grown,
            "since": rfc3339(trend.since),
        }
        for trend in growth.makers
    ]


def _forecasts(growth: Growth | Gap) -> list[Json]:
    if isinstance(growth, Gap):
        return []
    return [
        {
            "what": each.what,
            "zombies": round(each.mark),
            "soonest_seconds": round(each.soonest_seconds),
            "latest_seconds": each.latest_seconds and round(each.latest_seconds),
        }
        for each in (*growth.forecasts, *((growth.ids,) if growth.ids else ()))
    ]


def _onset(growth: Growth | Gap) -> Json | None:
    if isinstance(growth, Gap) or growth.onset is None:
        return None
    return {"threshold": growth.onset.mark, "seconds_after_boot": [round(seconds) for seconds in growth.onset.seconds]}


def render_history_csv(samples: Sequence[Sample]) -> str:
    """One line a sample and one column a series; an empty cell is a number that was not available."""
    names = list(dict.fromkeys(name for sample in samples for name in sample.values))
    lines = [",".join(["at", "boot_id", *map(_quoted, names)])]
    for sample in samples:
        cells = [f"{sample.values[name]:.12g}" if name in sample.values else "" for name in names]
        lines.append(",".join([rfc3339(sample.at), _quoted(sample.boot), *cells]))
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return csv_cell("'" + text if text[:1] in "=+-@" else text)
