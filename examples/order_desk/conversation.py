"""One conversation at the order desk, written down as OpenAI chat messages while it happens."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import cast

from examples.order_desk.desk import Desk, DeskError, Json, Row

POLICY = (
    "You work at the order desk of a small shop. Find the customer before you talk about their orders. Ask before "
    "you cancel, return or change anything. Order ids begin with #W. Today is 2 March 2026."
)


class Failed:
    """The answer of a tool that refused."""

    def __init__(self, text: str) -> None:
        self.text = text


class LeftEarly(Exception):
    """The customer is gone: the recording ends here."""


@cache
def _wording() -> dict[str, list[str]]:
    return cast("dict[str, list[str]]", json.loads((Path(__file__).parent / "wording.json").read_text()))


class Conversation:
    """The messages so far, and the desk that the agent's calls go to."""

    def __init__(self, desk: Desk, rng: random.Random) -> None:
        self.desk, self.rng = desk, rng
        self.messages: list[Row] = [{"role": "system", "content": POLICY}]
        self._calls = 0
        self._patience = rng.randrange(2, 5) if rng.random() < 0.1 else 1000

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.rng.random() < probability

    def words(self, kind: str, **values: object) -> str:
        """One of the ways to say something."""
        return self.rng.choice(_wording()[kind]).format(**values)

    def customer(self, text: str) -> None:
        """The customer says something.

        Raises:
            LeftEarly: they do not; they are gone.
        """
        self._patience -= 1
        if self._patience < 0:
            raise LeftEarly
        self.messages.append({"role": "user", "content": text})

    def agent(self, text: str) -> None:
        """The agent says something."""
        self.messages.append({"role": "assistant", "content": text})

    def call(self, tool: str, **arguments: Json) -> Json | Failed:
        """The agent calls one tool."""
        return self.calls([(tool, arguments)])[0]

    def calls(self, wanted: Sequence[tuple[str, dict[str, Json]]]) -> list[Json | Failed]:
        """The agent calls tools in one message; the answers come back in order."""
        asked: list[Json] = []
        for tool, arguments in wanted:
            self._calls += 1
            function: Row = {"name": tool, "arguments": json.dumps(arguments)}
            asked.append({"id": f"call_{self._calls}", "type": "function", "function": function})
        self.messages.append({"role": "assistant", "content": self.words("looking"), "tool_calls": asked})
        answers: list[Json | Failed] = []
        for (tool, arguments), call in zip(wanted, asked, strict=True):
            answer: Json | Failed
            try:
                answer = self.desk.call(tool, arguments)
                content = json.dumps(answer)
            except DeskError as error:
                answer = Failed(str(error))
                content = f"Error: {error}"
            self.messages.append({"role": "tool", "tool_call_id": cast(Row, call)["id"], "content": content})
            answers.append(answer)
        return answers
