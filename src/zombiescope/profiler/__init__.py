# SPDX-License-Identifier: Apache-2.0
"""The profiler, with a border of its own: it uses names, errors, gaps and the few doors named in pyproject.toml, and no more."""

from typing import TYPE_CHECKING

from zombiescope.late import late

if TYPE_CHECKING:
    from zombiescope.profiler import asking, drawing, files, stacks
else:
    __getattr__ = late(__name__)
