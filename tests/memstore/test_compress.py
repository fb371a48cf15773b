"""Shortening: what is telling survives, nothing gets longer, and nothing is fetched."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.memstore import InvalidRequest, open_store
from instar.memstore.compress import SHORT, ExtractiveCompressor
from instar.memstore.lingua import LinguaCompressor
from instar.memstore.represent import Representer
from instar.memstore.testing import ALICE, step, write
from instar.memstore.tokens import count_tokens

ENGLISH = (
    "The parcel waited. " * 30
    + "The carrier failed with error 4711 because the address was closed. "
    + "It rained. " * 30
)
CHINESE = "包裹在等待。" * 60 + "因为地址已关闭，承运人失败，错误代码4711。" + "下雨了。" * 60


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_the_telling_sentence_survives(text: str) -> None:
    short = ExtractiveCompressor().compress(text)
    assert "4711" in short
    assert len(short) <= len(text) // 2


@given(st.text(max_size=2000))
def test_a_shortened_text_is_never_longer_and_always_the_same(text: str) -> None:
    short = ExtractiveCompressor().compress(text)
    assert len(short) <= max(len(text), SHORT)
    assert short == ExtractiveCompressor().compress(text)


def test_a_text_of_more_than_a_million_characters_is_kept_and_counted() -> None:
    text = "word " * 250_000
    assert count_tokens(text) == 250_001
    with open_store("memory:") as store:
        write(store, step(id="p", text=text))
        page = store.get(ALICE, "p")
        assert page is not None
        assert page.full == text


class FakePromptCompressor:
    """Keeps the first words, and remembers how it was made."""

    def __init__(self, **settings: object) -> None:
        self.settings = settings

    def compress_prompt(self, context: list[str], *, rate: float) -> dict[str, Any]:
        words = context[0].split()
        return {"compressed_prompt": " ".join(words[: int(len(words) * rate)])}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_a_model_on_this_machine_makes_the_compressed_representation(model: Path) -> None:
    made: list[FakePromptCompressor] = []

    def make(**settings: object) -> FakePromptCompressor:
        made.append(FakePromptCompressor(**settings))
        return made[0]

    compressor = LinguaCompressor(model, rate=0.2, make=make)
    assert compressor.compress("short") == "short"
    with open_store("memory:", representer=Representer(compressor)) as store:
        write(store, step(id="p", text=ENGLISH))
        page = store.get(ALICE, "p")
        assert page is not None
        words = ENGLISH.split()
        assert page.forms.compressed == f"{page.forms.pointer}\n{' '.join(words[: int(len(words) * 0.2)])}"
    settings = made[0].settings
    assert settings["model_name"] == str(model)
    assert settings["model_config"] == {"trust_remote_code": False, "local_files_only": True}


def test_what_would_be_downloaded_or_is_missing_is_named_with_its_remedy(
    model: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRequest, match="folder of a model"):
        LinguaCompressor(model / "nowhere")
    with pytest.raises(InvalidRequest, match="share"):
        LinguaCompressor(model, rate=1.5)
    if find_spec("llmlingua") is None:
        with pytest.raises(InvalidRequest, match=r"instar\[llmlingua\]"):
            LinguaCompressor(model)
    packages = tmp_path_factory.mktemp("packages")
    (packages / "llmlingua.py").write_text("class PromptCompressor:\n    def __init__(self, **settings): pass\n")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.delitem(sys.modules, "llmlingua", raising=False)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    with pytest.raises(InvalidRequest, match="TIKTOKEN_CACHE_DIR"):
        LinguaCompressor(model)
    (packages / "9b5ad71b2ce5302211f9c61530b329a4922fc6a4").write_text("")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(packages))
    LinguaCompressor(model)
    monkeypatch.delitem(sys.modules, "llmlingua", raising=False)
