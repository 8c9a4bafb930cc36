# SPDX-License-Identifier: Apache-2.0
"""`python -m zombiescope` is the same as `zombiescope`. A Python that is too old can read this file, and says so."""

import gc
import signal
import sys

NEEDED = (3, 11)


def main() -> None:
    if sys.version_info < NEEDED:
        sys.stderr.write(
            "zombiescope needs Python %s.%s or newer, and this is Python %s.%s (%s)\n"
            "hint: use the one-file build, which needs no Python: zombiescope-x86_64 or zombiescope-aarch64 (make onefile); "
            "or run it with a newer one: python3.11 -m zombiescope, python3.11 zombiescope.pyz\n"
            % (NEEDED + tuple(sys.version_info[:2]) + (sys.executable,))
        )
        sys.exit(3)
    # Nothing has begun: until then Ctrl-C ends it, without a traceback of what was being loaded.
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # as `run` does, and before the modules that it needs
    from zombiescope.cli.main import run  # noqa: PLC0415 (only where it can be read)

    if heard is signal.default_int_handler:
        signal.signal(signal.SIGINT, heard)
    run()


if __name__ == "__main__":
    main()
