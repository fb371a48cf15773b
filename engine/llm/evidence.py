"""Whether a statement of a model is borne out by the steps it cites. What is not is rejected, with one reason.

The checks are mechanical: references resolve, the quotation stands there, the tool was called, the status agrees with
what results say, identifiers and most of the words occur in what is cited. A model that paraphrases too freely loses
a true statement; one that confabulates stores nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from instar.engine.documents import MemoryKind
from instar.engine.llm.copying import Sayings, answers_of
from instar.engine.llm.excerpts import content_of
from instar.engine.llm.instructions import speaks_to_agents
from instar.engine.llm.shapes import Statement
from instar.engine.session import Message, OutcomeStatus, ResultStatus, Session, Speaker, Step, ToolCall, ToolResult

MIN_QUOTE = 8
"""Characters; half as many where the quotation is Chinese."""
MIN_SHARED = 0.5
"""Share of the telling words of a statement that must occur in what it cites."""
REPEATS = "repeats at length what a tool answered"
MIN_WORDS = 2
"""Telling words without which a statement carries no information."""

_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_IDENTIFIER = re.compile(r"[`“\"'«]([^`”\"'»\n]{2,80})[`”\"'»]|(#?[\w./@:-]*(?:\d[\w./@:-]*|_[\w./@:-]+))")
_SUCCESS = re.compile(
    r"(?i)\b(succe(?:ss|eded|eds|ssful|ssfully)|worked|works fine|was resolved|completed without|no errors?)\b"
    r"|成功|顺利"
)
_FAILURE = re.compile(
    r"(?i)\b(fail(?:s|ed|ure|ures|ing)?|errors?|crash(?:ed|es)?|was refused|did not work)\b|失败|错误|报错"
)
_WILL = re.compile(
    r"(?i)\b(?:user|customer|client)s?\b.{0,20}\b(?:prefer|want|ask|said|say|approv|agree|allow|confirm|trust|need|like)"
    r"|用户.{0,6}(?:要求|希望|偏好|同意|批准|确认|想)"
)
_NEGATED = re.compile(r"(?i)\b(?:not|never|no|without|un|in)[ -]?(?:\w+ ){0,2}$|[没未不]\s*$")
_COMMON = frozenset(
    """
    about after again against agent all also and another any are asked because been before being both but call called
    calls can could did does done each even every failed failure first for from gave given had has have having her
    here him his how into its itself just later like made make makes many may memory might more most must need needed
    never next not now off once one only other our out over own result results returned same session she should since
    some step steps succeeded success successfully such task than that the their them then there these they this
    those through time too tool tools under until use used user using very
    want wanted wants was way well were what when where which
    while who why will with without would you your
    """.split()  # noqa: SIM905 — as a list it would fill two screens
)


@dataclass(frozen=True, slots=True)
class Cited:
    """The steps that a statement cites."""

    steps: Sequence[Step]

    @property
    def text(self) -> str:
        """Everything they say."""
        return "\n".join(content_of(step) for step in self.steps)

    @property
    def results(self) -> list[ToolResult]:
        """The results among them, in order."""
        return sorted((s for s in self.steps if isinstance(s, ToolResult)), key=lambda step: step.index)

    @property
    def failures(self) -> list[ToolResult]:
        """The results that are errors."""
        return [result for result in self.results if result.status is ResultStatus.ERROR]


def unsupported(statement: Statement, session: Session, shown: Set[int]) -> str:
    """Why a statement is rejected; empty if its evidence bears it out."""
    by_index: Mapping[int, Step] = {step.index: step for step in session.steps}
    unknown = [ref for ref in statement.refs if ref not in shown or ref not in by_index]
    if unknown or not statement.refs:
        return f"cites step {unknown[0]}, which it was not shown" if unknown else "cites nothing"
    cited = Cited([by_index[ref] for ref in dict.fromkeys(statement.refs)])
    checks: tuple[Callable[[], str], ...] = (
        lambda: _copied(statement.statement, cited),
        lambda: _quotation(statement.quote, cited),
        lambda: _tool(statement.tool, cited),
        lambda: _kind(statement, session, cited),
        lambda: _status(statement, session, cited),
        lambda: _words(statement.statement, session, cited),
        lambda: "reads as an instruction" if speaks_to_agents(statement.statement) else "",
        lambda: _steered(cited),
        lambda: _speaker(statement.statement, cited),
        lambda: _identifiers(statement.statement, cited),
        lambda: _shared(statement.statement, cited),
    )
    return next((reason for check in checks if (reason := check())), "")


def folded(text: str) -> str:
    """Text without differences of case, white space and quotation marks."""
    plain = text.translate(str.maketrans("“”‘’`", "\"\"'''"))
    return " ".join(plain.casefold().split())


def _quotation(quote: str, cited: Cited) -> str:
    wanted = folded(quote.strip(" .…\"'“”`"))
    if len(wanted) < (MIN_QUOTE // 2 if _HAN.search(wanted) else MIN_QUOTE):
        return "quotes too little to be looked up"
    return "" if any(wanted in folded(content_of(step)) for step in cited.steps) else "quotes what is not there"


def _tool(tool: str, cited: Cited) -> str:
    called = {step.tool for step in cited.steps if isinstance(step, ToolCall | ToolResult)}
    return "" if not tool or tool in called else "names a tool that no cited step called"


def _kind(statement: Statement, session: Session, cited: Cited) -> str:
    kind = statement.kind
    if kind is MemoryKind.FAILURE and not cited.failures:
        return "tells a failure and cites none"
    if kind is MemoryKind.RECOVERY:
        later = [r for r in cited.results if r.status is ResultStatus.OK]
        if not cited.failures or not later or later[-1].index < cited.failures[0].index:
            return "tells a recovery and cites no failure with a success after it"
    if kind is MemoryKind.FEEDBACK:
        said = any(isinstance(step, Message) and step.speaker is Speaker.USER for step in cited.steps)
        if not said and not any(result.status is ResultStatus.REFUSED for result in cited.results):
            return "tells what the user said and cites no word of the user"
    if kind is MemoryKind.OUTCOME:
        wanted = {OutcomeStatus.SUCCESS: "success", OutcomeStatus.FAILURE: "error", OutcomeStatus.UNKNOWN: ""}
        if statement.status != wanted[session.outcome.status]:
            return "contradicts the recorded outcome"
    return ""


def _status(statement: Statement, session: Session, cited: Cited) -> str:
    if statement.kind is MemoryKind.OUTCOME or not statement.status:
        return ""
    if statement.status == "success" and cited.failures and (
        statement.kind is not MemoryKind.RECOVERY or cited.results[-1].status is not ResultStatus.OK
    ):  # fmt: skip
        return "says success about a recorded error"
    if statement.status == "success" and not cited.results and session.outcome.status is not OutcomeStatus.SUCCESS:
        return "says success and cites no result"
    if statement.status == "error" and all(result.status is ResultStatus.OK for result in cited.results):
        return "says error and cites none"
    return ""


def _words(text: str, session: Session, cited: Cited) -> str:
    """Words of success or failure that the cited results contradict."""
    status = session.outcome.status
    only_errors = bool(cited.results) and all(result.status is not ResultStatus.OK for result in cited.results)
    if _says(_SUCCESS, text) and (only_errors or (not cited.results and status is OutcomeStatus.FAILURE)):
        return "says success about a recorded error"
    no_error = all(result.status is ResultStatus.OK for result in cited.results)
    quoted = _FAILURE.search(cited.text) is not None
    if _says(_FAILURE, text) and no_error and not quoted and status is not OutcomeStatus.FAILURE:
        return "says error and cites none"
    return ""


def _steered(cited: Cited) -> str:
    """A statement that rests on text which directs agents is what that text wanted said."""
    strangers = [s for s in cited.steps if not (isinstance(s, Message) and s.speaker is Speaker.ASSISTANT)]
    return "rests on text that directs agents" if any(speaks_to_agents(content_of(s)) for s in strangers) else ""


def _copied(text: str, cited: Cited) -> str:
    """Whole clauses of what a tool answered are a stranger's word, and no statement about what happened."""
    said = Sayings.of(answers_of(cited.steps))
    return REPEATS if said.repeated_in(text) else ""


def _speaker(text: str, cited: Cited) -> str:
    """What is said of the user's will must be the user's own words, not what a tool claims."""
    said = any(isinstance(step, Message) and step.speaker is Speaker.USER for step in cited.steps)
    refused = any(result.status is ResultStatus.REFUSED for result in cited.results)
    return "" if said or refused or not _WILL.search(text) else "tells the user's will and cites no word of the user"


def _says(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _NEGATED.search(text[max(0, m.start() - 24) : m.start()]) for m in pattern.finditer(text))


def _identifiers(text: str, cited: Cited) -> str:
    there = folded(cited.text)
    for match in _IDENTIFIER.finditer(text):
        name = folded((match[1] or match[2] or "").strip(".,:;/-"))
        if len(name) > 1 and name not in there:
            return "names something that is not in what it cites"
    return ""


def _shared(text: str, cited: Cited) -> str:
    """Whether the telling words are those of the evidence; of Chinese, the pairs of characters."""
    there = folded(cited.text)
    words = {
        word for word in (found.casefold() for found in _WORD.findall(text)) if word not in _COMMON and len(word) > 2
    }
    pairs = {left + right for left, right in pairwise(text) if _HAN.match(left) and _HAN.match(right)}
    telling = pairs if len(pairs) > 2 * len(words) else words
    if len(telling) < MIN_WORDS:
        return "says nothing that could be looked up"
    held = sum(word in there or word[:-1] in there or (len(word) > 5 and word[:-3] in there) for word in telling)
    return "" if held >= MIN_SHARED * len(telling) else "says what its evidence does not"
