# SPDX-License-Identifier: Apache-2.0
"""The agent's configuration as the file that would give it, each value with its origin beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from zombiescope.facts.names import shown


def render_config(values: Mapping[str, object], thresholds: Mapping[str, object], origins: Mapping[str, str]) -> str:
    """`origins`: of a threshold under `thresholds.NAME`; what has none is a default."""
    lines = ["[agent]", *(_line(name, value, origins.get(name)) for name, value in values.items())]
    lines += ["", "[thresholds]"]
    lines += [_line(name, value, origins.get(f"thresholds.{name}")) for name, value in thresholds.items()]
    return "\n".join(lines) + "\n"


def _line(name: str, value: object, origin: str | None) -> str:
    # The name of a file is a stranger's: a line break in it must not become a line of this one.
    told = shown((origin or "default").encode("utf-8", "surrogateescape"))
    return f"{f'{name} = {json.dumps(value)}':<40} # {told}"
