"""The errors that every engine may raise.

EngineError    the engine cannot do what it was asked; nothing was judged, so it is never a rejection
└─ Deferred    not now: the same call later may succeed; nothing was stored and nothing is lost
"""

from __future__ import annotations


class EngineError(Exception):
    """The engine cannot do what it was asked. `str()` says why in one line."""


class Deferred(EngineError):
    """What was asked is left for later. `stops`: nothing else can be done now either, so that a run may end here."""

    stops = False
