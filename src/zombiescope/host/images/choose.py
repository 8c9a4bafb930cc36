# SPDX-License-Identifier: Apache-2.0
"""Which kind of image stands behind `--image`, told from its first bytes, and its tree of files. One that is not a file yet (in a
registry, or in the store of Docker or podman) is made one by skopeo, where installed."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.names import shown
from zombiescope.host.bounds import Budget, bounded, input_bytes, limit_child
from zombiescope.host.images.archive import (
    DOCUMENT_LIMIT,
    MemoryTree,
    blob_path,
    lay,
    oci_layers,
    read_archive,
    read_layer,
)
from zombiescope.host.images.disks import Disk, Layout, disk_of, layout_of, read_ext4, roomy_folder
from zombiescope.host.images.guestfs import is_installed, read_with_guestfs
from zombiescope.host.images.streams import UNPACKING_ERRORS, Allowance, FileSource, is_packed, opened
from zombiescope.host.images.tar import BLOCK, TarError
from zombiescope.host.safe_open import open_regular

REFERENCES = (b"docker://", b"docker-daemon:", b"containers-storage:")
MOST_BYTES = 32 << 30
_SECONDS = 3600


def is_reference(path: bytes) -> bool:
    return path.startswith(REFERENCES)


@contextmanager
def pulled(reference: bytes) -> Iterator[bytes]:
    """The image as an OCI archive in a folder of our own, removed at the end. Raises ObservationError."""
    what = f"cannot read the image {shown(reference)}"
    if shutil.which("skopeo") is None:
        hint = "install skopeo, or `docker save` it into a file and give that"
        raise ObservationError(what, "skopeo, which pulls it, is not installed", hint)
    with tempfile.TemporaryDirectory(prefix="zombiescope-", dir=roomy_folder()) as folder:
        file = os.fsencode(folder) + b"/image.tar"
        try:
            done = subprocess.run(
                [b"skopeo", b"copy", b"--override-os", b"linux", b"--quiet", reference, b"oci-archive:" + file],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
                env={**os.environ, "TMPDIR": folder},
                preexec_fn=lambda: limit_child(MOST_BYTES),
            )
        except subprocess.TimeoutExpired as error:
            raise ObservationError(what, "skopeo did not end within an hour", "is the registry reachable?") from error
        if done.returncode:
            said = " ".join(shown(line) for line in done.stderr.strip().splitlines()[-3:])[:500]
            hint = f"skopeo inspect {shown(reference)}"
            raise ObservationError(what, said or f"skopeo ended with status {done.returncode}", hint)
        yield file


Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Image:
    tree: MemoryTree
    kind: str


def open_image(
    path: bytes, wanted_paths: frozenset[bytes], progress: Progress, large_paths: frozenset[bytes] = frozenset()
) -> Image:
    """Reads the image once. Raises UsageError for what is no image, ObservationError for one that is damaged."""
    if is_reference(path):
        with pulled(path) as file:
            return open_image(file, wanted_paths, progress, large_paths)
    what = f"cannot read the image {shown(path)}"
    try:
        mode = os.stat(path).st_mode
        with bounded(what, image_budget(path)):
            return _read(path, mode, MemoryTree(wanted_paths, large_paths), progress)
    except FileNotFoundError as error:
        raise UsageError(f"cannot read {shown(path)}", "there is no such file", "give an image archive") from error
    except (TarError, EOFError, NotImplementedError, *UNPACKING_ERRORS) as error:
        raise ObservationError(
            what, str(error) or "it ends too early", "is it whole? nothing of it was judged"
        ) from error
    except OSError as error:
        raise ObservationError(what, reason_of(error), "is it whole?") from error


def image_budget(path: bytes) -> Budget:
    """For all that is done with it. The smallest where it cannot be looked at."""
    if is_reference(path):
        return Budget(MOST_BYTES, 0, "images in a registry")
    try:
        return Budget(_input_bytes(path), 0)
    except OSError:
        return Budget(0, 0)


def _input_bytes(path: bytes) -> int:
    """Of a disk, where stat tells nothing, what seeking to its end tells; of a layout, all its files."""
    if os.path.isdir(path):
        walk = os.walk(path)
        return sum(input_bytes(os.lstat(os.path.join(folder, name))) for folder, _, names in walk for name in names)
    status = os.stat(path)
    if not stat.S_ISBLK(status.st_mode):
        return input_bytes(status)
    with open(path, "rb") as disk:
        return disk.seek(0, os.SEEK_END)


def _read(path: bytes, mode: int, tree: MemoryTree, progress: Progress) -> Image:
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode) or stat.S_ISDIR(mode)):
        raise UsageError(
            f"cannot use {shown(path)} as an image", "it is neither a file nor a folder", "give an archive"
        )
    return Image(tree, (_read_layout if stat.S_ISDIR(mode) else _read_file)(path, tree, progress))


def _read_file(path: bytes, tree: MemoryTree, progress: Progress) -> str:
    with open(path, "rb") as file:
        first = file.read(BLOCK)
        is_tar = first[257:262] == b"ustar"
        disk = None if is_tar else disk_of(file, path)
        if disk is not None:
            return f"{disk.kind}, {read_with_guestfs(path, disk, tree)}"
        layout = Layout({}, is_partitioned=False) if is_tar or is_packed(first) else layout_of(file)
        if layout.systems or layout.is_partitioned:
            return _read_raw(path, layout, tree)
        size = file.seek(0, os.SEEK_END)
        file.seek(len(first))
        source = FileSource(file, lambda done: progress(done, size), size)
        allowance = Allowance(size)
        return read_archive(opened(source, first, allowance), tree, allowance)


def _read_raw(path: bytes, layout: Layout, tree: MemoryTree) -> str:
    """ext4 alone is read by debugfs, in a moment; with anything else beside it, libguestfs knows what belongs together."""
    if len(layout.ext4) == 1 and not layout.others and not layout.is_partly_known:
        read_ext4(path, layout.ext4[0], tree)
        return "ext4 file system"
    names = ", ".join(dict.fromkeys(layout.systems.values())) or "partitions"
    if len(layout.ext4) > 1 and not layout.others and not is_installed():
        raise ObservationError(
            f"cannot read the image {shown(path)}",
            f"it has {len(layout.ext4)} ext4 file systems, and which belong together takes libguestfs, which is not installed",
            "install guestfish, or copy the root file system out and give that",
        )
    return f"raw disk ({names}), {read_with_guestfs(path, Disk(f'raw disk with {names}', 'raw'), tree)}"


def _read_layout(path: bytes, tree: MemoryTree, progress: Progress) -> str:
    if not os.path.exists(os.path.join(path, b"oci-layout")):
        raise UsageError(
            f"cannot use {shown(path)} as an image",
            "a folder that is no OCI layout",
            f"zombiescope audit --root {shown(path)}",
        )
    names = oci_layers(_document(path + b"/index.json"), lambda digest: _document(path + blob_path(digest)))
    sizes = [os.stat(path + name).st_size for name in names]
    total, allowance = sum(sizes), Allowance(sum(sizes))
    for name, done, size in zip(names, accumulate(sizes, initial=0), sizes, strict=False):
        with os.fdopen(open_regular(path + name)[0], "rb") as file:
            first = file.read(BLOCK)
            source = FileSource(file, lambda at, done=done: progress(done + at, total), size)  # type: ignore[misc]
            lay(read_layer(opened(source, first, allowance), tree), tree)
    return "OCI layout"


def _document(path: bytes) -> bytes:
    with os.fdopen(open_regular(path)[0], "rb") as file:
        data = file.read(DOCUMENT_LIMIT + 1)
    if len(data) > DOCUMENT_LIMIT:
        raise TarError("a description of more than 4 MiB")
    return data
