"""Shortening with a small language model on this machine: LLMLingua-2, an extra. Nothing is ever downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from instar.memstore.compress import SHORT
from instar.memstore.errors import InvalidRequest

_VOCABULARY = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The name under which tiktoken keeps cl100k_base, with which llmlingua counts."""


class PromptCompressor(Protocol):
    """What is used of llmlingua's class of this name."""

    def compress_prompt(self, context: list[str], *, rate: float) -> dict[str, Any]:
        """The text is in `compressed_prompt`."""
        ...


class LinguaCompressor:
    """Drops the words that a model finds least telling (Pan et al., 2024, arXiv:2403.12968).

    `model` is the folder of a LLMLingua-2 model, `rate` the share of the tokens to keep. Loading it takes seconds,
    and so it is loaded here.

    Raises:
        InvalidRequest: the extra is not installed, the folder holds no model, or something would be downloaded.
    """

    def __init__(
        self,
        model: Path,
        *,
        rate: float = 0.35,
        device: str = "cpu",
        make: Callable[..., PromptCompressor] | None = None,
    ) -> None:
        if not 0 < rate < 1:
            raise InvalidRequest(f"the share to keep lies between 0 and 1, not {rate}")
        if not (model / "config.json").is_file():
            raise InvalidRequest(f"{model} is not the folder of a model: download one and name its folder")
        self._rate = rate
        # Code that comes with a model is not run, and what is missing is not fetched.
        settings = {"trust_remote_code": False, "local_files_only": True}
        self._compressor = (make or _installed())(
            model_name=str(model), device_map=device, model_config=settings, use_llmlingua2=True
        )

    def compress(self, text: str) -> str:
        """About `rate` of the text; the text itself where it is short, or gets no shorter."""
        if len(text) <= SHORT:
            return text
        short = str(self._compressor.compress_prompt([text], rate=self._rate)["compressed_prompt"]).strip()
        return short if 0 < len(short) < len(text) else text


def _installed() -> Callable[..., PromptCompressor]:
    try:
        module = import_module("llmlingua")
    except ImportError as error:
        raise InvalidRequest("llmlingua is not installed: pip install 'instar[llmlingua]'") from error
    kept = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    if not kept or not (Path(kept) / _VOCABULARY).is_file():
        raise InvalidRequest(
            f"llmlingua would download a vocabulary: put cl100k_base as {_VOCABULARY} into a folder, and name that"
            " folder in TIKTOKEN_CACHE_DIR"
        )
    made: Callable[..., PromptCompressor] = module.PromptCompressor
    return made
