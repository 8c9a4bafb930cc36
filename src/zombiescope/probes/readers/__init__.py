# SPDX-License-Identifier: Apache-2.0
"""One kernel interface a file."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.probes.readers import reclaim_rates, zombie_walk
else:
    __getattr__ = late(__name__)
