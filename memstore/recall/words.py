"""Words to search by: one analysis for pages and queries, for every back end, offline.

Latin text is folded (case, width, accents), freed of words that carry no topic, and cut back to stems by a few suffix
rules after Harman's S-stemmer (1991) and Porter (1980). Chinese, Japanese and Korean text has no blanks to cut at, so
each run of it becomes its overlapping pairs of characters, which needs no dictionary and finds words of any age.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

MAX_CHARACTERS = 40_000
"""Of a longer text the beginning and the end are looked at, half each."""
MAX_TERMS = 4_000
_LONGEST = 64
_RUN = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々〆"
_KANA = "\u3041-\u309f\u30a1-\u30ff"
_CJK = re.compile(f"([{_IDEOGRAPHS}{_KANA}\u1100-\u11ff\uac00-\ud7af]+)")
_LONE = re.compile(f"(?<![{_IDEOGRAPHS}])[{_IDEOGRAPHS}](?![{_IDEOGRAPHS}])")
_HIRAGANA = re.compile("[\u3041-\u309f]+")

STOP = frozenset(
    """a an the is are was were be been being am i im my me mine we our ours us you your yours he him his she her hers
    it its they them their theirs this that these those of to in on at for from by with about as and or but if so do
    does did done have has had what which who whom whose when where why how can could would should will shall may
    might not no any some there here than then too very just s t re ve ll d m""".split()  # noqa: SIM905
)
_SUFFIXES = (
    ("ies", "y"),
    ("sses", "ss"),
    ("ings", ""),
    ("ing", ""),
    ("edly", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", ""),
    ("s", ""),
)


def terms(text: str) -> Iterator[str]:
    """The terms of a text in their order, repeated as they are repeated. Lower case, letters and digits only."""
    for run in _RUN.finditer(_excerpt(text)):
        yield from _terms_of_run(run.group())


def counts(text: str) -> Counter[str]:
    """How often each term occurs, for the first `MAX_TERMS` different ones."""
    found: Counter[str] = Counter()
    for run, times in Counter(_RUN.findall(_excerpt(text))).items():
        for term in _terms_of_run(run):
            found[term] += times
    return found if len(found) <= MAX_TERMS else Counter(dict(list(found.items())[:MAX_TERMS]))


def query_terms(text: str) -> list[str]:
    """Each term of a query once, in order."""
    return list(dict.fromkeys(terms(text)))


def _excerpt(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[: MAX_CHARACTERS // 2]} {text[-MAX_CHARACTERS // 2 :]}"


def _terms_of_run(run: str) -> Iterable[str]:
    if run.isascii():
        return _ascii_terms(run)
    return _other_terms(unicodedata.normalize("NFKC", run))


@lru_cache(maxsize=100_000)
def _ascii_terms(run: str) -> tuple[str, ...]:
    word = run.lower()
    if word in STOP or len(word) > _LONGEST:
        return ()
    parts = _CAMEL.split(run)
    if len(parts) == 1:
        return (stem(word),)
    lowered = (part.lower() for part in parts)
    return (word, *(stem(part) for part in lowered if part not in STOP))


def _other_terms(run: str) -> Iterator[str]:
    for part in _CJK.split(run):
        if _CJK.match(part):
            yield from _pairs(part)
        elif part:
            yield from _ascii_terms(folded) if (folded := _fold(part)).isascii() else (folded[:_LONGEST],)


def _pairs(run: str) -> Iterator[str]:
    """Overlapping pairs, and single ideographs that stand alone between kana, which are words as they are."""
    if len(run) == 1:
        yield run
        return
    for at in range(len(run) - 1):
        pair = run[at : at + 2]
        if not _HIRAGANA.fullmatch(pair):  # endings and particles
            yield pair
    yield from _LONE.findall(run)
    if _HIRAGANA.fullmatch(run):  # a word written out in hiragana has nothing else
        yield from (run[at : at + 2] for at in range(len(run) - 1))


def _fold(text: str) -> str:
    spread = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in spread if not unicodedata.combining(letter))


def stem(word: str) -> str:
    """The word without its ending, so that forms of one word meet: `booking`, `booked` and `books` are `book`."""
    if len(word) > 4:
        for suffix, instead in _SUFFIXES:
            if word.endswith(suffix) and len(word) - len(suffix) >= 3:
                word = word[: len(word) - len(suffix)] + instead
                break
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1].isalpha() and word[-1] not in "aeiouls":
        word = word[:-1]
    return word
