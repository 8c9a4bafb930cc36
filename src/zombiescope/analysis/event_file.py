# SPDX-License-Identifier: Apache-2.0
"""Job failures and successes, from where they are. By line: a time (RFC 3339 or seconds since the epoch) and words; JSON with `at`,
`what` and perhaps `ok`; the journal as `journalctl -o json` or `-o export` writes it; lines of Ray's logs. Or as a whole: an answer
of Ray's dashboard, a list of a cluster's events or pods."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from zombiescope.analysis.pod_owner import owner_by_name, statuses_of
from zombiescope.errors import UsageError
from zombiescope.facts.history import ACTOR_FAILURE, JOB_FAILURE, JOB_SUCCESS, Mark
from zombiescope.facts.names import shown, shown_text
from zombiescope.facts.pods import DAEMON_SET, Owner


def is_of_cluster(said: Any) -> bool:
    """A list of events or pods, as `kubectl get events -o json` writes it."""
    return isinstance(said, dict) and isinstance(said.get("items"), list) and str(said.get("kind", "")).endswith("List")


_CLUSTER_FAILURES = (
    "OOMKilling", "OOMKilled", "SystemOOM", "BackOff", "Failed", "BackoffLimitExceeded", "DeadlineExceeded", "Evicted",
    "FailedPostStartHook", "NodeNotReady", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded",
)  # fmt: skip
_PULLING = ("Back-off pulling ", "Failed to pull ", "Error: ErrImagePull", "Error: ImagePullBackOff")
"""A registry's trouble: nothing ran."""
_CLUSTER_SUCCESSES = ("Completed",)
_OURS = Owner(DAEMON_SET, "zombiescope")
"""As every manifest and the chart call it: when our own agents are restarted, no job has failed."""


_STAMPS = ("firstTimestamp", "lastTimestamp", "eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")
"""As `v1` and `events.k8s.io/v1` call them."""


def cluster_marks(said: Any, node: str = "") -> tuple[Mark, ...]:
    """Failures of jobs and containers among a cluster's events, and containers of its pods that ended out of memory. `node`: only
    what happened there, as far as an event says where."""
    items = [item for item in said["items"] if isinstance(item, dict)]
    return tuple(sorted({mark for item in items for mark in _marks_of(item, node)}))


def _marks_of(item: Mapping[str, Any], node: str) -> list[Mark]:
    return _cluster_event(item, node) if "involvedObject" in item or "reason" in item else _ended_pods(item, node)


def _cluster_event(event: Mapping[str, Any], node: str) -> list[Mark]:
    reason, words = str(event.get("reason", "")), str(event.get("message") or event.get("note") or "")
    about = _inside(event, "involvedObject") or _inside(event, "regarding")
    source = _inside(event, "source") or _inside(event, "deprecatedSource")
    host = str(source.get("host") or event.get("reportingInstance") or "") if about.get("kind") != "Job" else ""
    if (
        (node and host and host != node)
        or words.startswith(_PULLING)
        or _is_ours(about)
        or reason not in (*_CLUSTER_FAILURES, *_CLUSTER_SUCCESSES)
    ):
        return []
    what = JOB_SUCCESS if reason in _CLUSTER_SUCCESSES else JOB_FAILURE
    name = f"{about.get('namespace', '')}/{about.get('name', '')}".strip("/")
    stamps = (*map(event.get, _STAMPS), _inside(event, "series").get("lastObservedTime"))
    times = {at for stamp in stamps if stamp and (at := _moment(str(stamp))) is not None}
    return [Mark(at, what, _line(f"{about.get('kind', '')} {name}: {reason}: {words}")) for at in times]


def _ended_pods(pod: Mapping[str, Any], node: str) -> list[Mark]:
    where = _inside(pod, "spec").get("nodeName")
    about, marks = _inside(pod, "metadata"), []
    if (node and where and where != node) or _is_ours({"kind": "Pod", **about}):
        return []
    for status in statuses_of(pod):
        for state in ("state", "lastState"):
            ended = _inside(_inside(status, state), "terminated")
            at = _moment(str(ended.get("finishedAt") or ""))
            if ended.get("reason") == "OOMKilled" and at is not None:
                name = f"{about.get('namespace', '')}/{about.get('name', '')}/{status.get('name', '')}"
                marks.append(Mark(at, JOB_FAILURE, _line(f"container {name}: OOMKilled")))
    return marks


def _is_ours(about: Mapping[str, Any]) -> bool:
    kind, name = about.get("kind"), str(about.get("name", ""))
    return (kind, name) == _OURS[:2] or (kind == "Pod" and owner_by_name("", name) == _OURS)


def _inside(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def moment_of(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _line(words: str) -> str:
    return shown_text(words.strip().split("\n")[0][:200])


_LAST = 253_402_300_799.0


def parse_events(text: bytes, source: str) -> tuple[Mark, ...]:
    """Failures and successes, by time. Raises UsageError with the line that is none."""
    if text.startswith((b"__CURSOR=", b"__REALTIME_TIMESTAMP=")):
        return tuple(sorted(mark for entry in export_entries(text) if (mark := journal_mark(entry))))
    whole = _whole(text)
    if whole is not None:
        return cluster_marks(whole) if is_of_cluster(whole) else ray_marks(whole)
    marks: list[Mark | None] = []
    is_ray_log = _RAY_STAMP.search(text) is not None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        entry = _object(stripped) if stripped.startswith(b"{") else None
        if is_ray_log and not stripped.startswith(b"{"):
            found = ray_log_mark(stripped)
        elif entry is not None and _REALTIME in entry:
            found = journal_mark(entry)
        else:
            found = _of_object(entry) if entry is not None else _plain(stripped)
            if found is None:
                why = f"line {number} does not begin with a time: {shown(stripped[:60])}"
                raise UsageError(f"cannot use {source}", why, "such as: 2026-01-31T14:02:00Z job 17 failed")
        marks.append(found)
    return tuple(sorted(mark for mark in marks if mark))


def _plain(line: bytes) -> Mark | None:
    if line.startswith(b"{"):
        return None
    stamp, _, rest = line.partition(b" ")
    at = _time(stamp.decode("ascii", "replace"))
    return None if at is None else Mark(at, JOB_FAILURE, shown(rest.strip()))


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object(line: bytes) -> dict[str, Any] | None:
    said = _json(line)
    return said if isinstance(said, dict) else None


def _of_object(said: Mapping[str, Any]) -> Mark | None:
    at, what = _time(str(said.get("at"))), JOB_SUCCESS if said.get("ok") is True else JOB_FAILURE
    return None if at is None else Mark(at, what, shown_text(str(said.get("what", ""))))


def _time(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return _moment(text)
    return seconds if 0 <= seconds <= _LAST else None


def _moment(text: str) -> float | None:
    """None: it is none, or beyond any calendar that is drawn."""
    seconds = moment_of(text)
    return seconds if seconds is not None and 0 <= seconds <= _LAST else None


_REALTIME = "__REALTIME_TIMESTAMP"
_FAILED_IDS = ("d9b373ed55a64feb8242e02dbe79a49c", "be02cf6855d2428ba40df7e9d022f03d")
"""systemd's own: a unit entered the failed state; a start job failed."""
_ENDED_WELL_ID = "7ad2d189f7e94e70a38c781354912448"
"""A unit deactivated successfully."""


def journal_mark(entry: Mapping[str, Any]) -> Mark | None:
    """Failures and good ends of units, in the words of systemd's own messages; and lines of Ray that a unit logged."""
    try:
        at = float(entry[_REALTIME]) / 1e6
    except (KeyError, TypeError, ValueError):
        return None
    if not 0 <= at <= _LAST:
        return None
    number = entry.get("MESSAGE_ID")
    unit = entry.get("UNIT") or entry.get("USER_UNIT") or entry.get("_SYSTEMD_UNIT") or ""
    if entry.get("_PID") in ("1", 1) or "USER_UNIT" in entry or "_PID" not in entry:
        if number in _FAILED_IDS:
            return Mark(at, JOB_FAILURE, shown_text(f"{unit}: {_message(entry)}"))
        if number == _ENDED_WELL_ID:
            return Mark(at, JOB_SUCCESS, shown_text(str(unit)))
    said = _ray_said(_message(entry))
    return Mark(at, said[0], said[1]) if said else None


def _message(entry: Mapping[str, Any]) -> str:
    """The journal writes what is no text as a list of bytes."""
    said = entry.get("MESSAGE", "")
    if isinstance(said, list) and all(isinstance(each, int) and 0 <= each < 256 for each in said):
        return bytes(said).decode(errors="replace")
    return said if isinstance(said, str) else ""


def export_entries(text: bytes) -> Iterator[dict[str, str]]:
    """`journalctl -o export`: a field per line, an empty line between entries; a field that is no text has its length in bytes."""
    entry: dict[str, str] = {}
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        line, at = text[at:end], end + 1
        name, equals, value = line.partition(b"=")
        if not line:
            if entry:
                yield entry
            entry = {}
        elif equals:
            entry[name.decode("ascii", "replace")] = value.decode(errors="replace")
        else:
            size = int.from_bytes(text[at : at + 8], "little")
            entry[name.decode("ascii", "replace")] = text[at + 8 : at + 8 + size].decode(errors="replace")
            at += 8 + size + 1
    if entry:
        yield entry


_FINISHED = {"SUCCEEDED": JOB_SUCCESS, "FAILED": JOB_FAILURE}


def _whole(text: bytes) -> Any:
    """One JSON document over all lines: an answer of Ray's dashboard; None where it is none."""
    said = _json(text) if text.lstrip()[:1] in (b"[", b"{") else None
    is_ray = isinstance(said, list) or (isinstance(said, dict) and isinstance(said.get("data"), dict))
    return said if is_ray or is_of_cluster(said) else None


def ray_marks(said: Any) -> tuple[Mark, ...]:
    """Of /api/jobs/ (a list) or /logical/actors: jobs that ended, actors that died unasked."""
    if isinstance(said, list):
        return tuple(sorted(mark for each in said if (mark := _ray_job(each))))
    actors = _inside(_inside(said, "data"), "actors") if isinstance(said, dict) else {}
    return tuple(sorted(mark for each in actors.values() if (mark := _ray_actor(each))))


def _ray_job(job: Any) -> Mark | None:
    if not isinstance(job, dict) or job.get("status") not in _FINISHED:
        return None
    at = _milliseconds(job.get("end_time"))
    name = job.get("submission_id") or job.get("job_id") or ""
    words = f"Ray job {name}" + (f": {job.get('message') or ''}" if job["status"] == "FAILED" else "")
    return None if at is None else Mark(at, _FINISHED[job["status"]], _line(words))


def _ray_actor(actor: Any) -> Mark | None:
    if not isinstance(actor, dict) or actor.get("state") != "DEAD":
        return None
    cause = str(actor.get("exitDetail") or "")
    at = _milliseconds(actor.get("endTime"))
    if at is None or not _is_failure(cause):
        return None
    name = actor.get("className") or actor.get("actorClass") or actor.get("actorId") or ""
    return Mark(at, ACTOR_FAILURE, _line(f"Ray actor {name} died: {cause}"))


def _is_failure(cause: str) -> bool:
    """By Ray's words: an actor that went out of scope, was killed by its owner or left by itself ended as it should."""
    kind = re.search(r"Worker exit type: (\w+)", cause)
    if kind:
        return not kind[1].startswith("INTENDED")
    gentle = ("out of scope", "all references", "ray.kill", "exit_actor", "owner", "job finished", "intended")
    return bool(cause) and cause != "-" and not any(word in cause.lower() for word in gentle)


def _milliseconds(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value / 1000 if is_number and 0 < value / 1000 <= _LAST else None


_RAY_STAMP = re.compile(rb"(?m)^\[?(20[0-9]{2}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2}),([0-9]{3})[\t ]")
_RAY_WORDS = (
    (re.compile(r"Job '([^']{1,100})' failed"), JOB_FAILURE, "Ray job {0} failed"),
    (re.compile(r"Job '([^']{1,100})' succeeded"), JOB_SUCCESS, "Ray job {0}"),
    (re.compile(r"\b(ActorDiedError|ActorUnavailableError|WorkerCrashedError|NodeDiedError|OutOfMemoryError)\b"), ACTOR_FAILURE,
     "Ray: {0}"),
    (re.compile(r"Worker ([0-9a-f]{8})[0-9a-f]* on node [0-9a-f]+ exits, type=(?!INTENDED)\w+"), ACTOR_FAILURE,
     "Ray worker {0} died"),
)  # fmt: skip


def ray_log_mark(line: bytes) -> Mark | None:
    """Ray writes local time without a zone: taken as UTC, which hosts keep."""
    stamp = _RAY_STAMP.match(line)
    if stamp is None:
        return None
    at = _time(f"{stamp[1].decode()}T{stamp[2].decode()}.{stamp[3].decode()}")
    said = _ray_said(line[stamp.end() :].decode(errors="replace"))
    return Mark(at, said[0], said[1]) if said and at is not None else None


def _ray_said(message: str) -> tuple[str, str] | None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", message)
    for words, what, told in _RAY_WORDS:
        found = words.search(plain)
        if found:
            return what, shown_text(told.format(found[1] or "?"))
    return None
