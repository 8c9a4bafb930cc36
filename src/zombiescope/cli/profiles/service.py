# SPDX-License-Identifier: Apache-2.0
"""`profile record --service`: the recorder that is always on, by `[profile]` of the configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec

import click

from zombiescope.cli.answer import Answer, JsonAnswer, TextAnswer
from zombiescope.cli.profiles.folder import next_line
from zombiescope.cli.profiles.keeping import Flags, say_dropped, say_who, told_of, worth_keeping
from zombiescope.config import Config, Value, load_config, load_profile_config
from zombiescope.errors import absent_part
from zombiescope.facts.names import counted, shown
from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler.files.rolling import Order

_KEYS = {
    "captures": "captures",
    "source": "sampler",
    "rate": "rate_hz",
    "segment": "segment_seconds",
    "keep_mb": "keep_megabytes",
    "keep_days": "keep_days",
    "prefer": "prefer",
}
"""Flags, and the keys that they override."""


def configured(flags: Flags) -> Config:
    given: dict[str, Value | None] = {}
    for flag, key in _KEYS.items():
        if flag in flags.given:
            value = flags.values[flag]
            given[key] = ",".join(value) if flag == "prefer" else os.fsdecode(value) if flag == "captures" else value
    return load_profile_config(flags.config, given)


def order_of(config: Config) -> Order:
    return Order(
        os.fsencode(config.text("captures")),
        round(config.number("rate_hz")),
        config.number("segment_seconds"),
        int(config.number("keep_megabytes") * 1e6),
        config.number("keep_days") * 86_400,
        config.text("sampler"),
        "service",
        around_seconds=config.number("around_seconds"),
        least_free_bytes=int(config.number("least_free_megabytes") * 1e6),
    )


def serve(flags: Flags, should_stop: Callable[[], bool], seconds: float | None, *, as_json: bool) -> Answer:
    config = configured(flags)
    if find_spec("numpy") is None:
        hint = "zombiescope profile record without --service keeps what was sampled"
        raise absent_part("cannot sum up captures as they are recorded", "numpy", "profile", hint)
    from zombiescope.profiler.drawing.documents import render_list  # noqa: PLC0415
    from zombiescope.profiler.files.recorder import Recording  # noqa: PLC0415
    from zombiescope.profiler.files.service import Cost, Service, room_for_others  # noqa: PLC0415
    from zombiescope.profiler.files.store import entries  # noqa: PLC0415
    from zombiescope.profiler.files.summing import Summing  # noqa: PLC0415

    order = order_of(config)
    order = replace(order, least_free_bytes=room_for_others(order.folder, order.least_free_bytes))
    state, prefer = _state(flags), tuple(config.words("prefer"))
    keep = worth_keeping(prefer, state, scans=state is None)
    recording = Recording(order, should_stop, keep, say_who, say_dropped, Summing(cause_words()[0]))
    asked = (order.rate_hz, order.segment_seconds)
    cost = Cost(config.number("most_cpu_percent") / 100, asked, *asked)
    stored = set()
    for one in Service(recording, should_stop, cost, _say).segments(seconds):
        stored.add(one.path)
        _say(told_of(one.path, one.capture))
    if as_json:
        return JsonAnswer(render_list([entry for entry in entries(order.folder) if entry.path in stored]))
    told = f"{counted(len(stored), 'capture')} stored in {shown(order.folder)}"
    return TextAnswer([told, next_line("to see what the ring covers", "ring", order.folder)])


def _state(flags: Flags) -> bytes | None:
    """Where the agent keeps its history, if there is one."""
    if flags.values["state"] is not None:
        return bytes(flags.values["state"])
    folder = load_config(flags.config, {}).text("state")
    return os.fsencode(folder) if folder and os.path.isdir(folder) else None


def _say(text: str) -> None:
    click.echo(text, file=sys.stderr)
