# SPDX-License-Identifier: Apache-2.0
"""Pictures and exports written to a file, or to standard output for `-`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from zombiescope.cli.answer import Answer, TextAnswer
from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown


def write_file(path: bytes, content: bytes) -> Answer:
    return write_pieces(path, [content])


def write_pieces(path: bytes, pieces: Iterable[bytes]) -> Answer:
    size = 0
    try:
        if path == b"-":
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return TextAnswer([])
        with open(path, "wb") as file:  # noqa: PTH123 (bytes are the name)
            for piece in pieces:
                file.write(piece)
                size += len(piece)
    except BrokenPipeError:
        raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(f"cannot write {shown(path)}", why, "choose another place") from error
    return TextAnswer([f"wrote {shown(path)} ({size:,} bytes)"])
