"""What the items of a conversation say, in the form of the Responses API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from instar.memstore.tokens import count_tokens

Item = Mapping[str, object]

_CALL, _OUTPUT, _REASONING = "function_call", "function_call_output", "reasoning"


def said(items: Sequence[Item]) -> list[tuple[str, str]]:
    """Who said what, in words."""
    found = []
    for item in items:
        role = item.get("role")
        if role in ("user", "assistant") and (text := _text(item.get("content"))):
            found.append((str(role), text))
    return found


def answered(items: Sequence[Item]) -> list[str]:
    """The ids of the calls whose outputs are among the items."""
    return [str(item.get("call_id")) for item in items if item.get("type") == _OUTPUT]


def costs(items: Sequence[Item]) -> list[int]:
    """Tokens of each item, about."""
    return [count_tokens(json.dumps(item, default=str, ensure_ascii=False)) for item in items]


def bound(items: Sequence[Item]) -> list[bool]:
    """Which items may not be without the one before: outputs, and calls that follow calls or the reasoning."""
    before = ["", *(str(item.get("type", "")) for item in items)]
    return [
        item.get("type") == _OUTPUT or (item.get("type") == _CALL and earlier in (_CALL, _REASONING))
        for item, earlier in zip(items, before, strict=False)
    ]


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))
