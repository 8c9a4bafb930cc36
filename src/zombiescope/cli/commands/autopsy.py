# SPDX-License-Identifier: Apache-2.0
"""`zombiescope autopsy`: every zombie, who made it, what pins it, what would free it."""

from __future__ import annotations

import gc
import os

import click

from zombiescope import presenters
from zombiescope.cli.command import (
    Answer,
    JsonAnswer,
    PlainAnswer,
    TextAnswer,
    age_of,
    examples,
    json_option,
    root_option,
)
from zombiescope.cli.progress import stage_shown
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.pipeline.autopsy import Choice, dissect
from zombiescope.pipeline.opening import open_host
from zombiescope.presenters.autopsy_json import render_autopsy, render_autopsy_csv

_NO_AGE = "it is not a number with s, m, h or d", "such as --older-than 2h"


@click.command(
    epilog=examples(
        "zombiescope autopsy                          totals, makers, what holds them, five examples",
        "zombiescope autopsy --by file                which file pins how many",
        "zombiescope autopsy --maker 'unit:ecs*'      only what one maker left",
        "zombiescope autopsy --older-than 2h --limit 0 --csv > zombies.csv",
        "zombiescope autopsy --json | jq .totals.by_pin",
    )
)
@click.option(
    "--by",
    "group",
    type=click.Choice(["maker", "pin", "file", "parent"]),
    help="One table, grouped by this, instead of the totals.",
)
@click.option("--maker", metavar="GLOB", help="Only zombies of makers that match, such as 'unit:ecs*'.")
@click.option("--older-than", metavar="AGE", help="Only zombies born at least this long ago: 90s, 15m, 2h, 3d.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="How many zombies to list; 0 lists all. Without it: one of each sort, and 20 in JSON and CSV.",
)
@click.option("--csv", "as_csv", is_flag=True, help="One line per zombie, for a spreadsheet.")
@json_option
@root_option
def autopsy(
    *,
    group: str | None,
    maker: str | None,
    older_than: str | None,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
    root: bytes | None,
) -> Answer:
    """Every zombie memory cgroup: former path, maker, age, what pins it, the file that does, and what would free it.

    Reads only. Needs root, or CAP_BPF and CAP_PERFMON; where the kernel refuses, a simpler view answers and says why. Totals
    always cover all. Exit code 0, or 3 when nothing could be seen.
    """
    if as_csv and as_json:
        raise UsageError("cannot write two forms at once", "--csv and --json were both given", "choose one")
    choice = Choice(maker, None if older_than is None else age_of(older_than, *_NO_AGE, may_be_bare=True))
    gc.disable()  # tens of thousands of records, not one cycle, and a process that ends soon
    with stage_shown() as progress:
        found = dissect(open_host(root), choice, progress)
    most = 20 if limit is None else limit
    if as_csv:
        return PlainAnswer(render_autopsy_csv(found.autopsy.bodies[:most] if most else found.autopsy.bodies))
    if as_json:
        return JsonAnswer(render_autopsy(found.snapshot, found.walk, found.autopsy, found.gaps, most, found.beside))

    asked = presenters.autopsy_text.AutopsyShown(limit, group, os.geteuid() == 0, None if root is None else shown(root))
    return TextAnswer(
        presenters.autopsy_text.render_autopsy_text(
            found.snapshot, found.walk, found.autopsy, found.gaps, asked, files=found.beside.files
        )
    )
