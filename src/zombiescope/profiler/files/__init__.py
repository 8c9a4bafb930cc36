# SPDX-License-Identifier: Apache-2.0
"""Captures on disk: reading any file, recording, the files that name functions. The edge."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.profiler.files import recorder, store, summing
else:
    __getattr__ = late(__name__)
