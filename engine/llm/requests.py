"""What is asked of a model and what it answered, as plain values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from instar.engine.llm.config import Role
from instar.memstore.redaction import redact
from instar.memstore.tokens import count_tokens

OVERHEAD = 24
"""Tokens that a server adds around the messages, at most; a quarter more is for other vocabularies."""


def shape_in_words(schema: dict[str, JsonValue]) -> str:
    """The sentence that tells a model the shape where its server cannot."""
    return f"The answer has this JSON Schema: {json.dumps(schema, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class Request:
    """One question. `system` holds our words only; `user` holds the data, delimited."""

    role: Role
    model: str
    prompt: str
    """Template and version that it was written with: `model_distill.md.j2@1a2b3c`."""
    document: str
    """The page that it is about; what is spent is counted for it."""
    system: str
    user: str
    shape: str
    """Name of the schema."""
    schema: dict[str, JsonValue]
    output_tokens: int

    @property
    def key(self) -> str:
        """A hash over everything that can change the answer."""
        parts = [self.model, self.system, self.user, self.shape, self.schema, self.output_tokens]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    @property
    def input_tokens(self) -> int:
        """An upper estimate of what the server will count."""
        text = count_tokens(self.system) + count_tokens(self.user) + count_tokens(json.dumps(self.schema))
        return text + text // 4 + OVERHEAD

    def redacted(self) -> Request:
        """The request without secrets, whatever the data held."""
        return replace(self, system=redact(self.system).text, user=redact(self.user).text)


class Completion(BaseModel):
    """One answer, as text that nobody has looked at yet."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    model: str
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    estimated: bool = False
    """Whether the server did not say how many tokens it counted."""


class Completer(Protocol):
    """Answers requests."""

    def complete(self, request: Request) -> Completion:
        """Answer.

        Raises:
            ModelError: there is no answer; see its subclasses.
        """
        ...
