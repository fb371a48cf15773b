"""Many pages in many scopes: how fast they come in, and how fast they are found.

The text is made of words of a Zipf-like frequency, in topics, since real text of that size under a free licence is
not at hand: common words are as common as in English, which is what makes full text search slow.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

from benchmarks.errors import BenchmarkError
from benchmarks.result import progress
from instar.memstore import PageDraft, PageType, Principal, Store, open_store
from instar.memstore.recall import Recall, Status, open_recall

ROOTS, SCOPES_PER_ROOT = 10, 100
WARM_UP = 30
"""Queries over each root before any is timed: a server that was just started has none of its pages at hand."""
BATCH = 1_000
_SYLLABLES = [
    "ba",
    "co",
    "di",
    "fu",
    "ge",
    "ha",
    "ki",
    "lo",
    "ma",
    "ne",
    "po",
    "qui",
    "ra",
    "se",
    "ti",
    "vo",
    "wa",
    "xe",
    "yu",
    "zi",
    "bran",
    "clem",
    "dros",
    "fler",
    "grin",
    "plat",
]
_TOPICS, _TOPIC_WORDS = 200, 150


@dataclass(frozen=True, slots=True)
class Corpus:
    """Generates pages and queries; the same seed gives the same."""

    vocabulary: tuple[str, ...]
    topics: tuple[tuple[str, ...], ...]
    weights: tuple[float, ...]

    def text(self, dice: random.Random, topic: int) -> str:
        """About 45 words, a third of them of one topic."""
        common = dice.choices(self.vocabulary, cum_weights=self.weights, k=dice.randint(20, 40))
        special = dice.choices(self.topics[topic], k=dice.randint(8, 20))
        words = common + special
        dice.shuffle(words)
        return " ".join(words).capitalize() + f". Reference {dice.randrange(10**6)}."

    def query(self, dice: random.Random) -> str:
        """Four to seven words: some of a topic, some common ones."""
        topic = dice.choice(self.topics)
        words = dice.choices(topic, k=dice.randint(2, 4)) + dice.choices(self.vocabulary[:300], k=dice.randint(2, 3))
        dice.shuffle(words)
        return " ".join(words)


def corpus() -> Corpus:
    """20,000 words; the frequency of the n-th falls with 1 / n."""
    dice = random.Random(8)
    words: dict[str, None] = {}
    while len(words) < 20_000:
        words["".join(dice.choices(_SYLLABLES, k=dice.randint(1, 4)))] = None
    vocabulary = tuple(words)
    topics = tuple(tuple(dice.sample(vocabulary[500:], _TOPIC_WORDS)) for _ in range(_TOPICS))
    return Corpus(vocabulary, topics, tuple(accumulate(1 / (rank + 10) for rank in range(len(vocabulary)))))


def principal() -> Principal:
    return Principal("benchmark", tuple(f"root{number}" for number in range(ROOTS)))


def drafts(made: Corpus, pages: int) -> Iterator[tuple[str, list[PageDraft]]]:
    """Batches of pages, each of one scope; scopes take turns, as they do when many projects are active."""
    dice = random.Random(9)
    scopes = [f"root{number % ROOTS}/scope{number // ROOTS:03d}" for number in range(ROOTS * SCOPES_PER_ROOT)]
    size = max(1, min(BATCH, pages // len(scopes)))
    for at in range(pages // size):
        scope = scopes[at % len(scopes)]
        topic = dice.randrange(_TOPICS)
        yield (
            scope,
            [
                PageDraft(
                    "message",
                    PageType.CONVERSATION,
                    {"speaker": "user" if number % 2 else "assistant"},
                    text=made.text(dice, topic if number % 4 else dice.randrange(_TOPICS)),
                    session=f"session-{at}-{number // 20}",
                )
                for number in range(size)
            ],
        )


def grow(address: str, folder: Path | None, pages: int) -> list[tuple[int, float]]:
    """Write pages while another process indexes them; returns how many there were after how many seconds.

    The clock runs from the first page of a portion to the moment when the last one is in the index; making the text
    of the next portion is not part of it.

    Raises:
        BenchmarkError: the other process ended.
    """
    taken, done, marks = 0.0, 0, [(0, 0.0)]
    with open_store(address) as store, _indexing(address, folder) as indexed:
        for portion in _portions(drafts(corpus(), pages), max(pages // 20, BATCH)):
            start = time.perf_counter()
            _write(store, portion)
            indexed()
            taken += time.perf_counter() - start
            done += sum(len(batch) for _, batch in portion)
            marks.append((done, taken))
            progress(f"  {done:,} pages, {done / taken:,.0f} a second")
    return marks


_Portion = list[tuple[str, list[PageDraft]]]


def _portions(batches: Iterator[tuple[str, list[PageDraft]]], size: int) -> Iterator[_Portion]:
    portion: _Portion = []
    held = 0
    for scope, batch in batches:
        portion.append((scope, batch))
        held += len(batch)
        if held >= size:
            yield portion
            portion, held = [], 0
    if portion:
        yield portion


def _write(store: Store, portion: _Portion) -> None:
    by = principal()
    for scope, batch in portion:
        with store.writeback(by, scope=scope) as writeback:
            for draft in batch:
                writeback.append(draft)


@contextmanager
def _indexing(address: str, folder: Path | None) -> Iterator[Callable[[], None]]:
    """Another process that indexes what comes in; what is given waits until all that is written so far is indexed."""
    ours, theirs = (context := multiprocessing.get_context("spawn")).Pipe()
    process = context.Process(target=_index, args=(address, folder, theirs))
    process.start()
    theirs.close()

    def wait() -> None:
        try:
            ours.recv()
        except EOFError as error:
            raise BenchmarkError("the process that indexes ended; it said why above") from error

    def indexed() -> None:
        ours.send(True)
        wait()

    try:
        wait()
        yield indexed
    finally:
        ours.close()
        process.join()


def _index(address: str, folder: Path | None, theirs: Connection) -> None:
    with opened(address, folder) as (_, recall):
        recall.catch_up()
        theirs.send(True)
        with suppress(EOFError):  # nobody waits any more
            while True:
                if recall.catch_up() == 0:
                    theirs.poll(0.05)
                if theirs.poll():
                    theirs.recv()
                    recall.catch_up()
                    theirs.send(True)


def latency(recall: Recall, *, narrow: bool, queries: int) -> list[float]:
    """Seconds of each query, inside one scope or over a root, after so many others that what is read is in memory."""
    made, by, dice = corpus(), principal(), random.Random(10)
    found: list[float] = []
    hits = 0
    for number in range(ROOTS * WARM_UP):
        recall.search(by, made.query(dice), scope=f"root{number % ROOTS}")
    for number in range(queries + 20):
        root = f"root{dice.randrange(ROOTS)}"
        scope = f"{root}/scope{dice.randrange(SCOPES_PER_ROOT):03d}" if narrow else root
        query = made.query(dice)
        start = time.perf_counter()
        answer = recall.search(by, query, scope=scope)
        seconds = time.perf_counter() - start
        if answer.status not in (Status.HIT, Status.NO_MATCH):
            raise BenchmarkError(f"{scope}: {query}: {answer.status} {answer.reasons}")
        hits += len(answer.hits)
        if number >= 20:
            found.append(seconds)
    if hits < queries:
        raise BenchmarkError(f"{queries} queries had {hits} hits, so it was not recall that was measured")
    return found


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile, in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[94] * 1000


@contextmanager
def opened(address: str, folder: Path | None) -> Iterator[tuple[Store, Recall]]:
    """The store and its recall, for as long as the block lasts."""
    with open_store(address) as store, open_recall(store, address=address, folder=folder) as recall:
        yield store, recall
