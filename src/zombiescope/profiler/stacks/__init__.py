# SPDX-License-Identifier: Apache-2.0
"""Samples with stacks, and the questions asked of them. Pure."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.profiler.stacks import capture, saturation
else:
    __getattr__ = late(__name__)
