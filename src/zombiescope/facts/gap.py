# SPDX-License-Identifier: Apache-2.0
"""A fact that is not available: which one, why, and what would help. Absent is never zero."""

from typing import NamedTuple


class Gap(NamedTuple):
    fact: str
    """The JSON path of the field that is missing, such as `parents[].zombies`."""
    reason: str
    hint: str = ""

    def about(self, fact: str) -> "Gap":
        """The same gap, said of another field."""
        return self._replace(fact=fact)
