"""What reading yields: sessions, and everything that was left out with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from instar.engine.session import Session

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """Bounds that hold for every source; what exceeds one is skipped by name, never cut silently.

    `value_bytes` bounds one JSON value (a line of JSON Lines, an element of an array, a whole document), and with it
    the memory that reading takes: some six times as much for text, thirty times for content made to hurt (500 MB at
    the default). `session_bytes` bounds one session where it is spread over the lines of a log. `expanded_bytes`
    bounds what one named file may hold once decompressed. `depth` bounds the nesting of tool arguments and results.
    """

    value_bytes: int = 16 * MIB
    session_bytes: int = 128 * MIB
    expanded_bytes: int = 8 * 1024 * MIB
    depth: int = 64


@dataclass(frozen=True, slots=True)
class Imported:
    """One session, and where it was found: `position` is for example "line 12" or "entry 3"."""

    session: Session
    source: Path
    position: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was found and not imported."""

    source: Path
    position: str
    reason: str
