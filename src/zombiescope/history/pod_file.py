# SPDX-License-Identifier: Apache-2.0
"""The names of pods beside the history: one small file, written whole or not at all, by the one agent of a state folder."""

from __future__ import annotations

import os

from zombiescope.host.own_folder import STATE, own_folder
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole_in

NAME = "pods.json"
_MOST_BYTES = 4 << 20


def read_pod_file(folder: bytes) -> bytes:
    """Nothing where there is none; raises OSError. What it says are names, and strangers': whoever prints them knows."""
    try:
        descriptor, _ = open_regular(os.path.join(folder, NAME.encode()))
    except FileNotFoundError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(_MOST_BYTES + 1)
    return text if len(text) <= _MOST_BYTES else b""


def write_pod_file(folder: bytes, text: bytes) -> None:
    """Raises OSError."""
    with own_folder(os.fsdecode(folder) + "/.", STATE) as place:
        write_whole_in(place, NAME, [text])
