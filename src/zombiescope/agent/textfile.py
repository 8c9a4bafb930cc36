# SPDX-License-Identifier: Apache-2.0
"""A text file for node_exporter's collector: written beside and renamed, so that nobody reads half of it."""

from __future__ import annotations

import os
from contextlib import suppress


def write_textfile(path: str, body: bytes) -> str | None:
    """Why it could not be written, or None."""
    beside = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        os.rename(beside, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        return (error.strerror or str(error)).lower()
    return None
