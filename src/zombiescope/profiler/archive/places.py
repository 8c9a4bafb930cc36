# SPDX-License-Identifier: Apache-2.0
"""Where an archive is: a folder, or a bucket of an S3-compatible store; and one capture put there. Both give a file whole or not at
all.

Credentials are found as every S3 client finds them (environment, shared file, role of the machine); none is ever an argument.
"""

import errno
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from zombiescope.errors import KEPT_BY_NEWER, ObservationError, UsageError, unknown_format
from zombiescope.facts.names import quiet, shown_text
from zombiescope.host.whole_file import write_whole
from zombiescope.profiler.archive.schema import MARKER, NAME, SCHEMA, TABLES, Labels, named, pack
from zombiescope.profiler.files.symbol_files import map_file
from zombiescope.profiler.stacks.across_nodes import Shipped
from zombiescope.profiler.stacks.capture import Capture

S3 = "s3://"
_LONGEST_MARKER = 4096
_SECONDS_TO_CONNECT, _SECONDS_TO_ANSWER = 10, 60


class Place(ABC):
    """All names are relative to the archive; what fails raises OSError."""

    name: str

    @property
    @abstractmethod
    def room(self) -> str:
        """What has to have room, as a person would look for it."""

    @abstractmethod
    def entries(self, folder: str, *, files: bool) -> list[str]:
        """What a folder holds; nothing where there is none. `files`: only those."""

    @abstractmethod
    def has(self, name: str) -> bool: ...

    @abstractmethod
    def put(self, name: str, content: bytes) -> None: ...

    @abstractmethod
    def open(self, name: str) -> Any:
        """A file for pyarrow."""

    def listed(self, table: str, dates: tuple[str, str] | None) -> list[str]:
        """The captures of those days. Others' files beside ours are left alone."""
        days = [day for day in self.entries(table, files=False) if _within(day, dates)]
        found = [f"{table}/{day}/{name}" for day in days for name in self.entries(f"{table}/{day}", files=True)]
        return sorted(name for name in found if NAME.fullmatch(name))


class Where(NamedTuple):
    """What finds an archive again, in another process or on another machine."""

    target: str
    endpoint: str = ""


def place_at(where: Where) -> Place:
    if where.target.startswith(S3):
        return _Bucket(where)
    if "://" in where.target:
        raise UsageError(
            f"cannot use {shown_text(where.target)} as an archive",
            "only folders and s3:// are known",
            "such as /srv/profiles or s3://bucket/profiles",
        )
    return _Folder(where.target)


class _Folder(Place):
    def __init__(self, path: str) -> None:
        self.name = shown_text(path)
        self._path = os.path.abspath(path)

    @property
    def room(self) -> str:
        """The file system of the folder, or of the first one above it that is there."""
        folder = self._path
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        while not os.path.ismount(folder):
            folder = os.path.dirname(folder)
        return f"the file system at {shown_text(folder)}"

    def entries(self, folder: str, *, files: bool) -> list[str]:
        try:
            with os.scandir(os.path.join(self._path, folder)) as found:
                return [each.name for each in found if not files or each.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def has(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self._path, name))

    def put(self, name: str, content: bytes) -> None:
        write_whole(os.path.join(self._path, name), [content], make=0o700)

    def open(self, name: str) -> Any:
        return pa.BufferReader(pa.py_buffer(map_file(os.fsencode(os.path.join(self._path, name)))))


class _Bucket(Place):
    def __init__(self, where: Where) -> None:
        self.name = shown_text(where.target)
        self._root = where.target.removeprefix(S3).strip("/")
        if not self._root:
            raise UsageError(f"cannot use {self.name} as an archive", "it names no bucket", "s3://bucket/prefix")
        options: dict[str, Any] = {"connect_timeout": _SECONDS_TO_CONNECT, "request_timeout": _SECONDS_TO_ANSWER}
        if where.endpoint:
            scheme, mark, address = where.endpoint.partition("://")
            if not mark or scheme not in ("http", "https") or not address:
                raise UsageError(f"cannot use the endpoint {where.endpoint!r}", "it is no http address", "https://HOST")
            options |= {"endpoint_override": address.strip("/"), "scheme": scheme}
        self._store: Any = fs.S3FileSystem(**options)

    @property
    def room(self) -> str:
        return f"the store at {self.name}"

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def entries(self, folder: str, *, files: bool) -> list[str]:
        found = self._store.get_file_info(fs.FileSelector(self._path(folder), allow_not_found=True))
        return [each.base_name for each in found if not files or each.is_file]

    def has(self, name: str) -> bool:
        return bool(self._store.get_file_info(self._path(name)).is_file)

    def put(self, name: str, content: bytes) -> None:
        """An object appears when its upload is complete."""
        with self._store.open_output_stream(self._path(name)) as stream:
            stream.write(content)

    def open(self, name: str) -> Any:
        return self._store.open_input_file(self._path(name))


def _within(day: str, dates: tuple[str, str] | None) -> bool:
    return day.startswith("date=") and (dates is None or dates[0] <= day.removeprefix("date=") <= dates[1])


@contextmanager
def reaching(what: str, hint: str, full_hint: str = "") -> Iterator[None]:
    """A store that refuses, is away, or holds no Parquet is an error with a way on; one that is full is told by `full_hint`."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if full_hint and getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            hint = full_hint
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ObservationError(what, quiet(why[:300]), hint) from error


def require_known(place: Place) -> None:
    if not place.has(MARKER):
        raise UsageError(
            f"there is no archive at {place.name}",
            f"it holds no {MARKER}",
            "zombiescope profile ship --to DIR writes one",
        )
    try:
        schema = str(json.loads(bytes(place.open(MARKER).read(_LONGEST_MARKER)))["schema"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ObservationError(
            f"cannot read the archive at {place.name}",
            f"its {MARKER} is damaged",
            f'if it is one that profile ship wrote, put {{"schema": "{SCHEMA}"}} into that file',
        ) from error
    if schema != SCHEMA:
        raise ObservationError(
            f"cannot use the archive at {place.name}",
            unknown_format(quiet(schema[:40]), SCHEMA),
            KEPT_BY_NEWER,
        )


def ship(place: Place, capture: Capture, title: str, labels: Labels, *, replace: bool = False) -> Shipped:
    """Stacks, samples, then the row that makes both count. Done again, it changes nothing."""
    try:
        name, date = named(capture, labels)
    except UsageError as error:
        raise UsageError(f"cannot ship {title}", error.why, error.hint) from error
    with reaching(
        f"cannot ship {title} to {place.name}",
        "is the address right, and may you write there? what is complete there stays",
        f"make room on {place.room}, and ship again: what is complete there stays",
    ):
        if place.has(MARKER):
            require_known(place)  # an archive of a later version is left as it is
        else:
            place.put(MARKER, json.dumps({"schema": SCHEMA}).encode() + b"\n")
        if not replace and place.has(f"captures/date={date}/{name}.parquet"):
            return Shipped(title, name, len(capture), None)
        tables = pack(capture, name, title, labels)
        for table in TABLES:
            place.put(f"{table}/date={date}/{name}.parquet", tables[table])
    return Shipped(title, name, len(capture), sum(map(len, tables.values())))
