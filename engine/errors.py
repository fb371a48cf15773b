"""The one error that every engine may raise.

EngineError    the engine cannot do what it was asked; nothing was judged, so it is never a rejection
"""

from __future__ import annotations


class EngineError(Exception):
    """The engine cannot do what it was asked. `str()` says why in one line."""
