"""The door: redacts what comes in, checks its shape, makes its representations. Knows nothing of what is stored."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pydantic import JsonValue

from instar.memstore.pages import PageDraft, Provenance, canonical, parsed_fields
from instar.memstore.redaction import Finding, Redactor, redact_fields, spotless
from instar.memstore.represent import Representer, Subject
from instar.memstore.writes import Change, Entry, Limits, Op, ReasonCode, Rejection

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+=~-]{0,199}\Z")
_KIND = re.compile(r"[a-z][a-z0-9_.-]{0,63}\Z")
_TAG = 200
_SHOWN = 120


class _Unfit(Exception):
    """Carries a reason from the place that found it to the entry."""

    def __init__(self, code: ReasonCode, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(code, detail)


@dataclass(slots=True)
class Door:
    """Turns drafts into entries. What it lets pass holds no known secret and has the right shape."""

    scope: str
    redactor: Redactor
    representer: Representer
    limits: Limits
    findings: list[Finding] = field(default_factory=list)

    def append(self, page_id: str, draft: PageDraft, *, generated: bool) -> Entry:
        """An entry that makes a page."""
        try:
            origin = draft.provenance
            names = {"id": page_id, "kind": draft.kind}
            if draft.parent is not None:
                names["parent"] = draft.parent
            if draft.session is not None:
                names["session"] = draft.session
            spotless = self._spotless(
                draft.content, *names.values(), draft.text, origin.source, *draft.tags, *origin.references
            )
            self._check_names(spotless, names)
            content, content_json = self._content(spotless, page_id, draft.content)
            text = self._text(spotless, page_id, draft.text)
            self._check_size(content_json, text)
            _check_times(draft.created_at, draft.expires_at)
            _check_importance(draft.importance)
            if text is not draft.text or draft.tags or origin.source or origin.references:
                tags = self._tags(spotless, page_id, draft.tags)
                draft = replace(draft, text=text, tags=tags, provenance=self._provenance(spotless, page_id, origin))
            subject = subject_of(page_id, 1, self.scope, draft, content)
            if problem := self.representer.unfit(subject):
                raise _Unfit(ReasonCode.SCHEMA, problem)
            forms = self.representer.represent(subject, content_json)
        except _Unfit as unfit:
            return self._rejected(page_id, Op.APPEND, unfit)
        return Entry(Op.APPEND, page_id, content, content_json, text, draft=draft, forms=forms, generated=generated)

    def change(
        self,
        op: Op,
        page_id: str,
        *,
        content: Mapping[str, JsonValue],
        text: str | None,
        base: int,
        change: Change,
        drop: Sequence[str] = (),
    ) -> Entry:
        """An entry that changes a page."""
        try:
            spotless = self._spotless(content, page_id, text or "", *(change.tags or ()), *change.references)
            self._check_names(spotless, {"id": page_id})
            fields, content_json = self._content(spotless, page_id, content)
            clean = None if text is None else self._text(spotless, page_id, text)
            self._check_size(content_json, clean or "")
            _check_times(None, change.expires_at)
            if change.importance is not None:
                _check_importance(change.importance)
            tags = None if change.tags is None else self._tags(spotless, page_id, change.tags)
            references = self._provenance(spotless, page_id, Provenance("", change.references)).references
            change = replace(change, tags=tags, references=references)
        except _Unfit as unfit:
            return self._rejected(page_id, op, unfit)
        return Entry(op, page_id, fields, content_json, clean, base=base, change=change, drop=frozenset(drop))

    def _spotless(self, content: Mapping[str, JsonValue], *texts: str) -> bool:
        """One quick look at everything together. What has not even the right shape is looked at part by part."""
        try:
            return spotless(self.redactor, content, *texts)
        except (TypeError, ValueError, AttributeError, RecursionError):
            return False

    def _rejected(self, page_id: str, op: Op, unfit: _Unfit) -> Entry:
        shown = self.redactor.redact(str(page_id)[:_SHOWN]).text
        return Entry(op, shown, problem=Rejection(shown, op, unfit.code, unfit.detail))

    def _check_names(self, spotless: bool, names: Mapping[str, str]) -> None:
        for what, name in names.items():
            if not isinstance(name, str) or not (_KIND if what == "kind" else _ID).match(name):
                raise _Unfit(ReasonCode.SCHEMA, f"not a well-formed {what}")
            if not spotless and (found := self.redactor.redact(name).findings):
                raise _Unfit(ReasonCode.SECRET, f"the {what} holds a secret of kind {found[0].kind}")

    def _content(
        self, spotless: bool, page_id: str, content: Mapping[str, JsonValue]
    ) -> tuple[Mapping[str, JsonValue], str]:
        found: list[Finding] = []
        if not isinstance(content, dict):
            if not isinstance(content, Mapping):
                raise _Unfit(ReasonCode.SCHEMA, "the content is no mapping")
            content = dict(content)
        try:
            if not spotless:
                content, found = redact_fields(self.redactor, content, f"{page_id}.content")
            text = canonical(content)
            _size(text)  # half a character cannot be encoded
            # What is read back is what JSON says, not what the caller happened to pass.
            fields = parsed_fields(text)
        except RecursionError as error:
            raise _Unfit(ReasonCode.SCHEMA, "the content is nested too deeply") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise _Unfit(ReasonCode.SCHEMA, f"the content is not JSON: {type(error).__name__}") from error
        self.findings += found
        return fields, text

    def _text(self, spotless: bool, page_id: str, text: str) -> str:
        if not isinstance(text, str):
            raise _Unfit(ReasonCode.SCHEMA, "the text is not a string")
        if not text:
            return text
        try:
            _size(text)
        except UnicodeEncodeError as error:
            raise _Unfit(ReasonCode.SCHEMA, f"the text holds half a character at {error.start}") from error
        if spotless:
            return text
        redacted = self.redactor.redact(text, f"{page_id}.text")
        self.findings += redacted.findings
        return redacted.text

    def _check_size(self, content_json: str, text: str) -> None:
        size = _size(content_json) + _size(text)
        if size > self.limits.page_bytes:
            raise _Unfit(ReasonCode.TOO_LARGE, f"{size} bytes, the limit is {self.limits.page_bytes}")

    def _tags(self, spotless: bool, page_id: str, tags: Sequence[str]) -> tuple[str, ...]:
        if isinstance(tags, str) or not all(isinstance(tag, str) and 0 < len(tag) <= _TAG for tag in tags):
            raise _Unfit(ReasonCode.SCHEMA, f"tags are strings of 1 to {_TAG} characters")
        if len(tags) > self.limits.tags:
            raise _Unfit(ReasonCode.TOO_LARGE, f"{len(tags)} tags, the limit is {self.limits.tags}")
        if not all(tag.isprintable() for tag in tags):
            raise _Unfit(ReasonCode.SCHEMA, "a tag holds a control character")
        if not tags:
            return ()
        return tuple(dict.fromkeys(self._text(spotless, page_id, tag) for tag in tags))

    def _provenance(self, spotless: bool, page_id: str, provenance: Provenance) -> Provenance:
        if len(provenance.references) > self.limits.references:
            detail = f"{len(provenance.references)} references, the limit is {self.limits.references}"
            raise _Unfit(ReasonCode.TOO_LARGE, detail)
        for reference in provenance.references:
            if not isinstance(reference, str) or not _ID.match(reference):
                raise _Unfit(ReasonCode.PROVENANCE, "a reference is not a page id")
        references = tuple(dict.fromkeys(provenance.references))
        if not spotless and any(self.redactor.redact(reference).findings for reference in references):
            raise _Unfit(ReasonCode.SECRET, "a reference holds a secret")
        return Provenance(self._text(spotless, page_id, provenance.source), references)


def subject_of(page_id: str, version: int, scope: str, draft: PageDraft, content: Mapping[str, JsonValue]) -> Subject:
    """What the representations of a draft are made of."""
    created = draft.created_at.isoformat(timespec="seconds") if draft.created_at else ""
    return Subject(page_id, version, draft.kind, draft.type, scope, draft.state, content, draft.text, created)


def _size(text: str) -> int:
    """UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode())


def _check_times(*times: datetime | None) -> None:
    for time in times:
        if time is None:
            continue
        if not isinstance(time, datetime) or time.utcoffset() is None:
            raise _Unfit(ReasonCode.SCHEMA, "a time needs a time zone")
        try:
            time.astimezone(UTC)
        except OverflowError:  # at the edge of the calendar a zone leads out of it: it could not be read back
            raise _Unfit(ReasonCode.SCHEMA, "a time lies outside of the years 1 to 9999 in UTC") from None


def _check_importance(importance: float) -> None:
    if not isinstance(importance, (int, float)) or not math.isfinite(importance) or not 0 <= importance <= 1:
        raise _Unfit(ReasonCode.SCHEMA, "importance lies between 0 and 1")
