"""Per-tool templates: which fields of a call are key, what makes its result valid, how long it stays true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import JsonValue

from instar.memstore.fields import lacking, pick
from instar.memstore.represent import BriefFields, Subject

_BRIEF = 120
_SEEN_IN = 0.9
"""A field is key when it is in this share of the results."""


@dataclass(frozen=True, slots=True)
class ToolTemplate:
    """What is known of one tool. Paths name fields of the arguments and of the result: "user.id", "items.0.sku"."""

    tool: str
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    """Without these the result is not what the tool promises."""
    fresh_for: timedelta | None = None
    """After this time the result is no longer taken for true; None: it stays true."""

    def problem(self, value: JsonValue) -> str:
        """Why a result is not valid; empty when it is."""
        missing = lacking(value, self.required)
        return f"the result {missing}" if missing else ""


@dataclass(frozen=True, slots=True)
class Templates:
    """Templates by tool. As `KeyFields` they decide what survives of a page in its structured form."""

    by_tool: Mapping[str, ToolTemplate] = field(default_factory=dict)

    def of(self, tool: str) -> ToolTemplate:
        """The template of a tool; an empty one where none is known."""
        return self.by_tool.get(tool, ToolTemplate(tool))

    def unfit(self, subject: Subject) -> str:
        """Every page fits: whether a result is valid is a matter of its state, not of its being kept."""
        return ""

    def chosen(self, subject: Subject) -> bool:
        """Whether a template names the fields of this page."""
        tool = subject.content.get("tool")
        return isinstance(tool, str) and tool in self.by_tool

    def key_fields(self, subject: Subject) -> Mapping[str, JsonValue]:
        """The key fields of a tool's page, every short field of others."""
        if not self.chosen(subject):
            return BriefFields().key_fields(subject)
        template = self.by_tool[str(subject.content["tool"])]
        kept = {name: subject.content[name] for name in ("tool", "status", "error") if name in subject.content}
        for name, paths in (("arguments", template.arguments), ("value", template.result)):
            if found := pick(subject.content.get(name), paths):
                kept[name] = found
        return kept


def infer_template(tool: str, arguments: Sequence[JsonValue], results: Sequence[JsonValue]) -> ToolTemplate:
    """A template from recorded calls: short fields that are nearly always there are key."""
    return ToolTemplate(
        tool,
        arguments=tuple(_common(arguments, _SEEN_IN)),
        result=tuple(_common(results, _SEEN_IN)),
        required=tuple(_common(results, 1.0)) if len(results) >= 3 else (),
    )


def _common(values: Sequence[JsonValue], share: float) -> list[str]:
    counts: dict[str, int] = {}
    for value in values:
        if isinstance(value, dict):
            for name, item in value.items():
                if "." not in name and _is_brief(item):
                    counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count >= share * len(values)]


def _is_brief(value: JsonValue) -> bool:
    return isinstance(value, (int, float, bool)) or (isinstance(value, str) and len(value) <= _BRIEF)
