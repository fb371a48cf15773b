"""The seam for formats: one reader each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from instar.engine.importers.companions import Companions
from instar.engine.importers.records import Imported, ImportLimits, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.values import Value


@dataclass(frozen=True, slots=True)
class Context:
    """What a reader may know beside the values of its file."""

    limits: ImportLimits = field(default_factory=ImportLimits)
    companions: Companions = field(default_factory=Companions)


class Reader(Protocol):
    """Reads one format. An instance lives for one `read_sources` call and may keep what spans files."""

    name: str

    def recognises(self, value: JsonValue) -> bool:
        """Whether a value, one of the first of a file, can only be of this format."""
        ...

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """Yield the sessions of one file, and what of it had to be left out."""
        ...


@runtime_checkable
class SpanningReader(Reader, Protocol):
    """A reader of sessions that may be spread over files."""

    def finish(self) -> Iterator[Imported | Skipped]:
        """Yield what waited for other files and is complete as far as it ever will be."""
        ...
