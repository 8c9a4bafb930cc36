# SPDX-License-Identifier: Apache-2.0
"""Runs a command beside busy processes: `tools/beside_busy.py COUNT COMMAND...`.

Each takes what it can get of a CPU; all end with us.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

_BUSY = [sys.executable, "-c", "while True: pass"]


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 2 or not arguments[0].isdigit():
        print(__doc__)
        return 2
    busy = [
        subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *_BUSY], start_new_session=True)
        for _ in range(int(arguments[0]))
    ]
    try:
        return subprocess.run(arguments[1:], check=False).returncode
    except KeyboardInterrupt:
        return 130
    finally:
        for each in busy:
            each.kill()
            each.wait()
        print(f"== {len(busy)} busy processes ran beside it and are ended", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
