# SPDX-License-Identifier: Apache-2.0
"""Pictures and exports written to a file, or to standard output for `-`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from zombiescope.cli.answer import Answer, TextAnswer
from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.answer_file import write_answer


def write_file(path: bytes, content: bytes) -> Answer:
    return write_pieces(path, [content])


def write_pieces(path: bytes, pieces: Iterable[bytes]) -> Answer:
    try:
        if path == b"-":
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return TextAnswer([])
        size = write_answer(path, pieces)
    except BrokenPipeError:
        raise
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(f"cannot write {shown(path)}", why, "choose another place") from error
    return TextAnswer([f"wrote {shown(path)} ({size:,} bytes)"])
