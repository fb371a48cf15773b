"""Common terms are not read to their end, or not at all; what is found is what a ranking of everything finds."""

import random
from collections.abc import Iterator, Mapping, Sequence
from math import log

import pytest

from instar.memstore.recall.documents import Doc
from instar.memstore.recall.index import Wanted
from instar.memstore.recall.lexical import DEEPEST, K1, B, rank_by_words
from instar.memstore.recall.sqlite_words import SqliteWords

COMMON = {"order": 0.9, "status": 0.7, "refund": 0.6}
FREQUENT = {"ledger": 0.2, "carton": 0.15}
RARE = {"crate": 0.06, "zeppelin": 0.004, "quartz": 0.006, "lantern": 0.01}
DOCS = 2 * DEEPEST


def docs() -> list[Doc]:
    dice = random.Random(3)  # noqa: S311
    made = []
    for seq in range(1, DOCS + 1):
        held = {
            word: dice.randint(1, 3) for word, share in (COMMON | FREQUENT | RARE).items() if dice.random() < share
        }
        words = held | {f"filler{dice.randrange(500)}": 1 for _ in range(dice.randint(2, 9))}
        made.append(Doc(seq, f"p{seq}", "local", 0, seq, None, words, (), "", ""))
    return made


class Knowing(SqliteWords):
    """Knows how common each term is, as PostgreSQL does, and keeps count of what was read."""

    def __init__(self, known: Mapping[str, float]) -> None:
        super().__init__(None)
        self.known, self.read = known, list[str]()

    def shares(self, scope: str, terms: Sequence[str]) -> dict[str, float]:
        return {term: self.known[term] for term in terms if term in self.known}

    def each(self, wanted, terms, limit, *, beside=()):  # type: ignore[no-untyped-def]
        self.read += [f"{term} beside others" for term in terms] if beside else terms
        return super().each(wanted, terms, limit, beside=beside)


@pytest.fixture(scope="module", params=["nothing is known", "shares are known"])
def words(request: pytest.FixtureRequest) -> Iterator[Knowing]:
    index = Knowing(COMMON | FREQUENT if request.param == "shares are known" else {})
    index.apply(docs(), [], DOCS)
    yield index
    index.close()


def ranked_whole(terms: Sequence[str]) -> list[int]:
    """Okapi BM25 over all documents."""
    everything = docs()
    mean = sum(sum(doc.words.values()) for doc in everything) / len(everything)
    found = []
    weight = {}
    for term in terms:
        holding = sum(term in doc.words for doc in everything)
        weight[term] = log(1 + (len(everything) - holding + 0.5) / (holding + 0.5))
    for doc in everything:
        norm = K1 * (1 - B + B * sum(doc.words.values()) / mean)
        counted = {term: doc.words.get(term, 0) for term in terms}
        found.append((sum(weight[t] * n * (K1 + 1) / (n + norm) for t, n in counted.items() if n), doc.seq))
    return [seq for _, seq in sorted(found, reverse=True)[:12]]


@pytest.mark.parametrize(
    "query",
    [
        ("zeppelin", "order"),
        ("order", "quartz", "status"),
        ("lantern", "quartz", "refund", "order"),
        ("lantern",),
        ("crate", "ledger", "carton"),
        ("quartz", "ledger", "carton", "order"),
        ("ledger", "carton"),
    ],
    ids=" ".join,
)
def test_the_best_by_rare_and_common_terms_are_those_of_a_whole_ranking(words: Knowing, query: list[str]) -> None:
    found, whole = rank_by_words(words, Wanted("local"), query, 10).seqs, ranked_whole(query)
    assert list(found[:5]) == whole[:5]
    assert set(found) <= set(whole)  # the frequency of a common term is an estimate, and near ties change places


def test_terms_that_are_known_to_be_common_are_read_only_where_there_is_nothing_rarer(words: Knowing) -> None:
    words.read.clear()
    rank_by_words(words, Wanted("local"), ["order", "zeppelin"], 10)
    assert words.read == (["zeppelin"] if words.known else ["order", "zeppelin"])
    assert len(rank_by_words(words, Wanted("local"), ["order", "status", "refund"], 10).seqs) == 10


def test_frequent_terms_are_read_beside_others_only_where_these_fill_the_pool(words: Knowing) -> None:
    words.read.clear()
    rank_by_words(words, Wanted("local"), ["crate", "ledger"], 10)
    rank_by_words(words, Wanted("local"), ["zeppelin", "ledger"], 10)
    assert words.read == (
        ["crate", "ledger beside others", "zeppelin", "ledger beside others", "ledger"]
        if words.known
        else ["crate", "ledger", "zeppelin", "ledger"]
    )


def test_of_common_terms_alone_the_best_hold_all_of_them(words: Knowing) -> None:
    held = {doc.seq: doc.words.keys() for doc in docs()}
    for seq in rank_by_words(words, Wanted("local"), ["order", "status", "refund"], 10).seqs:
        assert held[seq] >= COMMON.keys()
