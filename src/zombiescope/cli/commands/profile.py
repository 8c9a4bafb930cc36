# SPDX-License-Identifier: Apache-2.0
"""`zombiescope profile`: rolling captures, a heat map per core, flame graphs, what changed."""

from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

import click

from zombiescope.cli.command import Late, examples
from zombiescope.errors import absent_part
from zombiescope.host.numbers import defer_numpy, load_numpy

_COMMANDS = {
    "record": ("recording", "record", "Sample every core in rolling segments, kept in a ring. Needs root."),
    "import": (
        "bring_in",
        "bring_in",
        "Read perf.data, perf script text, collapsed stacks, pprof or speedscope, and store it.",
    ),
    "list": ("bring_in", "list_captures", "The stored captures."),
    "heatmap": ("asking", "heatmap", "Samples by time and core: terminal, SVG or PNG."),
    "flame": ("asking", "flame", "The stacks of any range: a tree in the terminal, or SVG."),
    "diff": ("asking", "diff", "What takes more or less time than before."),
    "find": (
        "asking",
        "find",
        "The moments when a core left its baseline; the capture of a function, cause or time.",
    ),
    "ring": ("ring", "ring", "What the recorder's captures cover, the holes and why, and what more would need."),
    "keep": ("ring", "keep", "Keep the captures around a moment."),
    "serve": ("serving", "serve", "A page with heat map and flame graph, on this machine only."),
    "export": ("asking", "export", "Write a range as collapsed, pprof, speedscope, Firefox Profiler or OTLP."),
    "push": ("pushing", "push", "Send captures to a server of profiles that you name: OTLP or Pyroscope."),
    "ship": ("fleet", "ship", "Write captures into an archive of many nodes: Parquet, in a folder or a bucket."),
    "fleet": ("fleet", "fleet", "Ask such an archive: what is hot on these nodes and not on those, and when."),
}
_WITHOUT_NUMPY = ("record", "ring", "keep")
_WITH_AN_ARCHIVE = ("ship", "fleet")
"""They need what that extra holds beside numpy."""
_VERBS = {
    "import": "import profiles",
    "list": "list profiles",
    "heatmap": "draw a heat map",
    "flame": "draw a flame graph",
    "diff": "compare profiles",
    "find": "search a profile",
    "serve": "serve profiles",
    "export": "export profiles",
    "push": "send profiles",
    "ship": "ship profiles",
    "fleet": "ask an archive of profiles",
}
_INSTEAD = (
    "zombiescope profile record here, then profile import on a machine with Python 3.11 or newer and "
    "pip install 'zombiescope[profile]'"
)


class _Commands(Late):
    about: ClassVar[dict[str, str]] = {name: about for name, (_, _, about) in _COMMANDS.items()}

    def load(self, name: str) -> click.Command:
        if name not in _WITHOUT_NUMPY and find_spec("numpy") is None:
            extra = "archive" if name in _WITH_AN_ARCHIVE else "profile"
            raise absent_part(f"cannot {_VERBS[name]}", "numpy", extra, _INSTEAD)
        if name == "import":
            defer_numpy()
        elif name not in _WITHOUT_NUMPY:
            load_numpy()
        module, function, _ = _COMMANDS[name]
        command = getattr(import_module(f"zombiescope.cli.profiles.{module}"), function)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_Commands,
    epilog=examples(
        "zombiescope profile record --seconds 60 --segment 30",
        "zombiescope profile import perf.data",
        "zombiescope profile heatmap perf.data",
        "zombiescope profile find",
        "zombiescope profile find --cause reclaim --since 12h",
        "zombiescope profile ring",
        "zombiescope profile flame --from 12 --to 14 --core 1 --svg flame.svg",
        "zombiescope profile diff latest@0..10 latest@12..14",
        "zombiescope profile export --form speedscope --output out.json",
        "zombiescope profile push --to http://127.0.0.1:4318 --as otlp",
        "zombiescope profile ship --all --to s3://bucket/profiles",
        "zombiescope profile fleet diff --archive s3://bucket/profiles --where zone=c",
    ),
)
def profile() -> None:
    """Look at processor time the way the incident was found: by moment and by core, down to the kernel stack.

    A CAPTURE is a file (perf.data and others can be asked directly), the name of a stored one, or `latest`.
    All but `record`, `ring` and `keep` need numpy.
    """
