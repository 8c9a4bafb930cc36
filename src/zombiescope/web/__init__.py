# SPDX-License-Identifier: Apache-2.0
"""Pages over HTTP: loopback, read-only, nothing from outside."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.web import fleet, guards, one_file, site, standing
else:
    __getattr__ = late(__name__)
