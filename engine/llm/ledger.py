"""What was spent on models: one small SQLite file, so that caps hold across processes and crashes.

A call is entered before it is made, at the most it may cost, and corrected once it ended. What a crash leaves open
stays counted at that most: a cap may stop a run too early, never too late.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from instar.engine.llm.config import Model, ModelSettings
from instar.engine.llm.errors import BudgetSpent
from instar.engine.llm.requests import Request

NIGHT = 24 * 60 * 60.0
"""Seconds over which the caps of a night are counted, back from now."""
MILLION = 1_000_000
WAIT = 30.0
"""Seconds to wait for another process that writes."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS spent (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, run TEXT NOT NULL, role TEXT NOT NULL, model TEXT NOT NULL,
    document TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    micros INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS verdicts (
    id INTEGER PRIMARY KEY, at REAL NOT NULL, role TEXT NOT NULL, model TEXT NOT NULL, document TEXT NOT NULL,
    accepted INTEGER NOT NULL, reason TEXT NOT NULL, statement TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """What went to one role, model and document. `micros` is money in millionths."""

    role: str
    model: str
    document: str
    calls: int
    input_tokens: int
    output_tokens: int
    micros: int
    estimated: int
    """Calls that the server did not count, or that are still open: counted at an estimate."""


@dataclass(frozen=True, slots=True)
class Told:
    """How many statements of a model were accepted, and how many rejected for one reason."""

    model: str
    accepted: int
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """One statement that was not kept, with the page it was about and the reason. The text is a model's."""

    role: str
    model: str
    document: str
    reason: str
    statement: str


class Ledger:
    """The book of one home; `path` is a file, or ":memory:" for a dry run."""

    def __init__(self, path: Path | str, *, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = str(path), now
        self._book: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def reserve(self, request: Request, model: Model, caps: ModelSettings, run: str) -> int:
        """Enter a call at the most it may cost, and return its number.

        Raises:
            BudgetSpent: a cap of the run or of the night would be exceeded; nothing was entered.
        """
        tokens = request.input_tokens + request.output_tokens
        micros = cost(model, request.input_tokens, request.output_tokens)
        with self._writing() as book:
            for cap, since, own, limits in (
                ("run", 0.0, run, (caps.run_tokens, caps.run_money)),
                ("night", self._now() - NIGHT, None, (caps.night_tokens, caps.night_money)),
            ):
                spent, money = _sums(book, since, own)
                if spent + tokens > limits[0]:
                    raise BudgetSpent(f"tokens per {cap}", f"{limits[0]:,}", f"{spent:,}")
                if limits[1] is not None and money + micros > round(limits[1] * MILLION):
                    raise BudgetSpent(f"money per {cap}", f"{limits[1]:g}", f"{money / MILLION:.4f}")
            row = (self._now(), run, model.role, model.name, request.document, request.input_tokens,
                   request.output_tokens, micros, "open")  # fmt: skip
            cursor = book.execute(
                "INSERT INTO spent (at, run, role, model, document, input_tokens, output_tokens, micros, state) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            return int(cursor.lastrowid or 0)

    def settle(self, number: int, model: Model, input_tokens: int, output_tokens: int, *, estimated: bool) -> None:
        """Correct an entered call to what it cost."""
        micros = cost(model, input_tokens, output_tokens)
        with self._writing() as book:
            book.execute(
                "UPDATE spent SET input_tokens = ?, output_tokens = ?, micros = ?, state = ? WHERE id = ?",
                (input_tokens, output_tokens, micros, "estimated" if estimated else "settled", number),
            )

    def release(self, number: int) -> None:
        """Take an entered call out again: it was never answered, so it cost nothing."""
        with self._writing() as book:
            book.execute("DELETE FROM spent WHERE id = ?", (number,))

    def judged(self, model: str, role: str, document: str, *, accepted: bool, reason: str, statement: str) -> None:
        """Note what became of one statement of a model."""
        with self._writing() as book:
            book.execute(
                "INSERT INTO verdicts (at, role, model, document, accepted, reason, statement) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (self._now(), role, model, document, int(accepted), reason, statement[:500]),
            )

    def spending(self) -> list[Spent]:
        """Everything, summed by role, model and document, the dearest first."""
        with self._writing() as book:
            rows = book.execute(
                "SELECT role, model, document, COUNT(*), SUM(input_tokens), SUM(output_tokens), SUM(micros), "
                "SUM(state <> 'settled') FROM spent GROUP BY role, model, document "
                "ORDER BY SUM(micros) DESC, SUM(input_tokens + output_tokens) DESC, document"
            ).fetchall()
        return [Spent(*row) for row in rows]

    def verdicts(self) -> list[Told]:
        """How many statements each model got accepted, and how many rejected, by reason."""
        with self._writing() as book:
            rows = book.execute(
                "SELECT model, accepted, reason, COUNT(*) FROM verdicts GROUP BY model, accepted, reason "
                "ORDER BY model, accepted DESC, COUNT(*) DESC, reason"
            ).fetchall()
        return [Told(*row) for row in rows]

    def rejected(self, limit: int) -> list[Rejected]:
        """The statements that were rejected, the newest first."""
        with self._writing() as book:
            rows = book.execute(
                "SELECT role, model, document, reason, statement FROM verdicts WHERE NOT accepted "
                "ORDER BY id DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return [Rejected(*row) for row in rows]

    def close(self) -> None:
        """Close the file; what follows opens it again."""
        with self._lock:
            if self._book is not None and self._path != ":memory:":
                self._book.close()
                self._book = None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that no other thread or process can interleave with."""
        with self._lock:
            if self._book is None:
                self._book = sqlite3.connect(self._path, timeout=WAIT, isolation_level=None, check_same_thread=False)
                weakref.finalize(self, self._book.close)  # also where nobody closes it
                self._book.execute("PRAGMA journal_mode = WAL")
                self._book.execute("PRAGMA synchronous = NORMAL")
                self._book.executescript(_SCHEMA)
            book = self._book
            book.execute("BEGIN IMMEDIATE")
            try:
                yield book
            except BaseException:
                book.execute("ROLLBACK")
                raise
            book.execute("COMMIT")


def cost(model: Model, input_tokens: int, output_tokens: int) -> int:
    """Money in millionths, rounded up; a price is per million tokens, so one token costs that many millionths."""
    exact = input_tokens * model.input_price + output_tokens * model.output_price
    return int(-(-exact // 1))


def _sums(book: sqlite3.Connection, since: float, run: str | None) -> tuple[int, int]:
    query = "SELECT COALESCE(SUM(input_tokens + output_tokens), 0), COALESCE(SUM(micros), 0) FROM spent WHERE at >= ?"
    if run is None:
        row = book.execute(query, (since,)).fetchone()
    else:
        row = book.execute(f"{query} AND run = ?", (since, run)).fetchone()
    return int(row[0]), int(row[1])
