"""Content blocks as Anthropic's messages have them, and as other agents write them with names of their own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.jsontext import mapping, sequence, text_field
from instar.engine.importers.transcript import Transcript
from instar.engine.session import Speaker

_CALLS = frozenset({"tool_use", "tool_call", "toolCall", "tool-use", "tool-call"})
_RESULTS = frozenset({"tool_result", "toolResult", "tool-result"})
_SILENT = frozenset({"thinking", "redacted_thinking", "reasoning", "think"})
_MEDIA = frozenset({"image", "document", "file", "audio"})
_TEXTS = frozenset({"text", "input_text", "output_text"})


@dataclass(frozen=True, slots=True)
class Said:
    """The message that blocks are part of.

    `flagged` says that the format marks every failed result, so that a result without a mark did not fail.
    """

    speaker: Speaker
    turn: str
    at: datetime | None = None
    flagged: bool = False
    failed: bool = False
    refused: bool = False


def read_blocks(content: JsonValue, said: Said, transcript: Transcript) -> None:
    """Add a message: text as it is, calls and results as such; thinking is left out.

    A block of an unknown type is counted in the transcript, and kept as text where it has some.

    Raises:
        MalformedRecord: a call has no name, or holds values beyond the limits.
    """
    if isinstance(content, str):
        transcript.say(said.speaker, content, said.at)
    for item in sequence(content):
        block: dict[str, JsonValue] = {"type": "text", "text": item} if isinstance(item, str) else mapping(item)
        _read_block(block, said, transcript)


def _read_block(block: dict[str, JsonValue], said: Said, transcript: Transcript) -> None:
    kind = text_field(block, "type")
    if kind in _TEXTS:
        transcript.say(said.speaker, text_field(block, "text"), said.at)
    elif kind in _CALLS:
        arguments = next((block[name] for name in ("input", "arguments", "args") if name in block), None)
        call_id = text_field(block, "id", "tool_use_id", "toolCallId")
        transcript.call(text_field(block, "name"), arguments, turn=said.turn, recorded_id=call_id, at=said.at)
    elif kind in _RESULTS:
        transcript.answer(
            content_text(block.get("content")),
            recorded_id=text_field(block, "tool_use_id", "toolCallId", "id"),
            tool=text_field(block, "name"),
            flag=_flag(block, said),
            refused=said.refused,
            at=said.at,
        )
    elif kind in _MEDIA:
        transcript.say(said.speaker, f"[{kind}]", said.at)
    elif kind not in _SILENT:
        transcript.left_out[f"content blocks of the unknown type {kind[:80]!r}: the format has drifted"] += 1
        transcript.say(said.speaker, text_field(block, "text"), said.at)


def _flag(block: dict[str, JsonValue], said: Said) -> bool | None:
    for name in ("is_error", "isError"):
        stated = block.get(name)
        if isinstance(stated, bool):
            return stated or said.failed
    return said.failed if said.flagged or said.failed else None
