"""Token counts, offline and exact for the o200k vocabulary."""

from __future__ import annotations

from functools import cache
from typing import Protocol


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


@cache
def _encoding() -> _Encoding:
    import bpe_openai  # noqa: PLC0415  (loading the vocabulary is not free: only who counts pays for it)

    encoding: _Encoding = bpe_openai.get_encoding("o200k_base")
    return encoding


def count_tokens(text: str) -> int:
    """Tokens of a text in the o200k vocabulary; text that looks like a special token counts as ordinary text."""
    return len(_encoding().encode_ordinary(text)) if text else 0
