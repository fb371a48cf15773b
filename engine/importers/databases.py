"""Reads what OpenClaw keeps in SQLite: the records of each session, as the lines that its log files held before.

The database belongs to a running program: it is opened read-only, and nothing in it is executed. Its schema comes
from whoever made the file, so that only a plain table of the expected name is read.
"""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

MAGIC = b"SQLite format 3\x00"
COMPANIONS = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database; it is read with it."""
_TABLE = "transcript_events"
_COLUMNS = {"session_id", "seq", "event_json"}


def belongs_to_database(path: Path) -> bool:
    """Whether a file is SQLite's own, beside a database."""
    return any(path.name.endswith(end) and path.with_name(path.name[: -len(end)]).is_file() for end in COMPANIONS)


class Transcripts:
    """The sessions of one database.

    Raises:
        sqlite3.DatabaseError: the file is damaged, locked for long, or no database.
    """

    def __init__(self, path: Path, value_bytes: int) -> None:
        self._connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=5)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, value_bytes)
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA query_only = ON")
        self._connection.execute("BEGIN")  # one view of all sessions, while their program goes on writing

    def close(self) -> None:
        """Give the database back."""
        self._connection.close()

    @property
    def known(self) -> bool:
        """Whether it is a store of OpenClaw's, as far as it is read."""
        query = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"
        row = self._connection.execute(query, (_TABLE,)).fetchone()
        if row is None or not str(row[0]).upper().lstrip().startswith("CREATE TABLE"):
            return False
        columns = {column[1]: column[6] for column in self._connection.execute(f"PRAGMA table_xinfo({_TABLE})")}
        return columns.keys() >= _COLUMNS and not any(columns[name] for name in _COLUMNS)  # no computed ones

    def sessions(self) -> list[str]:
        """Their ids, sorted."""
        query = f"SELECT DISTINCT session_id FROM {_TABLE} WHERE typeof(session_id) = 'text' ORDER BY session_id"  # noqa: S608
        return [row[0] for row in self._connection.execute(query)]

    def lines(self, session: str) -> io.BufferedReader:
        """The records of a session as JSON Lines, the oldest first, behind a heading that names the session."""
        query = f"SELECT event_json FROM {_TABLE} WHERE session_id = ? ORDER BY seq"  # noqa: S608
        heading = json.dumps({"type": "session", "id": session, "cwd": ""})
        return io.BufferedReader(_Rows(heading, self._connection.execute(query, (session,))), 64 * 1024)


class _Rows(io.RawIOBase):
    """Rows of one text column, each a line."""

    def __init__(self, heading: str, rows: sqlite3.Cursor) -> None:
        super().__init__()
        self._lines = self._each(heading, rows)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into a buffer."""
        if not self._left:
            self._left = memoryview(next(self._lines, b""))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    @staticmethod
    def _each(heading: str, rows: sqlite3.Cursor) -> Iterator[bytes]:
        yield f"{heading}\n".encode()
        with closing(rows):
            for (text,) in rows:
                # Between the tokens of JSON a line's end means nothing, and inside of them it cannot be.
                line = str(text).replace("\r", " ").replace("\n", " ")
                yield f"{line}\n".encode("utf-8", "replace")
