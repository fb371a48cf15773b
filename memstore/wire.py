"""Entries as text and back: how staged entries wait on disk."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from instar.memstore.door import subject_of
from instar.memstore.pages import PageDraft, PageType, Pin, Provenance, State
from instar.memstore.represent import Representer
from instar.memstore.writes import Change, Entry, Op


def entry_to_text(entry: Entry) -> str:
    """The entry as one JSON object; representations are made again when it is read."""
    fields: dict[str, Any] = {
        "op": entry.op.value,
        "page": entry.page_id,
        "content": entry.content_json,
        "text": entry.text,
        "base": entry.base,
        "drop": sorted(entry.drop),
        "generated": entry.generated,
        "change": _change_to(entry.change),
        "draft": None if entry.draft is None else _draft_to(entry.draft),
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def page_in(text: str) -> str:
    """The page that an entry is about, from the text that `entry_to_text` wrote."""
    return str(json.loads(text)["page"])


def entry_from_text(text: str, scope: str, representer: Representer) -> Entry:
    """The entry that `entry_to_text` wrote, with its representations."""
    fields = json.loads(text)
    content_json = fields["content"]
    content = json.loads(content_json)
    draft = None if fields["draft"] is None else _draft_of(fields["draft"], content, fields["text"] or "")
    forms = None
    if draft is not None:
        forms = representer.represent(subject_of(fields["page"], 1, scope, draft, content), content_json)
    return Entry(
        op=Op(fields["op"]),
        page_id=fields["page"],
        content=content,
        content_json=content_json,
        text=fields["text"],
        draft=draft,
        forms=forms,
        base=fields["base"],
        change=_change_of(fields["change"]),
        drop=frozenset(fields["drop"]),
        generated=fields["generated"],
    )


def _change_to(change: Change) -> dict[str, Any]:
    return {
        "state": change.state,
        "pin": change.pin,
        "importance": change.importance,
        "tags": change.tags,
        "expires_at": _time_to(change.expires_at),
        "references": change.references,
    }


def _change_of(fields: dict[str, Any]) -> Change:
    return Change(
        state=None if fields["state"] is None else State(fields["state"]),
        pin=None if fields["pin"] is None else Pin(fields["pin"]),
        importance=fields["importance"],
        tags=None if fields["tags"] is None else tuple(fields["tags"]),
        expires_at=_time_of(fields["expires_at"]),
        references=tuple(fields["references"]),
    )


def _draft_to(draft: PageDraft) -> dict[str, Any]:
    return {
        "kind": draft.kind,
        "type": draft.type,
        "id": draft.id,
        "state": draft.state,
        "pin": draft.pin,
        "source": draft.provenance.source,
        "references": draft.provenance.references,
        "importance": draft.importance,
        "tags": draft.tags,
        "parent": draft.parent,
        "session": draft.session,
        "created_at": _time_to(draft.created_at),
        "expires_at": _time_to(draft.expires_at),
    }


def _draft_of(fields: dict[str, Any], content: dict[str, Any], text: str) -> PageDraft:
    return PageDraft(
        kind=fields["kind"],
        type=PageType(fields["type"]),
        content=content,
        text=text,
        id=fields["id"],
        state=State(fields["state"]),
        pin=None if fields["pin"] is None else Pin(fields["pin"]),
        provenance=Provenance(fields["source"], tuple(fields["references"])),
        importance=fields["importance"],
        tags=tuple(fields["tags"]),
        parent=fields["parent"],
        session=fields["session"],
        created_at=_time_of(fields["created_at"]),
        expires_at=_time_of(fields["expires_at"]),
    )


def _time_to(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time_of(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
