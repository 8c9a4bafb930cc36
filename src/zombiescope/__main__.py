# SPDX-License-Identifier: Apache-2.0
"""`python -m zombiescope` is the same as `zombiescope`."""

from zombiescope.cli.main import run

if __name__ == "__main__":
    run()
