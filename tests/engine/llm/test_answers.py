"""Texts that models write around the JSON they were asked for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from instar.engine.llm.answers import MAX_TEXT, NotTheShape, ask, json_in, parse, schema_of
from instar.engine.llm.completions import Cached, Folder, Handoff, Replay
from instar.engine.llm.errors import AnswerAwaited, NotRecorded, Unusable
from instar.engine.llm.requests import Completion, Request

Ask = Callable[..., Request]


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=5)


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")
    items: list[Item] = Field(default_factory=list)
    title: str = ""


class Played:
    """A completer that says what it is told, and remembers what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked = list(texts), list[Request]()

    def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        return Completion(text=self.texts.pop(0), model="m", input_tokens=1, output_tokens=1)


GOOD = '{"items": [{"name": "a"}], "title": "t"}'


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f'<think>{{"items": 1}} hm</think>\n{GOOD}',
        f"<THINKING>\nno\n</THINKING>{GOOD}",
        f"Here you are:\n```json\n{GOOD}\n```\nAnything else?",
        f"~~~\n{GOOD}\n~~~",
        f"The answer is {GOOD} as asked.",
        f"\n\n  {GOOD}  \n",
    ],
)
def test_thoughts_fences_and_remarks_are_taken_off(text: str) -> None:
    assert parse(text, Shape).items[0].name == "a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I am sorry.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"items": [}', "no JSON object"),
        ('{"items": NaN}', "no JSON object"),
        ("<think>on and on", "thoughts and no answer"),
        (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", "2 JSON objects"),
        ("x" * (MAX_TEXT + 1), "characters"),
        ('{"items": [{"name": "far too long"}]}', "items.0.name"),
        ('{"items": [{"name": "a", "shell": "rm"}]}', "items.0.shell"),
        ('{"a": ' * 60 + "1" + "}" * 60, "nested too deeply"),
        ("[" * 100_000, "no JSON object"),
    ],
)
def test_anything_else_is_one_clear_reason(text: str, reason: str) -> None:
    with pytest.raises(NotTheShape, match=reason):
        parse(text, Shape)


@given(st.text(max_size=300))
def test_no_text_does_more_than_that(text: str) -> None:
    with contextlib.suppress(NotTheShape):
        assert isinstance(json_in(text), dict)


def test_the_schema_is_closed_and_every_field_required() -> None:
    schema = schema_of(Shape)
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["items", "title"]
    assert "title" in schema["properties"]  # type: ignore[operator]  # the field, not the keyword
    text = json.dumps(schema)
    assert "maxLength" not in text
    assert '"default"' not in text


def test_a_wrong_shape_is_asked_for_once_more_with_the_reason(request_for: Ask) -> None:
    played = Played("no", GOOD)
    assert ask(played, request_for(), Shape).title == "t"
    assert "could not be used: it is no JSON object" in played.asked[1].user
    assert "JSON Schema" in played.asked[1].user
    with pytest.raises(Unusable, match="asked twice: it is no JSON object"):
        ask(Played("no", "no"), request_for(), Shape)


def test_the_same_question_is_asked_once_and_can_be_replayed_elsewhere(tmp_path: Path, request_for: Ask) -> None:
    played = Played(GOOD)
    cached = Cached(played, Folder(tmp_path / "cache"), Folder(tmp_path / "recording"))
    first = cached.complete(request_for())
    assert cached.complete(request_for()) == first
    assert len(played.asked) == 1
    replay = Replay(Folder(tmp_path / "recording"))
    assert replay.complete(request_for()) == first
    with pytest.raises(NotRecorded, match="no completion"):
        replay.complete(request_for("other data"))


def test_a_file_that_was_tampered_with_is_no_completion(tmp_path: Path, request_for: Ask) -> None:
    folder = Folder(tmp_path)
    (tmp_path / f"{request_for().key}.json").write_text('{"completion": {"text": 1}}')
    assert folder.get(request_for().key) is None


def test_a_prompt_waits_in_a_file_for_its_answer(tmp_path: Path, request_for: Ask) -> None:
    handoff = Handoff(tmp_path)
    with pytest.raises(AnswerAwaited) as raised:
        ask(handoff, request_for("the data"), Shape)
    page = Path(raised.value.prompt).read_text(encoding="utf-8")
    assert "the data" in page
    assert Path(raised.value.answer).name in page
    Path(raised.value.answer).write_text(f"```json\n{GOOD}\n```", encoding="utf-8")
    assert ask(handoff, request_for("the data"), Shape).title == "t"
