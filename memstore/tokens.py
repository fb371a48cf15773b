"""Token counts, offline and exact for the o200k vocabulary."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, Protocol


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...


@cache
def _tokenizer() -> _Tokenizer:
    import bpe_openai  # noqa: PLC0415  (loading the vocabulary is not free: only who counts pays for it)

    # The encoding's own methods make a list of the tokens, and refuse a text of a million characters.
    tokenizer: _Tokenizer = bpe_openai.get_encoding("o200k_base")._backend
    return tokenizer


def count_tokens(text: str) -> int:
    """Tokens of a text in the o200k vocabulary; text that looks like a special token counts as ordinary text."""
    return _tokenizer().count(text)


class Counted(NamedTuple):
    """A text with its tokens."""

    text: str
    tokens: int


def count_below(head: Counted, rest: str) -> int:
    """Tokens of the head, a line end, and the rest.

    A bracket that ends the head after a letter or digit is one token, with the line end behind it or without. There
    the vocabulary's pattern always splits, unless more line ends or slashes follow, so that the parts add up.
    """
    if head.text[-1:] == "]" and head.text[-2:-1].isalnum() and rest[:1] not in ("\n", "\r", "/"):
        return head.tokens + count_tokens(rest)
    return count_tokens(f"{head.text}\n{rest}")
