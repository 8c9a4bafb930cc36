# SPDX-License-Identifier: Apache-2.0
"""One SQLite file, opened so that no other file can hurt whoever has it open: with a rollback journal, and never with the shared
memory of a write-ahead log, which kills by SIGBUS when somebody truncates it.

`locking_mode = EXCLUSIVE` before the first access keeps SQLite from shared memory also where a log of an earlier build lies beside.
"""

import errno
import os
import sqlite3
import stat
from contextlib import suppress

_JOURNAL, _WRITE_AHEAD = "-journal", "-wal"
JOURNALS = (_JOURNAL, _WRITE_AHEAD)
_SECONDS_TO_WAIT, _WRITER_SECONDS_TO_WAIT = 5.0, 1.0
"""The writer has a log to go on with: it tries again later."""


def open_to_write(path: str) -> sqlite3.Connection:
    pragmas = ("auto_vacuum = INCREMENTAL", "journal_mode = DELETE", "synchronous = FULL")
    return _connected(path, "rwc", _WRITER_SECONDS_TO_WAIT, *pragmas)


def open_to_read(path: str) -> sqlite3.Connection:
    """Changes nothing there. What a killed writer left half done is put right in a copy. Raises OSError for what is no file."""
    for more in ("", *JOURNALS):
        _require_regular(path + more)
    if os.path.exists(path + _WRITE_AHEAD):
        return _put_right(path)
    try:
        return _connected(path, "ro", _SECONDS_TO_WAIT)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
            raise
    return _put_right(path)


def _require_regular(path: str) -> None:
    """SQLite would wait for ever at a pipe."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")


def _put_right(path: str) -> sqlite3.Connection:
    """The folder goes at once: the descriptors that are open keep what is needed."""
    import shutil  # noqa: PLC0415 (after a kill only)
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="zombiescope-history-") as folder:
        copy = os.path.join(folder, os.path.basename(path))
        for more in ("", *JOURNALS):
            with suppress(FileNotFoundError):
                shutil.copyfile(path + more, copy + more)
        return _connected(copy, "rw", _SECONDS_TO_WAIT)


def _connected(path: str, mode: str, seconds: float, *pragmas: str) -> sqlite3.Connection:
    """Read once, so that what is wrong with it is said now."""
    database = sqlite3.connect(f"file:{quoted(path)}?mode={mode}", uri=True, isolation_level=None, timeout=seconds)
    try:
        for pragma in ("trusted_schema = OFF", "locking_mode = EXCLUSIVE", *pragmas, "cache_size = -1024"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def quoted(path: str) -> str:
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
