# SPDX-License-Identifier: Apache-2.0
"""Does work as a user without privileges: in a forked child, for such a user may not even read our interpreter."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

from tests.open_ways import open_ways

NOBODY = 65534


def as_nobody(work: Callable[[], int]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error. Whatever `work` imports must have been imported before."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                if os.geteuid() == 0:
                    open_ways()
                    os.setgroups([])
                    os.setresgid(NOBODY, NOBODY, NOBODY)
                    os.setresuid(NOBODY, NOBODY, NOBODY)
                code = _with_plain_streams(work)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return os.waitstatus_to_exitcode(status), texts[0], texts[1]


def _with_plain_streams(work: Callable[[], int]) -> int:
    """The test runner has put its own streams in their place."""
    import sys  # noqa: PLC0415 (the streams of the child alone)

    with open(1, "w", closefd=False) as out, open(2, "w", closefd=False) as err:
        sys.stdout, sys.stderr = out, err
        return work()


def document_of(output: str) -> dict[str, Any]:
    document = json.loads(output)
    assert isinstance(document, dict)
    return document
