"""Reads `swe-agent`: trajectories of SWE-agent, `<instance>.traj`.

Read is the `history`, which is what the model saw. Where the model wrote commands instead of calling functions, each
is a call of the tool `shell`, and the observation that follows is its result. A demonstration at the start did not
happen in this session: it is said by the system. Only the file's name tells the instance: it is the task, and without
its number the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from instar.engine.importers.chat import content_text, read_messages
from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import mapping, sequence, text_field
from instar.engine.importers.protocol import Context
from instar.engine.importers.reading import Heading, Record, read_each
from instar.engine.importers.records import Imported, Skipped
from instar.engine.importers.streams import Member
from instar.engine.importers.transcript import Transcript
from instar.engine.importers.values import Value
from instar.engine.session import Speaker

_NUMBER = re.compile(r"-\d+$")


class SweAgent:
    """The reader of `swe-agent`."""

    name = "swe-agent"

    def recognises(self, value: JsonValue) -> bool:
        """A history of messages of a named agent."""
        history = sequence(mapping(value).get("history"))
        return bool(history) and "agent" in mapping(history[0]) and "role" in mapping(history[0])

    def read(self, values: Iterator[Value], member: Member, context: Context) -> Iterator[Imported | Skipped]:
        """One session per trajectory."""

        def build(value: JsonValue, transcript: Transcript, heading: Heading) -> None:
            _build(mapping(value), transcript)
            heading.task = member.stem
            heading.project = _NUMBER.sub("", member.stem)
            heading.key = f"{member.stem}.{transcript.digest()[:8]}"

        return read_each(values, member, context, name=self.name, build=build)


def _build(record: Record, transcript: Transcript) -> None:
    history = sequence(record.get("history"))
    if not history:
        raise MalformedRecord("a trajectory without a history")
    acted = False
    for number, value in enumerate(history):
        message = dict(mapping(value))
        action = text_field(message, "action").strip()
        if message.get("is_demo") is True:
            transcript.say(Speaker.SYSTEM, content_text(message.get("content")))
        elif message.get("role") == "assistant" and action and not message.get("tool_calls"):
            transcript.say(Speaker.ASSISTANT, text_field(message, "thought"))
            transcript.call("shell", {"command": action}, turn=f"action-{number}")
            acted = True
            continue
        elif message.get("role") == "user" and acted:
            transcript.answer(content_text(message.get("content")))
        else:
            ids = sequence(message.get("tool_call_ids"))
            if ids and "tool_call_id" not in message:
                message["tool_call_id"] = ids[0]
            read_messages([message], transcript, first=number)
        acted = False
