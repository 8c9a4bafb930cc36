# SPDX-License-Identifier: Apache-2.0
"""`profile push`: the one profile command that sends something anywhere, and only where it is told to."""

import hashlib
import re
from typing import Any

import click

from zombiescope import __version__
from zombiescope.cli.command import Answer, JsonAnswer, TextAnswer, examples, json_option
from zombiescope.cli.profiles.options import captures_option, filter_options, named_range, next_line, selection_of
from zombiescope.cli.progress import tell
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.names import counted, shown
from zombiescope.host.web_server import Access, WebServer
from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.drawing.documents import render_push
from zombiescope.profiler.files.beside import note_pushed, pushed_to
from zombiescope.profiler.files.ring import held
from zombiescope.profiler.files.store import LATEST
from zombiescope.profiler.formats.sending import Sender
from zombiescope.profiler.pushing import FORMS, Push, Sent
from zombiescope.profiler.stacks.capture import Selection
from zombiescope.web.guards import THEIRS, read_token

_LABEL = re.compile(r"([A-Za-z_][A-Za-z0-9_.]{0,127})=(.{1,1024})")
_RESERVED = "__"


@click.command(
    epilog=examples(
        "zombiescope profile push --to http://127.0.0.1:4318 --as otlp",
        "zombiescope profile push --to https://pyroscope.example:4040 --as pyroscope --label zone=c --token-file token",
        "zombiescope profile push --ring --to http://127.0.0.1:4040 --as pyroscope    what it does not have yet",
    )
)
@click.argument("capture", required=False)
@click.option("--ring", "whole_ring", is_flag=True, help="Every recorded capture that was not sent there yet.")
@click.option("--again", is_flag=True, help="With --ring: also those that were sent already.")
@click.option("--to", "address", required=True, metavar="URL", help="The server: http://HOST:PORT or https://...")
@click.option("--as", "form", type=click.Choice(list(FORMS)), required=True, help="What it takes.")
@click.option("--service", default="zombiescope", show_default=True, metavar="NAME", help="The service's name there.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Goes along with each; repeatable.")
@click.option("--token-file", metavar="FILE", help="A bearer token for the server.")
@click.option("--tenant", metavar="NAME", help="X-Scope-OrgID, where the server has several.")
@click.option("--ca-file", metavar="FILE", help="Certificates to trust, for https.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=10.0, show_default=True, help="Seconds per try.")
@click.option(
    "--slice",
    "slice_seconds",
    type=click.FloatRange(0.1, 86_400),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="A profile there covers so much.",
)
@filter_options
@captures_option
@json_option
def push(
    *,
    capture: str | None,
    whole_ring: bool,
    again: bool,
    address: str,
    form: str,
    captures: bytes,
    as_json: bool,
    **given: Any,
) -> Answer:
    """Send a capture to a server of profiles: as OpenTelemetry's profiles (OTLP over HTTP), or as Pyroscope's clients do.

    Nothing is sent unless you type this. What goes: names of functions, files and threads, counts, times, with OTLP also cores;
    the host's name, --service and --label. Neither process ids nor cgroups nor memory. Only the server that you name is asked:
    no proxy, no redirect. One that does not answer is tried four times, later and later. CAPTURE may be a range: `latest@10..14.5`.

    Exit code 0 when all of it was accepted; 3 when not: the captures stay, and the same command sends them again.
    """
    if whole_ring and capture is not None:
        raise UsageError("cannot send the whole ring and one capture", "--ring takes every capture", "leave one out")
    if again and not whole_ring:
        raise UsageError("cannot use --again", "a capture that you name is always sent", "leave it out, or add --ring")
    name, begin, end = named_range(capture or LATEST)
    selection = selection_of(given, begin, end)
    to_send = _push(address, form, given)
    if not whole_ring:
        opened = open_capture(captures, name)
        sent = [to_send.send(opened, selection)]
        if not sent[0].profiles:
            raise ObservationError(
                f"there is nothing to send of the capture {opened.name}",
                "no sample is in that range with those filters",
                "choose a wider range",
            )
        return _answer(to_send, sent, 0, captures, name, as_json=as_json)
    return _send_ring(to_send, captures, selection, again=again, as_json=as_json)


def _push(address: str, form: str, given: dict[str, Any]) -> Push:
    token = read_token(given["token_file"], THEIRS) if given["token_file"] else None
    access = Access(token, given["tenant"], given["ca_file"])
    server = WebServer(address, access, given["timeout"], example="--to http://127.0.0.1:4318")
    if token is not None and not server.is_private:
        why = "everybody on the way could read it: the address is not https"
        raise UsageError(f"cannot send a token to {server.name}", why, "--to https://...")
    sender = Sender(given["service"], __version__, tuple(_label(text) for text in given["labels"]))
    return Push(server, form, sender, given["slice_seconds"])


def _label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if found is None or found[1].startswith(_RESERVED) or not found[2].isprintable():
        why = "it is not NAME=VALUE: letters, digits, _ and . in the name, printable signs in the value"
        raise UsageError(f"cannot use the label {shown(text.encode('utf-8', 'replace'))!r}", why, "--label zone=c")
    return found[1], found[2]


def _send_ring(to_send: Push, captures: bytes, selection: Selection, *, again: bool, as_json: bool) -> Answer:
    every = held(captures)
    key = _key(to_send, selection)
    known = set() if again else pushed_to(captures, key, {one.name for one in every})
    wanted = [one for one in every if (one.name, one.written_at) not in known]
    sent: list[Sent] = []
    for one in wanted:
        try:
            sent.append(to_send.send(open_capture(captures, shown(one.path)), selection))
        except ObservationError as error:
            if not sent:
                raise
            hint = f"{error.hint}; {len(sent):,} of {len(wanted):,} captures were accepted, the same command sends the rest"
            raise ObservationError(error.what, error.why, hint) from error
        if not note_pushed(captures, key, one.name, one.written_at):
            tell(f"not remembered: nothing can be written in {shown(captures)}; {one.name} will be sent again")
        tell(f"sent {one.name}: {counted(sent[-1].profiles, 'profile')}, {counted(sent[-1].samples, 'sample')}")
    last = wanted[-1].name if wanted else ""
    return _answer(to_send, sent, len(every) - len(wanted), captures, last, as_json=as_json)


def _key(to_send: Push, selection: Selection) -> str:
    """Where, and what of each."""
    chosen = repr((to_send.sender.service, to_send.sender.labels, to_send.slice_seconds, selection))
    return f"{to_send.form} {to_send.server.name} {hashlib.sha256(chosen.encode()).hexdigest()[:16]}"


def _answer(to_send: Push, sent: list[Sent], known: int, captures: bytes, last: str, *, as_json: bool) -> Answer:
    """`known`: captures that were sent before; `last`: the name of the newest that was sent."""
    where = to_send.server.name
    if as_json:
        return JsonAnswer(render_push(sent, where, to_send.form, known))
    if not sent:
        none = f"nothing was sent to {where}: nothing is recorded in {shown(captures)}"
        line = f"all {counted(known, 'capture')} were sent to {where} already" if known else none
        return TextAnswer([line, next_line("to see what the ring covers", "ring", captures)])
    profiles, samples = sum(one.profiles for one in sent), sum(one.samples for one in sent)
    size = sum(one.size_bytes for one in sent)
    line = (
        f"{where} accepted {counted(len(sent), 'capture')}: {counted(profiles, 'profile')}, "
        f"{counted(samples, 'sample')}, {size:,} bytes"
    )
    return TextAnswer([line, next_line("to see the same calls here", "flame", captures, last)])
