"""Errors of the model engine.

ModelError (an EngineError)   nothing was judged, and nothing is lost: the work is left for later
├─ NotConfigured              no endpoint is named for a role
├─ EndpointFailed             the server could not be reached, or went on refusing, stalling or failing
├─ Unusable                   it answered, and nothing in the answer could be used
├─ BudgetSpent                the next call might exceed a cap; the run ends with what it has
├─ NotRecorded                a replay needs a completion that the recording lacks
└─ AnswerAwaited              in handoff mode: the prompt is written, the answer is not there yet
"""

from __future__ import annotations

from functools import partial

from instar.engine.errors import Deferred, EngineError


class ModelError(EngineError):
    """A model could not be asked, or gave nothing that can be used."""


class NotConfigured(ModelError):
    """No endpoint is named for a role."""

    def __init__(self, role: str, missing: str) -> None:
        self.role, self.missing = role, missing
        super().__init__(role, missing)

    def __str__(self) -> str:
        return f"no model for {self.role!r}: {self.missing}"


class EndpointFailed(ModelError, Deferred):
    """The server gave no answer. `reason` is one line, `attempts` how often it was asked.

    `stops` is False where it refused this one request, so that another may be answered.
    """

    def __init__(self, endpoint: str, reason: str, attempts: int, *, stops: bool = True) -> None:
        self.endpoint, self.reason, self.attempts, self.stops = endpoint, reason, attempts, stops
        super().__init__(endpoint, reason, attempts)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(EndpointFailed, stops=self.stops), self.args

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return f"{self.endpoint} (asked {times}): {self.reason}"


class Unusable(ModelError):
    """The model answered, but not what was asked for. `reason` is one line for a person."""

    def __init__(self, role: str, model: str, reason: str) -> None:
        self.role, self.model, self.reason = role, model, reason
        super().__init__(role, model, reason)

    def __str__(self) -> str:
        return f"{self.model} as {self.role!r}: {self.reason}"


class BudgetSpent(ModelError, Deferred):
    """A call was not made, because it might have exceeded a cap."""

    stops = True

    def __init__(self, cap: str, limit: str, spent: str) -> None:
        self.cap, self.limit, self.spent = cap, limit, spent
        super().__init__(cap, limit, spent)

    def __str__(self) -> str:
        return f"the budget of {self.limit} {self.cap} would be exceeded: {self.spent} spent or reserved"


class NotRecorded(ModelError):
    """A replay came to a request whose completion was not recorded."""

    def __init__(self, folder: str, role: str, key: str) -> None:
        self.folder, self.role, self.key = folder, role, key
        super().__init__(folder, role, key)

    def __str__(self) -> str:
        return (
            f"{self.folder}: no completion {self.key} for {self.role!r}; record with the same sessions and settings"
        )


class AnswerAwaited(ModelError, Deferred):
    """The prompt lies in a file and waits for its answer."""

    def __init__(self, prompt: str, answer: str) -> None:
        self.prompt, self.answer = prompt, answer
        super().__init__(prompt, answer)

    def __str__(self) -> str:
        return f"{self.prompt} waits for its answer in {self.answer}"
