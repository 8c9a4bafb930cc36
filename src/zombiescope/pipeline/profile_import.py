# SPDX-License-Identifier: Apache-2.0
"""A file read and stored as a capture. Apart from the questions, so that an import loads only what it needs."""

from __future__ import annotations

import gc
import os
from dataclasses import replace

from zombiescope.captures import store
from zombiescope.captures.memory import prepare
from zombiescope.captures.reading import Choices, read_capture
from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.profiling.capture import Capture
from zombiescope.profiling.capture_codec import encode

_MEMORY_TIMES_FILE = 4


def import_capture(path: bytes, folder: bytes, name: str | None, choices: Choices) -> tuple[bytes, Capture]:
    prepare(_MEMORY_TIMES_FILE * _size(path))
    # Nothing made here is a cycle: looking for some, again and again among ever more objects, would only cost time.
    gc.disable()
    try:
        return _import(path, folder, name, choices)
    finally:
        gc.enable()


def _size(path: bytes) -> int:
    """Zero for what cannot be read: who reads it says why."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _import(path: bytes, folder: bytes, name: str | None, choices: Choices) -> tuple[bytes, Capture]:
    capture = read_capture(path, choices)
    stem = os.fsencode(name) if name else os.path.basename(path).removesuffix(b".gz")
    if not stem or b"/" in stem or stem.startswith(b"."):
        raise UsageError(
            f"cannot store a capture as {shown(stem)!r}", "it is no plain file name", "give one with --name"
        )
    # A segment that a recorder stored elsewhere is here to stay: no recorder's ring may have it.
    capture = replace(capture, about=capture.about._replace(ring=""))
    return store.save(folder, stem, encode(capture)), capture
