# SPDX-License-Identifier: Apache-2.0
"""The commands of `zombiescope profile`, loaded one by one."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.cli.profiles import carrying
else:
    __getattr__ = late(__name__)
