# SPDX-License-Identifier: Apache-2.0
"""`profile serve`."""

import os
import selectors
from collections.abc import Callable, Mapping

import click

from zombiescope import __version__
from zombiescope.cli.command import Answer, examples
from zombiescope.cli.profiles.options import capture_argument, captures_option
from zombiescope.cli.serving import serve_page
from zombiescope.config import listen_address
from zombiescope.errors import UsageError
from zombiescope.pipeline.profile_events import marks_of
from zombiescope.presenters.document import Json
from zombiescope.profiler.asking import Opened, ProfileApi, open_capture
from zombiescope.web.captures import MEMORY, colours, span_of
from zombiescope.web.server import Apart
from zombiescope.web.site import NOTHING, Kept, Shelf, Site

_CAPTURES = "captures/"


class OneCapture:
    """The page about one capture, opened once: a child that answers finds it in memory."""

    def __init__(self, opened: Opened, marks: Json, selector: selectors.BaseSelector) -> None:
        self._opened = opened
        self._api = ProfileApi(opened, marks)
        self.shelf = Shelf(selector, lambda: b"", NOTHING)

    def pulse(self) -> Json:
        about, began = self._opened.capture.about, self._opened.capture.began
        return {
            "schema": "zombiescope.page/1",
            "mode": "profile",
            "version": __version__,
            "label": self._opened.name,
            "host": {"name": about.host, "kernel": about.kernel, "hierarchy": None, "cpus": None},
            "at": began,
            "now": began,
            "is_live": False,
            "poll_seconds": None,
            "views": ["profiles"],
            "severity": None,
            "history": None,
            "documents": {},
            "gaps": [],
        }

    def now(self) -> Kept | Apart | None:
        return None

    def asked(self, path: str) -> Callable[[Mapping[str, str]], Json] | None:
        if path == "captures":
            return lambda _: self._listed()
        if path == "colours":
            return lambda _: colours()
        question = f"/api/{path.removeprefix(_CAPTURES)}"
        if not path.startswith(_CAPTURES) or question not in ProfileApi.QUESTIONS:
            return None
        return lambda query: self._api.answer(question, query) or {}

    def memory(self, _path: str) -> int:
        return MEMORY

    def _listed(self) -> Json:
        capture = self._opened.capture
        row = {
            "name": self._opened.name,
            "from": capture.began,
            "to": None if capture.began is None else capture.began + capture.seconds,
            "seconds": round(capture.seconds, 3),
            "samples": len(capture),
            "bytes": os.path.getsize(self._opened.path) if self._opened.path else None,
            "source": capture.about.source,
            "host": capture.about.host,
            "is_damaged": False,
        }
        return {"schema": "zombiescope.page-captures/1", "captures": [row], "gaps": []}


@click.command(epilog=examples("zombiescope profile serve", "zombiescope profile serve perf.data --port 0"))
@capture_argument
@click.option("--port", type=click.IntRange(0, 65_535), default=8098, show_default=True, help="0 takes any free one.")
@click.option(
    "--state", type=click.Path(path_type=bytes), metavar="DIR", help="Mark what the agent of this state folder saw."
)
@click.option(
    "--kernel-log",
    type=click.Path(path_type=bytes),
    metavar="FILE",
    help="Mark resets of network cards; as dmesg prints it.",
)
@click.option("--listen", metavar="unix:PATH", help="A socket that only its owner can open, instead of a port.")
@click.option("--token-file", metavar="FILE", help="Readers must send what it holds: Authorization: Bearer TOKEN.")
@captures_option
def serve(
    *,
    capture: str,
    port: int,
    state: bytes | None,
    kernel_log: bytes | None,
    listen: str | None,
    token_file: str | None,
    captures: bytes,
) -> Answer | None:
    """A page on this machine with the heat map and the flame graph of a capture. Loopback only, read-only. Ends on Ctrl-C.

    Every user of this machine can reach a port on loopback. Where they must not read the capture, use --listen unix:PATH or
    --token-file FILE.
    """
    if listen and not isinstance(listen_address(listen), str):
        raise UsageError(f"cannot listen on {listen}", "it is no path of a socket", "--listen unix:PATH, or --port N")
    opened = open_capture(captures, capture)
    marks = marks_of(span_of(opened.capture), state, kernel_log)
    told = {name: [one._asdict() for one in each] for name, each in marks._asdict().items()}
    serve_page(
        listen or f"127.0.0.1:{port}",
        token_file,
        lambda selector: Site(OneCapture(opened, told, selector)),
        "to see it in the terminal: zombiescope profile heatmap",
    )
    return None
