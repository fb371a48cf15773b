"""Token counts, offline and exact for the o200k vocabulary."""

from __future__ import annotations

from functools import cache
from typing import Protocol


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
