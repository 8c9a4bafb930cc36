# SPDX-License-Identifier: Apache-2.0
"""Profiles as Pyroscope's own clients send them (pyroscope-io 1.4.0 on PyPI was watched doing it): a PushRequest with one series of
labels and one pprof profile."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.profiler.formats.protobuf import message_field, pprof_pieces, text_field
from zombiescope.profiler.formats.sending import SCOPE, Sender, profile_id
from zombiescope.profiler.stacks.capture import Capture, Selection

PATH = "/push.v1.PusherService/Push"
NAME_LABEL = "__name__"
_NAME = "process_cpu"
"""What its pages know as processor time."""


def write_pyroscope(capture: Capture, selection: Selection, sender: Sender) -> Iterator[bytes]:
    told = {
        NAME_LABEL: _NAME,
        "service_name": sender.service,
        "hostname": capture.about.host or "",
        "otel.scope.name": SCOPE,
        "otel.scope.version": sender.version,
        **dict(sender.labels),
    }
    # RawProfileSeries: labels 1 (name 1, value 2), samples 2; RawSample: raw_profile 1, ID 2.
    labels = b"".join(
        message_field(1, text_field(1, name) + text_field(2, value)) for name, value in told.items() if value
    )
    sample = message_field(1, b"".join(pprof_pieces(capture, selection)))
    sample += text_field(2, str(profile_id(capture, selection)))
    yield message_field(1, labels + message_field(2, sample))
