# SPDX-License-Identifier: Apache-2.0
"""Captures sent to a server of profiles, in slices: their order in time stays visible there, and no request becomes too large.

A slice that is refused as too large goes again in halves. Whatever is not accepted ends it with the reason. Nothing is removed.
"""

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from zombiescope.errors import ObservationError
from zombiescope.facts.names import quiet
from zombiescope.host.web_server import NoReplyError, Reply, WebServer, patiently
from zombiescope.profiler.asking import Opened, refused
from zombiescope.profiler.formats.sending import (
    OTLP_PATH,
    PYROSCOPE_PATH,
    Sender,
    refused_part,
    write_otlp,
    write_pyroscope,
)
from zombiescope.profiler.stacks.capture import Capture, Selection, row_numbers

TRIES = 4
_MOST_ANSWER_BYTES, _MOST_WHY = 1 << 20, 200
_SHORTEST_SECONDS = 0.5
_TOO_LARGE = 413
_NO_CLOCK = "it does not say when it was taken"
_CLOCK_HINT = "record with zombiescope profile record, or perf record -k CLOCK_MONOTONIC"


class Form(NamedTuple):
    path: str
    write: Callable[[Capture, Selection, Sender], Iterator[bytes]]
    headers: Mapping[str, str]
    missing: str
    """What may be the matter where nobody knows that path."""


FORMS = {
    "otlp": Form(
        OTLP_PATH,
        write_otlp,
        {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"},
        "a collector takes profiles at its OTLP/HTTP port (4318), started with --feature-gates=service.profilesSupport",
    ),
    "pyroscope": Form(
        PYROSCOPE_PATH,
        write_pyroscope,
        {"Content-Type": "application/proto"},
        "Pyroscope listens on port 4040 by itself; behind a proxy, give the path as well",
    ),
}


class Sent(NamedTuple):
    """Of one capture."""

    name: str
    profiles: int
    samples: int
    size_bytes: int


class Push(NamedTuple):
    server: WebServer
    form: str
    sender: Sender
    slice_seconds: float
    ask: Callable[[Callable[[], Reply], int], Reply] = patiently

    def send(self, opened: Opened, selection: Selection) -> Sent:
        """Raises ObservationError as soon as something is not accepted."""
        if opened.capture.about.clock is None or not opened.capture.about.has_time:
            raise ObservationError(f"cannot send the capture {opened.name}", _NO_CLOCK, _CLOCK_HINT)
        profiles = samples = size = 0
        with refused(opened):
            waiting = slices(opened.capture, selection, self.slice_seconds)[::-1]
        while waiting:
            each = waiting.pop()
            with refused(opened):
                rows = len(row_numbers(opened.capture, each))
                body = _packed(FORMS[self.form].write(opened.capture, each, self.sender)) if rows else b""
            if not rows:
                continue
            reply = self._post(opened.name, body)
            halves = _halves(opened.capture, each) if reply.status == _TOO_LARGE else []
            if not halves:
                self._check(opened.name, reply)
                profiles, samples, size = profiles + 1, samples + rows, size + len(body)
            waiting += halves[::-1]
        return Sent(opened.name, profiles, samples, size)

    def _post(self, name: str, body: bytes) -> Reply:
        form = FORMS[self.form]
        headers = {**form.headers, "Content-Encoding": "gzip"}
        path = "" if self.server.path.endswith(form.path) else form.path
        try:
            return self.ask(lambda: self.server.post(path, body, headers, _MOST_ANSWER_BYTES), TRIES)
        except NoReplyError as error:
            if not error.may_pass:
                hint = "is the address right? --ca-file FILE names the certificates to trust"
                raise self._error(name, str(error), hint) from error
            why = f"{error} (tried {TRIES} times)"
            raise self._error(name, why, "is the address right, and is the server up?") from error

    def _check(self, name: str, reply: Reply) -> None:
        if reply.leads_to:
            hint = "give the address it leads to with --to, if you trust it"
            raise self._error(name, f"it sends us on to {reply.leads_to}, and a redirect is not followed", hint)
        if not reply.is_accepted:
            told = _told(reply)
            raise self._error(name, f"it answers {reply.status}{f': {told}' if told else ''}", self._hint(reply.status))
        if reply.body.lstrip()[:1] == b"<" or reply.kind.startswith("text/html"):
            raise self._error(name, "it answers with a web page", f"is the address right? {FORMS[self.form].missing}")
        rejected, why = refused_part(reply.body) if self.form == "otlp" else (0, "")
        if rejected:
            reason = f"it left out {rejected:,} of the profiles{f': {quiet(why[:_MOST_WHY])}' if why else ''}"
            raise self._error(name, reason, "the server's log says more")

    def _hint(self, status: int) -> str:
        hints = {
            401: "give a token: --token-file FILE",
            403: "this token or tenant may not write there: --token-file FILE, --tenant NAME",
            404: f"is the address right? {FORMS[self.form].missing}",
            405: f"is the address right? {FORMS[self.form].missing}",
            _TOO_LARGE: "choose less: --kernel, or a range (CAPTURE@10..14)",
            415: "it takes another form: --as otlp, or --as pyroscope",
            429: "it is busy: try again later; nothing is lost meanwhile",
        }
        return hints.get(status, "the server's log says more; the capture stays, and the same command sends it again")

    def _error(self, name: str, why: str, hint: str) -> ObservationError:
        return ObservationError(f"cannot send the capture {name} to {self.server.name}", why, hint)


def slices(capture: Capture, selection: Selection, seconds: float) -> list[Selection]:
    """The range in equal lengths, those in which there is a sample."""
    step = max(1, round(seconds * 1e9))
    after = round((selection.begin or 0.0) * 1e9)
    since = (capture.time[row_numbers(capture, selection)] - capture.time[0]).astype(np.int64) - after
    begins = [after + number * step for number in np.unique(since // step).tolist()]
    last = math.inf if selection.end is None else selection.end
    return [selection._replace(begin=begin / 1e9, end=min((begin + step) / 1e9, last)) for begin in begins]


def _packed(pieces: Iterable[bytes]) -> bytes:
    """The same bytes each time: there is no moment in it."""
    packer = zlib.compressobj(6, wbits=31)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def _halves(capture: Capture, selection: Selection) -> list[Selection]:
    """None where it is short already."""
    begin = selection.begin or 0.0
    end = capture.seconds if selection.end is None else min(selection.end, capture.seconds)
    if end - begin <= _SHORTEST_SECONDS:
        return []
    middle = (begin + end) / 2
    return [selection._replace(end=middle), selection._replace(begin=middle)]


def _told(reply: Reply) -> str:
    """What a server says of its refusal, where it is words."""
    try:
        told = json.loads(reply.body)
        words = told.get("message") or told.get("error") if isinstance(told, dict) else ""
    except (ValueError, RecursionError):
        words = reply.body.decode("utf-8", "replace").strip().partition("\n")[0] if "text/plain" in reply.kind else ""
    return quiet(str(words or "")[:_MOST_WHY])
