# SPDX-License-Identifier: Apache-2.0
"""An image that is not a file yet: in a registry, or in the store of Docker or podman. skopeo, where installed, makes it one."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown

REFERENCES = (b"docker://", b"docker-daemon:", b"containers-storage:")
MOST_BYTES = 32 << 30
_SECONDS = 3600
_LINES = 3


def is_reference(path: bytes) -> bool:
    return path.startswith(REFERENCES)


@contextmanager
def pulled(reference: bytes) -> Iterator[bytes]:
    """The image as an OCI archive in a folder of our own, removed at the end. Raises ObservationError."""
    what = f"cannot read the image {shown(reference)}"
    program = shutil.which("skopeo")
    if program is None:
        hint = "install skopeo, or `docker save` it into a file and give that"
        raise ObservationError(what, "skopeo, which pulls it, is not installed", hint)
    with tempfile.TemporaryDirectory(prefix="zombiescope-", dir=_roomy()) as folder:
        file = os.fsencode(folder) + b"/image.tar"
        command = [
            os.fsencode(program),
            b"copy",
            b"--override-os",
            b"linux",
            b"--quiet",
            reference,
            b"oci-archive:" + file,
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env={**os.environ, "TMPDIR": folder},
                preexec_fn=_limited,
            )
        except subprocess.TimeoutExpired as error:
            raise ObservationError(what, "skopeo did not end within an hour", "is the registry reachable?") from error
        if done.returncode:
            said = " ".join(shown(line) for line in done.stderr.strip().splitlines()[-_LINES:])[:500]
            hint = f"skopeo inspect {shown(reference)}"
            raise ObservationError(what, said or f"skopeo ended with status {done.returncode}", hint)
        yield file


def _roomy() -> str | None:
    """Where disks are: the usual folder is often memory."""
    given = os.environ.get("TMPDIR")
    return given or ("/var/tmp" if os.access("/var/tmp", os.W_OK) else None)  # noqa: S108


def _limited() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
