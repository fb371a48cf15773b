"""Tokens are counted exactly, also where the count of a part is used again."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from instar.memstore.tokens import Counted, count_below, count_tokens

LETTERS = st.sampled_from("ab1Z9 .,;:{}[]\"'\n\r/\t-_é中²Ⅷ\u0301st\u200b\u0600ß😀")
TEXTS = st.text(LETTERS, max_size=12)


@given(TEXTS, TEXTS, st.sampled_from(["", "]", "1]", "a]", "中]", ")]"]))
@example("[p@1#0 step", '{"a":1}', "]")
@example("[p@1#0 step", "\n\nlater", "1]")
@example("[p@1#0 step", "//", "a]")
def test_what_stands_below_a_counted_line_is_counted_as_the_whole_would_be(head: str, rest: str, end: str) -> None:
    head += end
    assert count_below(Counted(head, count_tokens(head)), rest) == count_tokens(f"{head}\n{rest}")


@pytest.mark.parametrize("text", ["", "a", "<|endoftext|>", "€" * 1_000])
def test_every_text_has_a_count(text: str) -> None:
    assert count_tokens(text) >= bool(text)
