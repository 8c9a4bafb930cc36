# SPDX-License-Identifier: Apache-2.0
"""How the tests start the product: `python -m zombiescope`, or the file that ZOMBIESCOPE_COMMAND names (`make test-onefile`)."""

from __future__ import annotations

import os
import sys

VARIABLE = "ZOMBIESCOPE_COMMAND"
GIVEN = os.environ.get(VARIABLE, "")
PRODUCT: tuple[str, ...] = (os.path.abspath(GIVEN),) if GIVEN else (sys.executable, "-m", "zombiescope")
