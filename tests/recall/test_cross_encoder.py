"""A cross-encoder of the real library puts hits into its order; a model that is not there is not fetched."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from instar.core.errors import PartMissing, SourceMissing
from instar.core.recall import recall_of
from instar.core.runtime import runtime
from instar.core.settings import Settings
from instar.memstore import InvalidRequest
from instar.memstore.fakes import ALICE, write
from instar.memstore.recall.errors import RerankerFailed
from instar.memstore.recall.rerank import CrossEncoders, order_of, reranker_of
from instar.memstore.recall.testing import found, say

needs_library = pytest.mark.skipif(
    find_spec("sentence_transformers") is None, reason="sentence-transformers is not installed, and torch is large"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of one layer whose weights are dice: its order means nothing, and is always the same."""
    import torch  # type: ignore[import-not-found]
    from transformers import (  # type: ignore[import-not-found]
        BertConfig,
        BertForSequenceClassification,
        BertTokenizerFast,
    )

    folder = tmp_path_factory.mktemp("model")
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(pieces), num_labels=1, max_position_embeddings=128, **sizes)
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)


@needs_library
def test_every_text_has_a_score_whatever_its_length(model: str) -> None:
    scores = CrossEncoders(model)("budget", ["the budget", "", "zeppelin " * 5_000, "預算"])
    assert len(scores) == 4
    assert all(isinstance(score, float) for score in scores)


@needs_library
def test_its_order_is_the_order_of_the_hits(model: str, tmp_path: Path) -> None:
    plain = Settings(home=tmp_path / "home", scope="local")
    with runtime(plain) as rt:
        write(rt.store, *(say(f"budget of {word}", id=word) for word in ("ships", "trains", "kites", "zeppelins")))
        with recall_of(rt) as recall:
            texts = {
                hit.page.id: hit.page.forms.compressed for hit in recall.search(ALICE, "budget", scope="local").hits
            }
    expected = order_of(CrossEncoders(model), "budget", list(texts.values()))
    ranked = plain.model_copy(update={"reranker": f"sentence-transformers:{model}"})
    with runtime(ranked) as rt, recall_of(rt) as recall:
        assert found(recall.search(ALICE, "budget", scope="local")) == [list(texts)[place] for place in expected]


@needs_library
def test_a_model_that_is_not_there_is_not_fetched() -> None:
    with pytest.raises(RerankerFailed, match="is not on this machine"):
        CrossEncoders("nobody/no-such-model")


def test_a_name_without_meaning_and_a_missing_part_are_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="unknown reranker"):
        reranker_of("magic")
    with (
        runtime(Settings(home=tmp_path / "home", reranker="magic")) as rt,
        pytest.raises(SourceMissing, match="unknown reranker"),
        recall_of(rt),
    ):
        pass
    named = Settings(home=tmp_path / "home", reranker=f"sentence-transformers:{tmp_path}/none")
    with runtime(named) as rt, pytest.raises(PartMissing, match="is not"), recall_of(rt):
        pass


def test_no_name_is_no_reranker() -> None:
    assert reranker_of("") is None
