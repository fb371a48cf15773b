"""Both languages say the same things."""

from __future__ import annotations

from dataclasses import fields
from string import Formatter

import pytest

from instar.engine.compiler.phrases import CHINESE, ENGLISH, Phrases


@pytest.mark.parametrize("name", [field.name for field in fields(Phrases)])
def test_every_sentence_takes_the_same_values_in_both_languages(name: str) -> None:
    taken = [
        sorted((field, form) for _, field, form, _ in Formatter().parse(getattr(said, name)) if field)
        for said in (ENGLISH, CHINESE)
    ]
    assert taken[0] == taken[1]


def test_braces_in_values_are_only_text() -> None:
    assert (
        ENGLISH.only_first.format(thing="{tool.__class__}", tool="x")
        == "Only the {tool.__class__} is needed: call x alone"
    )
