"""Long dialogues over many sessions: is the turn that answers a question among the first ten?

Made, not recorded, since no such set under a permissive licence is among the data: two people talk about the things
of ten others over half a year. Whose thing it is and what it is are named in the turn that asks, in the one before
it, or half in the answer, as people do; the detail is in the answer. A third of the questions name both in the words
of the dialogue, a third use another word for the thing, a third name the thing and a time instead of the person. Of
each kind there are equally many, by construction, and each has one right answer but for chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from benchmarks.recall_bfcl import bm25
from instar.memstore import PageDraft, PageType, Principal, Store, open_store
from instar.memstore.recall import open_recall

BY = Principal("benchmark", ("dialogue",))
NOW = datetime(2026, 6, 30, 18, tzinfo=UTC)
CONVERSATIONS, SESSIONS, EXCHANGES = 6, 24, 7
KINDS, _OF_EACH = ("plain", "other word", "time"), 20
_THINGS = [
    ("car", "automobile"), ("doctor", "physician"), ("movie", "film"), ("trip", "journey"), ("kids", "children"),
    ("sofa", "couch"), ("bike", "bicycle"), ("present", "gift"), ("exam", "test"), ("flat", "apartment"),
    ("holiday", "vacation"), ("coat", "jacket"), ("puppy", "dog"), ("wedding", "marriage"), ("concert", "show"),
    ("job", "position"), ("salary", "pay"), ("boss", "manager"), ("photo", "picture"), ("garden", "backyard"),
    ("shop", "store"), ("meal", "dinner"), ("illness", "sickness"), ("phone", "mobile"), ("street", "road"),
]  # fmt: skip
_OPENERS = [
    "How did it go with {who}{thing}?", "Any news about {who}{thing}?", "Tell me about {who}{thing}.",
    "You wanted to tell me something about {who}{thing}, right?", "And {who}{thing}, is that settled?",
]  # fmt: skip
_LEADS = ["I met {person} yesterday.", "{person} called me this morning.", "By the way, I saw {person}."]
_DETAILS = [
    "It was in {place}, and it cost {price} in the end{who}.",
    "{price}, can you believe it{who}? All because of {place}.",
    "They finally settled on {place}. It took {price}{who}.",
    "Better than I thought{who}: {place}, for only {price}.",
]  # fmt: skip
_PEOPLE = ["Anna", "Bruno", "Chiara", "Dmitri", "Elena", "Farid", "Greta", "Hiro", "Ines", "Jonas"]
_CHAT = [
    "That sounds good to me.", "Oh, really?", "I know what you mean, it was the same with my {thing}.",
    "Let us talk about that another time.", "The weather has been awful lately.", "I had far too much coffee today.",
    "My sister asked about the {thing} as well.", "Sorry, I was distracted, go on.", "Fair enough.",
    "People keep talking about their {thing} these days.", "What a week.", "I should get going soon.",
]  # fmt: skip
_PLACES = [
    "Lisbon",
    "Oslo",
    "Kyoto",
    "Dublin",
    "Lima",
    "Graz",
    "Porto",
    "Turin",
    "Malmo",
    "Quebec",
    "Perth",
    "Izmir",
    "Bergen",
    "Leeds",
    "Ghent",
    "Basel",
]


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    session: str
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    conversation: str
    text: str
    answer: str
    """The id of the turn that holds the answer."""
    kind: str


def make() -> tuple[dict[str, list[Turn]], list[Asked]]:
    """Conversations and questions; always the same."""
    dice = random.Random(20)
    turns: dict[str, list[Turn]] = {}
    asked: list[Asked] = []
    for number in range(CONVERSATIONS):
        name = f"dialogue/c{number}"
        turns[name], told = _converse(dice, name)
        for kind in KINDS:
            for one in dice.sample(told, _OF_EACH):
                asked.append(Asked(name, _question(dice, kind, one), one.answer, kind))
    return turns, asked


@dataclass(frozen=True, slots=True)
class _Told:
    """Whose thing, with its other word, in which turn its detail was told, and when."""

    person: str
    thing: tuple[str, str]
    answer: str
    at: datetime


def _converse(dice: random.Random, name: str) -> tuple[list[Turn], list[_Told]]:
    turns: list[Turn] = []
    told: list[_Told] = []
    matters = dice.sample([(person, thing) for person in _PEOPLE for thing in _THINGS], SESSIONS * EXCHANGES)
    for session in range(SESSIONS):
        at = NOW - timedelta(days=7 * (SESSIONS - session) - dice.randint(0, 3), hours=dice.randint(0, 8))

        def say(speaker: str, text: str, at: datetime = at, session: int = session) -> str:
            page_id = f"{name.replace('/', '-')}-{len(turns):04d}"
            turns.append(Turn(page_id, f"{name.replace('/', '-')}-s{session}", speaker, text, at))
            return page_id

        for person, thing in (matters.pop() for _ in range(EXCHANGES)):
            asking, telling = dice.sample(["user", "assistant"], 2)
            named = dice.choice(["asked", "asked", "before", "answered"])
            if named == "before":
                say(telling, dice.choice(_LEADS).format(person=person))
            who = f"{person}'s " if named == "asked" else "the "
            say(asking, dice.choice(_OPENERS).format(who=who, thing=thing[0]))
            detail = dice.choice(_DETAILS).format(
                place=dice.choice(_PLACES),
                price=f"{dice.randint(2, 98) * 10 + dice.randint(1, 9)} euros",
                who=f" for {person}" if named == "answered" else "",
            )
            told.append(_Told(person, thing, say(telling, detail), at))
            for _ in range(dice.randint(1, 3)):
                speaker = dice.choice(["user", "assistant"])
                say(speaker, dice.choice(_CHAT).format(thing=dice.choice(_THINGS)[0]))
    return turns, told


def _question(dice: random.Random, kind: str, told: _Told) -> str:
    word = told.thing[1] if kind == "other word" else told.thing[0]
    if kind != "time":
        form = dice.choice(["What did {p}'s {w} cost?", "Where was that with {p}'s {w}?", "How much was {p}'s {w}?"])
        return form.format(p=told.person, w=word)
    days = (NOW.replace(hour=0) - told.at.replace(hour=0)).days
    when = dice.choice([f"on {told.at:%Y-%m-%d}", f"{days} days ago" if days > 1 else "yesterday"])
    return dice.choice([f"What did the {word} cost {when}?", f"How much was the {word} {when}?"])


def fill(store: Store, turns: dict[str, list[Turn]]) -> None:
    for scope, said in turns.items():
        with store.writeback(BY, scope=scope) as batch:
            for turn in said:
                content = {"speaker": turn.speaker}
                draft = PageDraft(
                    "message", PageType.CONVERSATION, content, text=turn.text, id=turn.id, session=turn.session
                )
                batch.append(_at(draft, turn.at))


def _at(draft: PageDraft, at: datetime) -> PageDraft:
    return PageDraft(
        draft.kind, draft.type, draft.content, draft.text, id=draft.id, session=draft.session, created_at=at
    )


def windowed(said: Sequence[Turn]) -> Callable[[str], list[str]]:
    """The base line: BM25 over each turn with the one before and the one after it."""
    texts = [" ".join(turn.text for turn in said[max(0, at - 1) : at + 2]) for at in range(len(said))]
    return bm25(texts, [turn.id for turn in said])


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """Figures and base lines."""
    turns, asked = make()
    single = {name: bm25([turn.text for turn in said], [turn.id for turn in said]) for name, said in turns.items()}
    window = {name: windowed(said) for name, said in turns.items()}
    found: dict[str, list[bool]] = {"ours": [], "bm25": [], "windowed": []}
    with (
        open_store("memory:", clock=lambda: NOW) as store,
        open_recall(store, address="memory:", folder=None, clock=lambda: NOW) as recall,
    ):
        fill(store, turns)
        recall.catch_up()
        for question in asked:
            answer = recall.search(BY, question.text, scope=question.conversation)
            found["ours"].append(question.answer in {hit.page.id for hit in answer.hits})
            found["bm25"].append(question.answer in single[question.conversation](question.text)[:10])
            found["windowed"].append(question.answer in window[question.conversation](question.text)[:10])
    shares = {name: sum(hits) / len(hits) for name, hits in found.items()}
    results = {
        "dialogue.top10": shares["ours"],
        "dialogue.bm25.top10": shares["bm25"],
        "dialogue.bm25_with_neighbours.top10": shares["windowed"],
        "dialogue.ratio": shares["ours"] / shares["windowed"],
        "dialogue.questions": len(asked),
    }
    for kind in KINDS:
        for name in ("ours", "windowed"):
            hits = [hit for hit, question in zip(found[name], asked, strict=True) if question.kind == kind]
            results[f"dialogue.{kind.replace(' ', '_')}.{name}"] = sum(hits) / len(hits)
    return results, {"dialogue.top10": shares["windowed"]}
