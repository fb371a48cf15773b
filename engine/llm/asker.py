"""Asks a role: renders its prompt, chooses its model, spends its budget, and notes what became of each statement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from instar.engine.compiler.phrases import Language
from instar.engine.llm.answers import ask, schema_of
from instar.engine.llm.completions import Cached, Folder, Handoff, Replay
from instar.engine.llm.config import Limiter, Model, ModelSettings, Role, model_for
from instar.engine.llm.endpoint import Endpoint
from instar.engine.llm.errors import Unusable
from instar.engine.llm.ledger import Ledger
from instar.engine.llm.requests import Completer, Request
from instar.memstore.tokens import count_tokens
from instar.prompts import render, source, version

DATA = "---- data ----"
"""The line of a prompt after which everything is data."""
RESERVE = 0.9
"""Share of a model's context that is used: token counts of other vocabularies differ."""
RULES = 400
"""Tokens of the part that every prompt includes."""
LEAST_DATA = 400
"""Tokens for data without which asking makes no sense."""

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Places:
    """Where completions come from and go to. At most one of `replay` and `handoff` is given."""

    cache: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    handoff: Path | None = None

    @property
    def offline(self) -> bool:
        """Whether no endpoint is ever asked."""
        return self.replay is not None or self.handoff is not None


@dataclass(slots=True)
class Asker:
    """One engine's access to models. `run` is what the caps of a run are counted for."""

    settings: ModelSettings
    ledger: Ledger
    places: Places = Places()
    run: str = ""
    language: Language = "en"
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    limiter: Limiter = nullcontext
    sleep: Callable[[float], None] = time.sleep
    _completers: dict[Role, Completer] = field(default_factory=dict, repr=False)
    _endpoints: list[Endpoint] = field(default_factory=list, repr=False)

    def model(self, role: Role) -> Model:
        """The model of a role.

        Raises:
            NotConfigured: it has none.
        """
        return model_for(self.settings, role, self.environment, offline=self.places.offline)

    def room(self, role: Role, prompt: str) -> int:
        """Tokens that the data of a prompt may take."""
        model = self.model(role)
        words = count_tokens(source(prompt)) + RULES
        return max(LEAST_DATA, int(RESERVE * model.context_tokens) - words - model.output_tokens - LEAST_DATA)

    def ask(
        self,
        role: Role,
        prompt: str,
        shape: type[Answer],
        *,
        document: str,
        language: Language | None = None,
        **values: object,
    ) -> Answer:
        """Render a prompt, ask the role, and return the answer in its shape.

        Raises:
            ModelError: there is no usable answer; see its subclasses.
        """
        model = self.model(role)
        system, _, user = render(prompt, language=language or self.language, **values).partition(f"\n{DATA}\n")
        request = Request(
            role=role,
            model=model.name,
            prompt=self.made_by(role, prompt),
            document=document,
            system=system.strip(),
            user=f"{user.strip()}\n\nAnswer with one JSON object.",
            shape=shape.__name__.lower(),
            schema=schema_of(shape),
            output_tokens=model.output_tokens,
        )
        try:
            return ask(self._completer(role), request, shape)
        except Unusable as unusable:
            self.note(role, document, reason=unusable.reason, statement="")
            raise

    def made_by(self, role: Role, prompt: str) -> str:
        """What a document says about its origin: the model, and the prompt with its version."""
        return f"{self.model(role).name} with {prompt.removesuffix('.md.j2')}@{version(prompt)}"

    def note(self, role: Role, document: str, *, reason: str, statement: str) -> None:
        """Count one statement as accepted, or with a reason as rejected."""
        self.ledger.judged(
            self.model(role).name, role, document, accepted=not reason, reason=reason, statement=statement
        )

    def close(self) -> None:
        """Close every connection, and the ledger's file."""
        for endpoint in self._endpoints:
            endpoint.close()
        self._endpoints.clear()
        self._completers.clear()
        self.ledger.close()

    def _completer(self, role: Role) -> Completer:
        if role not in self._completers:
            self._completers[role] = self._opened(role)
        return self._completers[role]

    def _opened(self, role: Role) -> Completer:
        if self.places.replay is not None:
            return Replay(Folder(self.places.replay))
        if self.places.handoff is not None:
            return Handoff(self.places.handoff)
        endpoint = Endpoint(
            self.model(role), self.settings, self.ledger, self.run, limiter=self.limiter, sleep=self.sleep
        )
        self._endpoints.append(endpoint)
        if self.places.cache is None and self.places.record is None:
            return endpoint
        recording = Folder(self.places.record) if self.places.record else None
        folder = Folder(self.places.cache) if self.places.cache else recording
        assert folder is not None  # noqa: S101 — one of the two is given, see above
        return Cached(endpoint, folder, recording)
