# SPDX-License-Identifier: Apache-2.0
"""The only door to a machine."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.host import cluster_api
else:
    __getattr__ = late(__name__)
