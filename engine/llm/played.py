"""A job that does not compile, recorded, and a model that plays every role on it: for tests and benchmarks.

The job: say where a parcel was last. The look-up answers a text with all events, of which the last must be taken
apart from the others; the miner binds whole values only, so that it takes a program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from instar.engine.llm.testing import Asked, Handler, Play, completion
from instar.engine.session import (
    Message,
    Outcome,
    OutcomeStatus,
    ResultStatus,
    Session,
    Speaker,
    Step,
    ToolCall,
    ToolResult,
    ToolSchema,
)
from instar.memstore.tokens import count_tokens

CODE = """\
def run(tools, *, code: str):
    parcel = tools.call("find_parcel", {"code": code})
    last = parcel["events"].split(";")[-1]
    return tools.call("get_event", {"event": last})
"""
WRONG = CODE.replace("[-1]", "[0]")
TOOLS = (
    ToolSchema("find_parcel", "Finds a parcel.", {"type": "object", "properties": {"code": {"type": "string"}}}),
    ToolSchema("get_event", "Tells an event.", {"type": "object", "properties": {"event": {"type": "string"}}}),
)
REQUEST = "Hello, where is my parcel {code} now? Please tell me the place of its latest event."
TOWNS = (
    "Aarau",
    "Basel",
    "Chur",
    "Davos",
    "Emmen",
    "Fribourg",
    "Glarus",
    "Horgen",
    "Illnau",
    "Jona",
    "Kloten",
    "Lugano",
)

Answers = Mapping[str, Callable[[str], JsonValue]]
"""By the name of a schema: from the text of a prompt to what the model answers."""


def parcel_session(number: int, *, request: str = REQUEST, note: str = "") -> Session:
    """One recorded use; `note` is text that a tool returns beside what was asked."""
    code = f"PX-{4410 + 37 * number}"
    first, last = f"EV-{1200 + 11 * number}", f"EV-{5600 + 13 * number}"
    found: JsonValue = {"parcel": code, "events": f"{first};{last}"}
    event: JsonValue = {"event": last, "place": TOWNS[number % len(TOWNS)]}
    if note:
        event = {"event": last, "place": TOWNS[number % len(TOWNS)], "remark": note}
    steps: tuple[Step, ...] = (
        Message(0, Speaker.USER, request.format(code=code)),
        ToolCall(1, "c1", "find_parcel", {"code": code}, 0),
        ToolResult(2, "c1", "find_parcel", found, ResultStatus.OK),
        ToolCall(3, "c2", "get_event", {"event": last}, 1),
        ToolResult(4, "c2", "get_event", event, ResultStatus.OK),
        ToolCall(5, "c3", "close_request", {"parcel": code}, 2),
        ToolResult(6, "c3", "close_request", "closed", ResultStatus.OK),
        Message(7, Speaker.ASSISTANT, f"Your parcel is in {TOWNS[number % len(TOWNS)]}."),
    )
    outcome = Outcome(OutcomeStatus.SUCCESS, "reward", 1.0)
    return Session(f"parcel-{number}", "test", "parcels", f"task-{number}", steps, outcome, tools=TOOLS)


def _numbers(text: str) -> list[JsonValue]:
    return [
        int(number) for number in dict.fromkeys(re.findall(r"^(?:session )?\[(\d+)\](?: \"|$)", text, re.MULTILINE))
    ]


def told_of(text: str) -> list[int]:
    """The numbers of the sessions that one request tells of."""
    return [int(number) for number in re.findall(r"^Session (\d+)\. Recorded", text, re.MULTILINE)]


def _use(text: str) -> JsonValue:
    code = re.search(r"parcel (PX-\d+)", text)
    return {
        "applies": code is not None,
        "arguments_json": json.dumps({"code": code[1] if code else ""}),
        "calls": [1, 3],
        "returns_ref": 4,
        "returns_path": [],
        "returns_json": "",
    }


GOOD: Answers = {
    "distilled": lambda _: {
        "memories": [
            {
                "kind": "procedure",
                "statement": "find_parcel answered the events; get_event told the place of its latest event.",
                "refs": [0, 2, 4],
                "quote": "the place of its latest event",
                "tool": "get_event",
                "status": "success",
            }
        ],
        "instructions_found": [],
    },
    "distilledtogether": lambda text: {
        "sessions": [{"session": number, **dict(GOOD["distilled"](""))} for number in told_of(text)]  # type: ignore[arg-type]
    },
    "grouped": lambda text: {"groups": [{"what": "tell where a parcel is", "sessions": _numbers(text)}]},
    "found": lambda text: {
        "recurs": True,
        "why": "All look the parcel up and read its latest event.",
        "steps": ["find_parcel with the code of the parcel", "get_event with the latest of its events"],
        "tools": ["find_parcel", "get_event"],
        "sessions": _numbers(text),
    },
    "suggested": lambda _: {
        "propose": True,
        "why": "It recurs.",
        "skill": "latest-parcel-event",
        "title": "The latest event of a parcel",
        "summary": "Finds a parcel by its code and tells the place of its latest event in one call.",
        "existing": "",
        "turns_saved_per_use": 1,
        "against": ["It tells the latest event only, and not where the parcel is to go."],
    },
    "feasible": lambda _: {"feasible": True, "why": "Two calls and a split."},
    "specified": lambda _: {
        "title": "The latest event of a parcel",
        "purpose": "Find a parcel by its code and tell the place of its latest event in one call.",
        "when_to_use": ["A request gives the code of a parcel and asks where the parcel is now"],
        "when_not_to_use": ["All of the events of the parcel are asked for"],
        "inputs": [{"name": "code", "type": "string", "meaning": "The code of the parcel.", "required": True}],
        "output_type": "object",
        "output_meaning": "The latest event with its place.",
        "tools": [
            {"name": "find_parcel", "why": "It finds the events of the parcel."},
            {"name": "get_event", "why": "It tells the place of the latest event."},
        ],
        "risks": ["The events may not be in order."],
        "open_questions": [],
    },
    "recordeduse": _use,
    "designed": lambda _: {
        "steps": ["Find the parcel.", "Take its latest event.", "Get this event."],
        "edge_cases": [],
    },
    "coded": lambda _: {"code": CODE},
}
"""A model that knows the job."""


def playing(answers: Answers) -> Play:
    """A server's answer to whatever is asked, by the schema that is asked for; tokens are counted for real."""

    def play(handler: Handler, asked: Asked) -> None:
        shape, text = shape_and_text(asked)
        said = json.dumps(answers[shape](text), ensure_ascii=False)
        counts = count_tokens(json.dumps(asked["messages"], ensure_ascii=False)), count_tokens(said)
        handler.reply(200, completion(said, counts=counts))

    return play


def shape_and_text(asked: Asked) -> tuple[str, str]:
    """The schema's name and the data of a request."""
    form, messages = asked["response_format"], asked["messages"]
    schema = form["json_schema"] if isinstance(form, dict) else None
    name = schema["name"] if isinstance(schema, dict) else ""
    last = messages[-1] if isinstance(messages, list) else None
    content = last["content"] if isinstance(last, dict) else ""
    return str(name), str(content)
