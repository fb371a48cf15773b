"""What users ask for before a pattern is used: the words by which a skill is found."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from instar.engine.compiler.lessons import task_of
from instar.engine.session import Message, Session, Speaker

MAX_REQUEST = 4_000
"""Characters of a request that are read; what follows is pasted material more often than not."""
MIN_TASKS = 3
MIN_SHARE = 0.15
"""Share of the requests in which a word must occur to be one of their topics."""
LOWER = 0.6
"""Share of its uses in lower case: names of people and places are written with a capital."""

_WORD = re.compile(r"(?<![\w@.])[A-Za-z][a-z]{3,19}(?![\w@])")
_COMMON = frozenset(
    """
    able about actually address after afternoon again alright also although always amount another anything apologize
    appreciate around assist assistance assistant available back because been before being better both bought
    business call came cannot certainly check clarify code come confirm confirming correct could currently days
    details different directly does doesn doing done down each either else email even evening ever every everything
    exactly expect feel find fine first following forward found four from further gave getting give given glad going
    good great hand handle happy hasn have haven having hear hello help here hold hope hoping however idea ideally
    information instead interested into issue itself just keep kind know last late later least left less let like
    likely little long look looking made mail main make many matter maybe mean mentioned might mind mine moment more
    morning most much must myself name need needed needs never next nice none nope noticed number okay once only
    option options other ours over past perfect perhaps person phone place please possible prefer problem proceed
    provide question questions quite rather ready really reason recently regarding remember request requested right
    said same save says seem seems send separate several shall share shared short should since situation some
    someone something soon sorry sounds specific step steps still stuff such sure swift take taken tell than thank
    thanks that thats their them then there these they thing things think this those though thought three through
    time today together told tomorrow tried trying under understand unless until used user using very wait want
    wanted wanting wants week weeks well went were what whatever when where whether which while whole will wish with
    within without wonder wondering wont work working works would wrong yeah year years yesterday your yours
    yourself
    """.split()  # noqa: SIM905 — as a list it would fill five screens
)
"""Words that say nothing about what is asked for."""


def request_of(session: Session, before: int | None = None) -> str:
    """What the user said before step `before`, by default before the first tool call."""
    said: list[str] = []
    for step in session.steps:
        if before is None and not isinstance(step, Message):
            break
        if before is not None and step.index >= before:
            break
        if isinstance(step, Message) and step.speaker is Speaker.USER:
            said.append(step.text[:MAX_REQUEST])
    return "\n".join(said)[:MAX_REQUEST]


def topics(sessions: Sequence[Session], limit: int = 6) -> list[str]:
    """The words that requests of several tasks share, the most common first; never a name, never a rare word.

    Only plain words of lower-case letters come out: nothing that a stranger wrote is quoted. Of the forms of a word
    the most common one is given.
    """
    tasks: dict[str, set[tuple[str, str]]] = defaultdict(set)
    forms: dict[str, Counter[str]] = defaultdict(Counter)
    capitals: Counter[str] = Counter()
    every = {task_of(session) for session in sessions}
    for session in sessions:
        for match in _WORD.finditer(request_of(session)):
            word = match[0].lower()
            if word not in _COMMON and singular(word) not in _COMMON:
                stem = stem_of(word)
                tasks[stem].add(task_of(session))
                forms[stem][singular(word)] += 1
                capitals[stem] += match[0][0].isupper()
    kept = [
        stem
        for stem, seen in tasks.items()
        if len(seen) >= max(MIN_TASKS, MIN_SHARE * len(every)) and capitals[stem] <= (1 - LOWER) * forms[stem].total()
    ]
    kept.sort(key=lambda stem: (-len(tasks[stem]), stem))
    return [min(forms[stem], key=lambda form: (-forms[stem][form], form)) for stem in kept[:limit]]


def stem_of(word: str) -> str:
    """A word without its English endings, so that `cancelled`, `cancelling` and `cancel` are one."""
    stem = singular(word)
    for ending in ("ing", "ed"):
        if stem.endswith(ending) and len(stem) - len(ending) >= 4:
            stem = stem.removesuffix(ending)
            if stem[-1] == stem[-2] and stem[-1] not in "sz":
                stem = stem[:-1]
            break
    return stem.removesuffix("e") if len(stem) > 4 else stem


def singular(word: str) -> str:
    """The word without its plural ending, as far as the ending tells."""
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
