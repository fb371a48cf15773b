"""Who answers a call on the trusted side: a recording, or the real tool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from instar.sandbox.bindings import Bindings
from instar.sandbox.errors import ToolError, Uncovered
from instar.sandbox.jsonvalues import canonical, to_json
from instar.skills.cases import RecordedCall

SHOWN_CHARACTERS = 200


class Recorded:
    """Answers from recorded calls, by tool and arguments. Holds its place: make one per run.

    The same call recorded several times is answered in the recorded order, and the last answer repeats.
    """

    instant = True

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._answers: dict[tuple[str, str], list[RecordedCall]] = defaultdict(list)
        for call in calls:
            self._answers[call.tool, canonical(call.arguments)].append(call)

    def answer(self, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Answer one call.

        Raises:
            ToolError: the recorded answer is an error.
            Uncovered: nobody recorded this call.
        """
        spelled = canonical(dict(arguments))
        answers = self._answers.get((tool, spelled))
        if not answers:
            raise Uncovered(tool, spelled[:SHOWN_CHARACTERS])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if found.error is not None:
            raise ToolError(found.error)
        return found.result


class Live:
    """Answers by calling the real tools, in this process: how long one may take is its own affair.

    A job whose time is up meanwhile is ended; the call's outcome is still waited for, so that it can be recorded.
    """

    def __init__(self, bindings: Bindings) -> None:
        self._bindings = bindings

    def answer(self, tool: str, arguments: Mapping[str, JsonValue]) -> JsonValue:
        """Answer one call.

        Raises:
            ToolError: the tool failed, answered with something that is no JSON, or is not bound.
            Uncovered: the tool is bound to a cassette that lacks this call.
        """
        call = self._bindings.tools.get(tool)
        if call is None:
            raise ToolError(f"the tool {tool!r} is not bound in {self._bindings.source}")
        try:
            value = call(dict(arguments))
        except ToolError:
            raise
        except Exception as error:
            raise ToolError(str(error) or type(error).__name__) from error
        try:
            return to_json(value)
        except (TypeError, ValueError) as error:
            raise ToolError(f"the tool {tool!r} answered with something that is no JSON: {error}") from error
