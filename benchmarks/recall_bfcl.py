"""BFCL memory conversations: one page a turn; is the turn that a question is about among the first found?"""

from __future__ import annotations

import json
import re
import tarfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from benchmarks.data import recorded
from benchmarks.errors import BenchmarkError
from instar.memstore import PageDraft, PageType, Principal, Store, open_store
from instar.memstore.recall import Recall, open_recall
from instar.memstore.recall.embedders import WordLlama

BY = Principal("benchmark", ("bfcl",))
_PIECE = 8


@dataclass(frozen=True, slots=True)
class Question:
    scenario: str
    text: str
    answers: frozenset[str]
    """Page ids of the turns that hold the answer."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a scenario, by page id in order."""

    scenario: str
    sessions: tuple[str, ...]
    ids: tuple[str, ...]
    texts: tuple[str, ...]


Ranking = Callable[[Question], Sequence[str]]


def load() -> tuple[list[Turns], list[Question]]:
    """Turns and questions of the scenarios whose conversations are there.

    Raises:
        DataMissing: the data is not there.
        BenchmarkError: a question cannot be traced to a turn.
    """
    with tarfile.open(recorded("bfcl/bfcl_v4.tar.gz")) as archive:

        def lines(name: str) -> list[dict[str, object]]:
            file = archive.extractfile(name)
            if file is None:
                raise BenchmarkError(f"bfcl: {name} is not a file")
            return [json.loads(line) for line in file.read().decode().splitlines()]

        names = [member for member in archive.getnames() if member.startswith("memory_prereq_conversation/")]
        turns = [_turns(lines(name)) for name in sorted(names)]
        sources = {str(row["id"]): row["source"] for row in lines("possible_answer/BFCL_v4_memory.json")}
        asked = lines("BFCL_v4_memory.json")
    by_scenario = {one.scenario: one for one in turns}
    questions = []
    for row in asked:
        scenario = str(row["scenario"])
        if scenario in by_scenario:
            text = _content(row["question"])[0]
            answers = _traced(by_scenario[scenario], sources[str(row["id"])])
            if not answers:
                raise BenchmarkError(f"bfcl: no turn holds the source of {row['id']}")
            questions.append(Question(scenario, text, answers))
    return turns, questions


def _turns(conversations: Sequence[dict[str, object]]) -> Turns:
    sessions, ids, texts = [], [], []
    for conversation in conversations:
        for number, text in enumerate(_content(conversation["question"])):
            sessions.append(str(conversation["id"]))
            ids.append(f"{conversation['id']}.{number:03d}")
            texts.append(text)
    return Turns(str(conversations[0]["scenario"]), tuple(sessions), tuple(ids), tuple(texts))


def _content(question: object) -> list[str]:
    if not isinstance(question, list):
        raise BenchmarkError("bfcl: a question is not a list of turns")
    return [message["content"] for turn in question for message in turn]


def _traced(turns: Turns, source: object) -> frozenset[str]:
    """Turns that hold every piece of one of the quoted sources; else the turn that shares most words with it."""
    found = set()
    for quoted in source if isinstance(source, list) else [source]:
        pieces = [piece for piece in map(_plain, re.split(r"\.\.\.|…", str(quoted))) if len(piece) > _PIECE]
        for page_id, text in zip(turns.ids, turns.texts, strict=True):
            if pieces and all(piece in _plain(text) for piece in pieces):
                found.add(page_id)
    if not found:
        words = set(_plain(str(source)).split())
        shared = [len(words & set(_plain(text).split())) for text in turns.texts]
        if max(shared) >= 0.8 * len(words):
            found.add(turns.ids[int(np.argmax(shared))])
    return frozenset(found)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", unicodedata.normalize("NFKC", text).lower()).strip()


def fill(store: Store, turns: Sequence[Turns]) -> None:
    """One page a turn, one scope a scenario."""
    for one in turns:
        with store.writeback(BY, scope=f"bfcl/{one.scenario}") as batch:
            for page_id, session, text in zip(one.ids, one.sessions, one.texts, strict=True):
                content = {"speaker": "user"}
                batch.append(
                    PageDraft("message", PageType.CONVERSATION, content, text=text, id=page_id, session=session)
                )


def share(questions: Sequence[Question], ranking: Ranking, depth: int) -> float:
    """The share of questions with an answer among the first."""
    hits = sum(bool(question.answers & set(ranking(question)[:depth])) for question in questions)
    return hits / len(questions)


def product(recall: Recall) -> Ranking:
    """What users get."""
    memory: dict[Question, Sequence[str]] = {}

    def ranking(question: Question) -> Sequence[str]:
        if question not in memory:
            answer = recall.search(BY, question.text, scope=f"bfcl/{question.scenario}")
            memory[question] = [hit.page.id for hit in answer.hits]
        return memory[question]

    return ranking


def bm25(texts: Sequence[str], ids: Sequence[str]) -> Callable[[str], list[str]]:
    """Plain BM25 over lower-case words, as a base line: k1 1.2, b 0.75, no stems, no stop words."""
    counted = [Counter(re.findall(r"\w+", text.lower())) for text in texts]
    held = Counter(word for counts in counted for word in counts)
    lengths = [counts.total() for counts in counted]
    mean = sum(lengths) / len(lengths)

    def rank(query: str) -> list[str]:
        scores = [0.0] * len(ids)
        for word in set(re.findall(r"\w+", query.lower())):
            weight = log(1 + (len(ids) - held[word] + 0.5) / (held[word] + 0.5))
            for place, counts in enumerate(counted):
                if count := counts[word]:
                    scores[place] += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * lengths[place] / mean))
        return [ids[place] for place in sorted(range(len(ids)), key=lambda place: (-scores[place], place))]

    return rank


def vectors(texts: Sequence[str], ids: Sequence[str]) -> Callable[[str], list[str]]:
    """Word vectors alone, as a base line."""
    embed = WordLlama()
    matrix = embed(texts)

    def rank(query: str) -> list[str]:
        return [ids[place] for place in np.argsort(-(matrix @ embed([query])[0]), kind="stable")]

    return rank


def alone(
    turns: Sequence[Turns], make: Callable[[Sequence[str], Sequence[str]], Callable[[str], list[str]]]
) -> Ranking:
    """A base line for each scenario."""
    ranks = {one.scenario: make(one.texts, one.ids) for one in turns}
    return lambda question: ranks[question.scenario](question.text)


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """Figures and base lines."""
    turns, questions = load()
    with open_store("memory:") as store, open_recall(store, address="memory:", folder=None) as recall:
        fill(store, turns)
        recall.catch_up()
        ours = product(recall)
        results = {f"bfcl.top{depth}": share(questions, ours, depth) for depth in (5, 10)}
    beside = {"bm25": alone(turns, bm25), "vector": alone(turns, vectors)}
    for name, ranking in beside.items():
        results |= {f"bfcl.{name}.top{depth}": share(questions, ranking, depth) for depth in (5, 10)}
    baselines = {f"bfcl.top{depth}": results[f"bfcl.bm25.top{depth}"] for depth in (5, 10)}
    results["bfcl.questions"] = len(questions)
    return results, baselines
