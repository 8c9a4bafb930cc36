# SPDX-License-Identifier: Apache-2.0
"""The node agent: looks at its own pace, remembers, serves what it knows. Entry point."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.agent import api
else:
    __getattr__ = late(__name__)
