"""Text in the evidence that speaks to an agent instead of to a person. It is reported, and never followed.

Nothing depends on this list being complete: no text of a session is ever obeyed. It makes attempts visible to those
who review, and keeps sentences of this kind out of what an agent will read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from instar.engine.llm.excerpts import content_of
from instar.engine.session import Message, Session, Speaker

SHOWN = 160
"""Characters of an attempt that are shown."""
SEARCHED = 40_000
"""Characters of one step that are searched."""
MAX_FOUND = 20
DIRECTING, SUSPECTED, REPEATED = "instructions", "suspected", "repeated"
"""Tags of memories about such text: recognised, suspected by a model alone, given back by a model as its own word."""

_READER = "(?:AI|assistant|agent|model|LLM|engine|reviewer|summari[sz]er|distiller|Instar)"
_PATTERNS = re.compile(
    rf"""(?ix)
    \b(?:ignore|disregard|forget|override|bypass|skip)\b .{{0,40}}
        \b(?:i\w{{0,3}}nstruction|prompt|rule|polic|guardrail|gate|review|check)
    | \b(?:previous|prior|above|earlier|original)\s+(?:instructions?|prompts?|tasks?)\b
    | \b(?:system|developer)\s+(?:prompt|message|override|note)\b
    | \#{{2,}}\s{{0,3}}[\[(<]?\s{{0,3}}(?:system|developer|admin|instructions?)[_\s)\]>:]
    | \bnew\s+(?:instructions?|system|directives?)\b
    | \byou\s+are\s+(?:now|actually|in)\b .{{0,30}} \b(?:mode|assistant|agent|admin|developer|root|DAN)\b
    | \b(?:attention|important|note|message|instructions?)\b .{{0,20}}
        \b(?:to|for)\s+(?:the\s+|all\s+|any\s+)?{_READER}\b
    | \bas\s+an?\s+(?:AI|assistant|agent|language\s+model)\b .{{0,40}} \b(?:must|should|shall|need|have\s+to)\b
    | \b(?:before|after)\s+(?:you|any|every|each)\b .{{0,60}} \b(?:must|always|first)\b .{{0,60}}
        \b(?:call|run|send|execute|install|fetch|transfer|e-?mail|post)\b
    | \b(?:grant|allow|add|give|enable|pin|approve|publish|activate|install)\b .{{0,50}}
        \b(?:tool|permission|access|grant|scope|polic|skill|dependency|wheel|package)\b .{{0,60}}
        \b(?:skill|manifest|requirement|PRD|memory|without|automatically|now)\b
    | \b(?:remember|memori[sz]e|store|save|record|write|note)\b .{{0,30}}
        \b(?:as\s+a\s+(?:rule|fact|lesson|memory|skill)
            | in(?:to)?\s+(?:your\s+|the\s+)?(?:memory|memories|the\s+skill|SKILL\.md|long-term))
    | \bdo\s+not\s+(?:tell|mention|inform|reveal|show|report)\b .{{0,30}}
        \b(?:user|human|person|reviewer|anyone|anybody)\b
    | \b(?:skill\s+text|SKILL\.md|manifest|skill|memory|memories)\s+(?:must|should|shall|has\s+to)\b
    | \bthe\s+user\s+(?:prefers|wants|approved|agreed|authori[sz]ed|allowed)\b .{{0,90}}
        \bwithout\s+(?:asking|being\s+asked|confirm|review|approv)
    | \b(?:exfiltrate|jailbreak|prompt\s+injection)\b
    | </?(?:system(?!-reminder)|instructions?|important|information|assistant|admin)\b[^>]{{0,40}}>
    | \[/?(?:INST|SYSTEM|SYS)\]
    | <\|(?:im_start|im_end|system|user|assistant|endoftext)[^>]{{0,20}}\|>
    | (?:忽略|无视|忘记|绕过).{{0,12}}(?:指令|指示|提示|规则|要求|审核|审查)
    | 你现在(?:是|扮演)
    | 系统(?:提示|指令|消息)
    | (?:记住|写入|存入|保存).{{0,10}}(?:记忆|技能|规则)
    | (?:授予|添加|批准|发布).{{0,12}}(?:权限|工具|技能)
    | 不要(?:告诉|告知).{{0,6}}(?:用户|审核)
    """
)

_ESCAPED = re.compile(r"\\[nrt]")
"""White space as it stands in the printed form of a value."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One place where the evidence speaks to an agent."""

    page: str
    text: str


def speaks_to_agents(text: str) -> str:
    """The part of a text that reads as an instruction to an agent; empty if there is none."""
    flat = " ".join(_ESCAPED.sub(" ", text[:SEARCHED]).split())
    found = _PATTERNS.search(flat)
    if found is None:
        return ""
    start = max(0, found.start() - 20)
    return flat[start : start + SHOWN]


def attempts_in(sessions: Iterable[Session]) -> list[Attempt]:
    """Where messages of users and results of tools speak to an agent; a system prompt is supposed to."""
    found: list[Attempt] = []
    for session in sessions:
        for step in session.steps:
            if isinstance(step, Message) and step.speaker is not Speaker.USER:
                continue
            text = speaks_to_agents(content_of(step))
            if text:
                found.append(Attempt(session.evidence_id(step.index), text))
                if len(found) == MAX_FOUND:
                    return found
    return found
