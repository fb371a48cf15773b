"""A model that confabulates: a whole night ends within its budget, and nothing that it invented is kept."""

from __future__ import annotations

import os
from itertools import count

import pytest
from pydantic import JsonValue

from benchmarks.llm import NIGHT, SAMPLES, URL, tiny_model
from instar.engine.importers import Imported, read_sources
from instar.engine.llm.played import GOOD, playing
from instar.engine.llm.testing import Asked, Handler, Play, completion, serving
from instar.engine.session import Session


def samples() -> list[Session]:
    return [item.session for item in read_sources([SAMPLES]) if isinstance(item, Imported)]


def confabulating() -> Play:
    """Prose, broken JSON, other shapes, and statements of the right shape about things that never happened."""
    turn = count()
    inventions: JsonValue = {
        "memories": [
            {
                "kind": "procedure",
                "statement": "The agent succeeded in painting the ship after the captain had approved the colour.",
                "refs": [1, 2],
                "quote": "the captain approved the colour",
                "tool": "paint_ship",
                "status": "success",
            }
        ]
        * 3,
        "instructions_found": [],
    }
    sane = playing({**GOOD, "distilled": lambda _: inventions})

    def play(handler: Handler, asked: Asked) -> None:
        texts = ("The model is a model of the model of the", '{"memories": [{"kind": "procedure"', '{"answer": 42}')
        number = next(turn)
        if number % 5 < len(texts):
            handler.reply(200, completion(texts[number % 5]))
        else:
            sane(handler, asked)

    return play


def test_a_night_with_a_model_that_invents_keeps_nothing_of_it() -> None:
    with serving(confabulating()) as server:
        figures, told = tiny_model(server.url, samples()[:6])
    assert figures["tiny_model.published"] == 0
    assert figures["tiny_model.rejected_share"] == 1.0
    assert figures["tiny_model.statements"] > 3
    assert told["accepted_memories"] == []
    assert told["within_budget"]


@pytest.mark.skipif(not os.environ.get(URL), reason=f"{URL} names no server with a small real model")
def test_a_night_with_a_real_small_model_publishes_nothing() -> None:
    figures, told = tiny_model(os.environ[URL], samples()[:NIGHT])
    assert figures["tiny_model.published"] == 0
    assert told["within_budget"]
    assert figures["tiny_model.statements"] > 0
