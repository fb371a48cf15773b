"""Whether sentences of a model may stand where people and agents read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from instar.engine.compiler.phrases import Language
from instar.engine.compiler.requests import stem_of
from instar.engine.llm.copying import Sayings
from instar.engine.llm.instructions import speaks_to_agents

MIN_FOREIGN = 0.3
"""Share of letters in another script above which a text counts as written in another language."""
MIN_FUNCTION_WORDS = 0.08
MANY_WORDS = 12
MIN_KNOWN = 0.5
"""Share of the telling words of a sentence that must be common to several tasks."""
SENTENCE = 240
"""Characters of one sentence."""

_LETTER = re.compile(r"[^\W\d_]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_FUNCTION = frozenset(
    word
    for word in re.findall(
        r"\w+",
        "the to of and is was are were for with that this it not from or by be as at on which when after because",
    )
)
_CONCRETE = re.compile(r"[@`<>{}$\\|]|://|www\.|\w/\w|~/|\.\w{2,4}\b(?!\s|$)|#\w|\d{3,}|\b\w*_\w*\d\w*\b")
"""Addresses, paths, markup, ids: nothing of the kind belongs into a general sentence."""


def wrong_language(text: str, language: Language) -> str:
    """Why a text is not in the language that was asked for; empty if it is, or is too short to tell."""
    letters = _LETTER.findall(text)
    if len(letters) < 20:
        return ""
    han, latin = len(_HAN.findall(text)), len(_LATIN.findall(text))
    if (len(letters) - han - latin) > MIN_FOREIGN * len(letters):
        return "is written in another language"
    if language == "zh":
        return "" if han >= 0.2 * len(letters) else "is not written in Chinese"
    if han > MIN_FOREIGN * len(letters):
        return "is not written in English"
    words = [word.lower() for word in _WORD.findall(text)]
    share = sum(word in _FUNCTION for word in words) / max(len(words), 1)
    return "is not written in English" if len(words) >= MANY_WORDS and share < MIN_FUNCTION_WORDS else ""


def unfit(text: str, known: Words, language: Language) -> str:
    """Why a sentence may not be put before an agent; empty if it may."""
    form = (
        (not text.strip(), "is empty"),
        (len(text) > SENTENCE, f"is longer than {SENTENCE} characters"),
        (bool(speaks_to_agents(text)), "reads as an instruction"),
        (known.said.repeated_in(text), "repeats at length what a tool answered"),
        (_CONCRETE.search(text) is not None, "names an address, a path, an id or a number"),
    )
    reason = next((reason for wrong, reason in form if wrong), "") or wrong_language(text, language)
    telling = {stem_of(word.lower()) for word in _WORD.findall(text) if len(word) > 3}
    if reason or not telling & (known.lone - _PLAIN):
        strange = [word for word in telling if word not in known.shared and word not in _PLAIN]
        too_strange = len(strange) > (1 - MIN_KNOWN) * len(telling)
        return reason or ("is about something that the tasks do not share" if too_strange else "")
    return "repeats what one task alone says"


@dataclass(frozen=True, slots=True)
class Words:
    """The stems of words that tasks share, and of those that the whole recording of one task alone holds.

    What only one stranger said never gets through, wherever it stood.
    """

    shared: frozenset[str]
    lone: frozenset[str] = frozenset()
    said: Sayings = field(default_factory=Sayings)

    @classmethod
    def of(
        cls,
        texts: Iterable[tuple[str, str]],
        everything: Iterable[tuple[str, str]] = (),
        answers: Iterable[str] = (),
    ) -> Words:
        """From pairs of task and text: of requests and names, and of all that was recorded; and answers of tools."""
        shared = frozenset(stem for stem, seen in _tasks(texts).items() if len(seen) > 1)
        lone = frozenset(stem for stem, seen in _tasks(everything).items() if len(seen) == 1)
        return cls(shared, lone - shared, Sayings.of(answers))


def _tasks(texts: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    tasks: dict[str, set[str]] = {}
    for task, text in texts:
        for word in {word.lower() for word in _WORD.findall(text[:40_000].replace("_", " "))}:
            tasks.setdefault(stem_of(word), set()).add(task)
    return tasks


def fit(sentences: Sequence[str], known: Words, language: Language, most: int) -> tuple[list[str], list[str]]:
    """The sentences that may be shown, and the reasons why the others may not."""
    kept: list[str] = []
    reasons: list[str] = []
    for sentence in sentences:
        flat = " ".join(sentence.split())
        reason = unfit(flat, known, language)
        if reason:
            reasons.append(reason)
        elif flat not in kept and len(kept) < most:
            kept.append(flat)
    return kept, reasons


_PLAIN = frozenset(
    stem_of(word)
    for word in (
        """
        able about after again already also always another answer answers asked asks before being better both call
        called calls case cases change changes check checks collect compare complete convert count data date details
        different does done each empty every example exactly fails failure field fields find finds first follow
        format from gather gets give given gives have high important input inputs instead into item items just keep
        kind known last later less lets like list lists look made make makes many match matter meaning missing more
        most name names need needed needs never next none number numbers once only order other output over part parts
        person place plain present program read reads reason record records repeat replace request requests result
        results return returns right risk risks same saves search several should show shown simple since single some
        something sort start step steps still stop such sure table take takes task tasks tell tells text than that
        their them then there these they thing things this those through time tool tools total turn turns type until
        used useful user users uses using value values very wait want wants well were what when where whether which
        while whole will with without word words work works would write wrong
        """.split()  # noqa: SIM905 — as a list it would fill three screens
    )
)
"""Words that say nothing by themselves."""
