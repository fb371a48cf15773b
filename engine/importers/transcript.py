"""Builds a session's steps: numbers them, pairs calls with results, and makes call ids unique."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path

from pydantic import JsonValue

from instar.engine.importers.errors import MalformedRecord
from instar.engine.importers.jsontext import embedded, is_deeper
from instar.engine.importers.records import Skipped
from instar.engine.importers.status import judge
from instar.engine.session import Message, Speaker, Step, ToolCall, ToolResult

UNPARSED = "_unparsed"
"""The argument that holds the recorded text, where a model wrote arguments that are not a JSON object."""


_NAME_SCAN = 64
"""How many unanswered calls without an id are searched for a tool's name."""


class _Waiting:
    """The unanswered calls with one recorded id, grouped by turn."""

    def __init__(self) -> None:
        self._groups: list[deque[ToolCall]] = []

    def add(self, call: ToolCall) -> None:
        if not self._groups or self._groups[-1][-1].turn != call.turn:
            self._groups.append(deque())
        self._groups[-1].append(call)

    def take(self, tool: str) -> ToolCall | None:
        """The first call of the latest turn; the first of that tool where a name is given."""
        if not self._groups:
            return None
        group = self._groups[-1]
        candidates = islice(group, _NAME_SCAN) if tool else iter(group)
        chosen = next((call for call in candidates if not tool or call.tool == tool), None)
        if chosen is not None:
            group.remove(chosen)
            if not group:
                self._groups.pop()
        return chosen


class Transcript:
    """Collects the steps of one session in order.

    Recorded call ids may repeat or be missing. A result belongs to an unanswered call with its id, of the latest turn
    that has one, in order of the calls; a result whose id is missing or unknown to such a call without an id, of the
    named tool where one is named.
    """

    def __init__(self, *, depth: int) -> None:
        self.steps: list[Step] = []
        self.left_out: Counter[str] = Counter()
        """What of the recording is not in the steps: how often, by reason."""
        self.started_at: datetime | None = None
        self._depth = depth
        self._waiting: dict[str, _Waiting] = {}
        self._used: dict[str, int] = {}
        self._turns: dict[str, int] = {}

    @property
    def tools(self) -> frozenset[str]:
        """The names of the tools that were called."""
        return frozenset(step.tool for step in self.steps if isinstance(step, ToolCall))

    def say(self, speaker: Speaker, text: str, at: datetime | None = None) -> None:
        """Add a message; blank text is no message."""
        if text.strip():
            self._started(at)
            self.steps.append(Message(len(self.steps), speaker, text, at))

    def call(
        self, tool: str, arguments: JsonValue, *, turn: str, recorded_id: str = "", at: datetime | None = None
    ) -> None:
        """Add a call. `turn` identifies the assistant message it is part of.

        Raises:
            MalformedRecord: the call has no name, or its arguments are nested beyond the limit.
        """
        if not tool:
            raise MalformedRecord("a tool call without a name")
        if isinstance(arguments, str):
            parsed = embedded(arguments, depth=self._depth) if arguments.strip() else {}
            arguments = parsed if isinstance(parsed, dict) else {UNPARSED: arguments}
        elif arguments is None:
            arguments = {}
        elif not isinstance(arguments, dict):
            arguments = {UNPARSED: arguments}
        if is_deeper(arguments, self._depth):
            raise MalformedRecord(f"tool arguments nested deeper than {self._depth} levels")
        self._started(at)
        number = self._turns.setdefault(turn, len(self._turns))
        call = ToolCall(len(self.steps), self._unique(recorded_id), tool, arguments, number, at)
        self.steps.append(call)
        self._waiting.setdefault(recorded_id, _Waiting()).add(call)

    def answer(
        self,
        result: JsonValue,
        *,
        recorded_id: str = "",
        tool: str = "",
        flag: bool | None = None,
        refused: bool = False,
        at: datetime | None = None,
    ) -> None:
        """Add the result of an open call; it is left out where no call waits for it.

        `flag` and `refused` are what the recording itself says (see `status.judge`).

        Raises:
            MalformedRecord: the result is nested beyond the limit.
        """
        if isinstance(result, str):
            result = embedded(result, depth=self._depth)
        elif is_deeper(result, self._depth):
            raise MalformedRecord(f"a tool result nested deeper than {self._depth} levels")
        call = self._take(recorded_id, tool)
        if call is None:
            self.left_out["results that answer no call of their session"] += 1
            return
        self._started(at)
        status, error = judge(result, flag=flag, refused=refused)
        self.steps.append(ToolResult(len(self.steps), call.call_id, call.tool, result, status, error, at))

    def knows(self, recorded_id: str) -> bool:
        """Whether a call with this id was added."""
        return recorded_id in self._used

    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify the content, whatever file it was read from."""
        state = hashlib.sha256()
        for step in self.steps:
            match step:
                case Message(speaker=speaker, text=text):
                    parts = [speaker.value, text]
                case ToolCall(tool=tool, arguments=arguments):
                    parts = ["call", tool, repr(arguments)]
                case ToolResult(value=value):
                    parts = ["result", value if isinstance(value, str) else repr(value)]
            for part in parts:
                state.update(part.encode("utf-8", "surrogatepass"))
                state.update(b"\0")
        return state.hexdigest()[:16]

    def request(self) -> str:
        """A task name made from the user's first words, for formats that name no task; "" where there are none."""
        for step in self.steps:
            if isinstance(step, Message) and step.speaker is Speaker.USER:
                words = " ".join(step.text.split()).casefold()
                return f"request-{hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        return ""

    def _started(self, at: datetime | None) -> None:
        if self.started_at is None:
            self.started_at = at

    def _unique(self, recorded_id: str) -> str:
        wanted = recorded_id or f"call-{len(self._used)}"
        name, count = wanted, self._used.get(wanted, 0)
        while name in self._used:
            count += 1
            name = f"{wanted}~{count + 1}"
        self._used[wanted] = count
        self._used.setdefault(name, 0)
        return name

    def _take(self, recorded_id: str, tool: str) -> ToolCall | None:
        waiting = self._waiting.get(recorded_id)
        found = waiting.take("" if recorded_id else tool) if waiting else None
        if found is None and recorded_id and recorded_id not in self._used and "" in self._waiting:
            found = self._waiting[""].take(tool)
        return found


def remarks(transcript: Transcript, file: Path, position: str) -> Iterator[Skipped]:
    """Say what of a session was left out, each reason with its count."""
    for reason, count in transcript.left_out.items():
        yield Skipped(file, position, f"{reason}: {count}")
