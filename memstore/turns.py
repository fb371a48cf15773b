"""What the harness answers: at the start of a session, at a tool call, and before a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instar.memstore.faults import Fault
from instar.memstore.pages import Level
from instar.memstore.writes import Rejection


@dataclass(frozen=True, slots=True)
class SessionStart:
    """What a session begins with."""

    pages: int
    resumed: bool
    recovered: Mapping[str, int]
    """Pages that a process before this one had staged and not committed; they are committed now."""
    lost: tuple[Rejection, ...]
    """Staged entries that could not be committed any more; their values are in the journal."""


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A call that was noted. `earlier` is the page of a successful call of the same signature, if there was one."""

    page_id: str
    earlier: str | None = None
    resident: bool = False
    """Whether the earlier result is in the context, so that the call need not be made."""


@dataclass(frozen=True, slots=True)
class Context:
    """What goes to the model this turn."""

    turn: int
    text: str
    levels: Mapping[str, Level]
    tokens: int
    faults: tuple[Fault, ...]
    recalled: Mapping[str, Level]
    """Pages of other sessions that are in the text as well, each in a frame that says so."""
