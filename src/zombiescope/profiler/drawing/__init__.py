# SPDX-License-Identifier: Apache-2.0
"""What was found, as text, JSON, SVG and PNG. Pure."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.profiler.drawing import colours, documents, text
else:
    __getattr__ = late(__name__)
