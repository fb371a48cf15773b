"""Schemas of kinds: what a page of a kind must hold, and what of it survives when it shrinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from instar.memstore.fields import lacking, pick
from instar.memstore.pages import ERASED
from instar.memstore.represent import BriefFields, Subject
from instar.memstore.templates import Templates


@dataclass(frozen=True, slots=True)
class KindSchema:
    """What is known of one kind. Paths name fields of the content: "goal", "steps.0.name"."""

    key: tuple[str, ...] = ()
    """These satisfy the kind's invariant: they are its structured form. Without any, all short fields are."""
    required: tuple[str, ...] = ()
    """Without these it is no page of this kind."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """Schemas by kind. As `KeyFields` they decide, with the templates of tools, what survives of a page."""

    by_kind: Mapping[str, KindSchema] = field(default_factory=dict)
    templates: Templates = field(default_factory=Templates)
    closed: bool = False
    """Whether a kind that is not named here is refused."""

    def unfit(self, subject: Subject) -> str:
        """Why this is no page of its kind; empty when it is."""
        schema = self.by_kind.get(subject.kind)
        if schema is None:
            return f"unknown kind {subject.kind}" if self.closed else ""
        missing = "" if subject.content == {ERASED: True} else lacking(subject.content, schema.required)
        return f"a page of kind {subject.kind} {missing}" if missing else ""

    def chosen(self, subject: Subject) -> bool:
        """Whether a schema or a template names the fields of this page."""
        schema = self.by_kind.get(subject.kind)
        return bool(schema and schema.key) or self.templates.chosen(subject)

    def key_fields(self, subject: Subject) -> Mapping[str, JsonValue]:
        """What the tool's template says, or the kind's schema, or every short field."""
        if self.templates.chosen(subject):
            return self.templates.key_fields(subject)
        schema = self.by_kind.get(subject.kind)
        if schema is None or not schema.key:
            return BriefFields().key_fields(subject)
        return pick(subject.content, schema.key)
