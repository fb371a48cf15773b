"""Reads `codex`: the rollout files of Codex, `$CODEX_HOME/sessions/*/*/*/rollout-*.jsonl`.

Read are the `response_item` records, which are what the model saw; `event_msg` records repeat them for the screen.
Records of the first versions, without an envelope, are read too. Calls with nothing between them are one turn. A
shell's exit code is what the harness writes above or beside its output. `codex exec` runs are headless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from pydantic import JsonValue

from instar.engine.importers.chat import content_text
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, moment, parse, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, folder_name, read_log
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Origin, Speaker

_ENVELOPES = frozenset({"session_meta", "response_item", "turn_context", "event_msg", "compacted", "world_state"})
_IGNORED = _ENVELOPES | {"inter_agent_communication_metadata", "error"}
_IGNORED_ITEMS = frozenset({"reasoning", "ghost_snapshot", "agent_message", "compaction", "other"})
_CALLS = frozenset({"function_call", "custom_tool_call", "tool_call", "tool_search_call", "local_shell_call"})
_ALONE = frozenset({"web_search_call", "image_generation_call"})
_RESULTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "tool_result", "function_result", "tool_search_output"}
)
_SPEAKERS = {
    "user": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
}
_NOT_THE_USERS = ("<environment_context>", "<turn_aborted>", "<user_instructions>", "# AGENTS.md instructions for")
_REFUSED = ("exec command rejected by user", "patch rejected by user", "aborted by user")
_EXIT_CODE = re.compile(
    r"(?:Chunk ID: [^\n]{0,80}\n)?(?:Wall time: [^\n]{0,80}\n)?"
    r"(?:Exit code: |Process exited with code )(-?\d{1,10})\n"
)


class Codex:
    """The reader of `codex`."""

    name = "codex"

    def recognises(self, value: JsonValue) -> bool:
        """A record in its envelope, or a message of the first versions with its time."""
        record = mapping(value)
        if text_field(record, "type") in _ENVELOPES and isinstance(record.get("payload"), dict):
            return True
        timed = "timestamp" in record or "created_at" in record
        return timed and record.get("role") in ("user", "assistant") and ("content" in record or "message" in record)

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per file."""
        return read_log(values, member, context, name=self.name, handle=_handle)


def _handle(record: Record, transcript: Transcript, heading: Heading) -> bool:
    kind = text_field(record, "type")
    at = moment(record.get("timestamp", record.get("created_at")))
    payload = mapping(record.get("payload"))
    if kind == "session_meta":
        _read_meta(payload, heading)
    elif kind == "turn_context":
        heading.project = heading.project or folder_name(text_field(payload, "cwd"))
    elif kind == "response_item":
        return _read_item(payload, transcript, heading, at)
    elif kind not in _IGNORED:
        return _read_item(record, transcript, heading, at)
    return True


def _read_meta(payload: Record, heading: Heading) -> None:
    if heading.key:  # a forked session repeats where it comes from
        return
    heading.key = text_field(payload, "id", "session_id")
    heading.project = folder_name(text_field(payload, "cwd"))
    heading.started_at = moment(payload.get("timestamp"))
    source = payload.get("source")
    if isinstance(source, dict) or payload.get("thread_source") == "subagent":
        heading.origin = Origin.SUBAGENT
    elif source == "exec" or text_field(payload, "originator") == "codex_exec":
        heading.origin = Origin.HEADLESS


def _read_item(item: Record, transcript: Transcript, heading: Heading, at: datetime | None) -> bool:
    kind = text_field(item, "type") or "message"
    recorded_id = text_field(item, "call_id")
    if kind in _CALLS or kind in _ALONE:
        function = mapping(item.get("function"))
        name = text_field(item, "name") or text_field(function, "name") or kind.removesuffix("_call")
        arguments = next((item[key] for key in ("arguments", "input", "action") if key in item), None)
        transcript.call(name, arguments, turn=heading.next_call(), recorded_id=recorded_id, at=at)
        return True
    if kind in _IGNORED_ITEMS:
        return True
    heading.calling = False
    if kind in _RESULTS:
        output = next((item[key] for key in ("output", "result", "tools") if key in item), None)
        value, flag = _result(output)
        refused = isinstance(value, str) and value.startswith(_REFUSED)
        name = text_field(item, "name")
        transcript.answer(value, recorded_id=recorded_id, tool=name, flag=flag, refused=refused, at=at)
        return True
    role = text_field(item, "role")
    if kind != "message" or role not in _SPEAKERS:
        return False
    text = content_text(item.get("content", item.get("message")))
    speaker = Speaker.SYSTEM if text.lstrip().startswith(_NOT_THE_USERS) else _SPEAKERS[role]
    transcript.say(speaker, text, at)
    return True


def _result(output: JsonValue) -> tuple[JsonValue, bool | None]:
    """The result, and whether its exit code says that it failed; None where there is no exit code."""
    if isinstance(output, list | dict) and (text := _texts(output)) is not None:
        output = text
    if isinstance(output, str):
        if header := _EXIT_CODE.match(output):
            return output, int(header.group(1)) != 0
        try:
            record = mapping(parse(output))
        except MalformedRecord:
            return output, None
        code = mapping(record.get("metadata")).get("exit_code")
        return (record.get("output", output), code != 0) if isinstance(code, int) else (output, None)
    code = mapping(output).get("exitCode", mapping(output).get("exit_code"))
    return output, code != 0 if isinstance(code, int) else None


def _texts(output: JsonValue) -> str | None:
    """The text of an output that is made of content items."""
    items = [mapping(item) for item in (output if isinstance(output, list) else [output])]
    if items and all(text_field(item, "type").endswith(("text", "image")) for item in items):
        return content_text(list(items))
    return None
