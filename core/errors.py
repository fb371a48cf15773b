"""Errors that a user meets, each with what happened, the remedy and an exit code.

InstarError
├── SourceMissing        a path, file or setting that was named does not exist or cannot be used
├── PartMissing          an engine, sandbox or server that the work needs is not there: nothing was evaluated
├── NotFound             no page, review, skill or line of that name
├── ReviewRefused        the decision does not apply: not allowed, incomplete, needs confirmation
│   ├── ReviewStale      what would be decided is not what is stored
│   └── AlreadyDecided   someone, or time, was first
├── NightFailed          a night was given up; the next one looks at what it should have looked at
├── NightRunning         another night of this home runs
└── NotEvaluated         the work ended without a verdict; never to be read as a rejection
"""

from __future__ import annotations

from typing import ClassVar


class InstarError(Exception):
    """What happened, what to do about it. `str()` is one line for a person."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        self.message, self.remedy = message, remedy
        super().__init__(message, remedy)

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message


class SourceMissing(InstarError):
    """A path, file or setting that was named does not exist or cannot be used."""

    exit_code = 3


class PartMissing(InstarError):
    """An engine, sandbox or server that the work needs is not there; nothing was evaluated."""

    exit_code = 3


class NotFound(InstarError):
    """There is no page, review, skill or line of that name."""

    exit_code = 1


class ReviewRefused(InstarError):
    """The decision does not apply: it is stale, already taken, not allowed, or needs a confirmation."""

    exit_code = 5


class ReviewStale(ReviewRefused):
    """What would be decided about is not what is stored; a new review is needed."""


class AlreadyDecided(ReviewRefused):
    """Someone, or time, was first; the message says who and what."""


class NotEvaluated(InstarError):
    """The work ended without a verdict; never to be read as a rejection."""

    exit_code = 3


class NightFailed(InstarError):
    """A night was given up; what it should have looked at belongs to the next one."""

    exit_code = 3


class NightRunning(InstarError):
    """Another night of this home runs; there is only one at a time."""

    exit_code = 5
