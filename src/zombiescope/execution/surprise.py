# SPDX-License-Identifier: Apache-2.0
"""Something is not as the plan saw it, or the machine refused: the action stops here."""

from __future__ import annotations


class SurpriseError(Exception):
    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__(f"{what}: {why}")
        self.what, self.why, self.hint = what, why, hint


def refused(what: str, error: OSError) -> SurpriseError:
    why = error.strerror or str(error)
    return SurpriseError(what, why[:1].lower() + why[1:])
