# SPDX-License-Identifier: Apache-2.0
"""What the agent remembers: an append log of the current hour and column chunks of the hours before. Edge."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.history import reader
else:
    __getattr__ = late(__name__)
