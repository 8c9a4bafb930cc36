# SPDX-License-Identifier: Apache-2.0
"""A capture that cannot be read at all: why, where, and what would help. What can be read in part is a gap, not this."""

from __future__ import annotations


class BrokenCapture(Exception):  # noqa: N818 (it names the thing, not the failure)
    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint
