"""When to use a skill unasked: a rule over what is visible before the call, chosen and measured on recorded uses.

Fired at every first call, a skill that fetches *all* often fetches what nobody needed. Two things that show before
the call tell the difference: the agent has already begun to fetch items one by one, or the request names one of them
(the weaker sign, so it must cost less and show more). A rule is a choice among these, never over other words of the
request, of which a few dozen tasks say too little.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pydantic import JsonValue

from instar.engine.compiler.errors import CallFailed, CompilerError, Unrecorded
from instar.engine.compiler.index import Event, Trace
from instar.engine.compiler.replay import Program
from instar.engine.compiler.uses import answers_around, batch_node, starts
from instar.engine.compiler.values import canonical
from instar.engine.plan import FiringRule, FromResult, Plan
from instar.engine.session import Message, Speaker

MIN_NEEDED = 0.45
"""Below this share of needed calls a skill is offered, not fired."""
MAX_USES = 500
COMMON_SHAPE = 0.1

_TOKEN = re.compile(r"[#@]?\w[\w-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Context:
    """What is visible before a call: what the user said so far, and the tools called so far."""

    said: str
    called: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Measured:
    task: str
    context: Context
    issued: int
    needed: int
    saved: int


def context_before(trace: Trace, event: Event) -> Context:
    """Return what was visible when the agent made a call."""
    said = " ".join(
        step.text
        for step in trace.session.steps
        if isinstance(step, Message) and step.speaker is Speaker.USER and step.index < event.step
    )
    return Context(said, frozenset(earlier.tool for earlier in trace.events[: event.position]))


def fires(rule: FiringRule, context: Context) -> bool:
    """Whether the rule lets the skill run unasked here."""
    if not rule.fire or not context.called.isdisjoint(rule.unless_called):
        return False
    return not any(names(pattern, context.said) for pattern in rule.unless_named)


def names(pattern: str, said: str) -> bool:
    """Whether a text names an identifier of this form: a whole word that matches and holds a digit."""
    form = re.compile(pattern, re.ASCII)
    return any(form.fullmatch(token) and any(c.isdigit() for c in token) for token in _TOKEN.findall(said))


def firing_rule(plan: Plan, traces: Sequence[Trace]) -> FiringRule:
    """Choose the simplest rule that keeps most of the savings and makes few calls that nobody needed.

    A batch of given calls is never fired: whoever can name the items asks for it.
    """
    if batch_node(plan) is not None:
        return FiringRule(fire=False, needed_share=1.0, kept_share=0.0, uses=0, tasks=0)
    measured = list(_measure(plan, traces))
    shapes = _shapes(plan, traces)
    tools = sorted(
        {node.tool for node in plan.nodes if any(isinstance(b, FromResult) for b in node.arguments.values())}
    )
    none: list[str] = []
    best = _measured_rule(measured, none, none)
    for kept, gain, named, called in (
        (0.8, 0.03, none, tools),
        (0.95, 0.1, shapes, none),
        (0.95, 0.1, shapes, tools),
    ):
        rule = _measured_rule(measured, named, called)
        if rule.kept_share >= kept and rule.needed_share >= best.needed_share + gain:
            best = rule
    return best.model_copy(update={"fire": best.uses > 0 and best.needed_share >= MIN_NEEDED})


def _measured_rule(measured: Sequence[_Measured], named: list[str], called: list[str]) -> FiringRule:
    rule = FiringRule(
        fire=True, unless_named=named, unless_called=called, needed_share=0, kept_share=0, uses=0, tasks=0
    )
    fired = [use for use in measured if fires(rule, use.context)]
    issued = sum(use.issued for use in fired)
    possible = sum(use.saved for use in measured)
    return rule.model_copy(
        update={
            "needed_share": round(sum(use.needed for use in fired) / issued, 4) if issued else 0.0,
            "kept_share": round(sum(use.saved for use in fired) / possible, 4) if possible else 0.0,
            "uses": len(fired),
            "tasks": len({use.task for use in fired}),
        }
    )


def _measure(plan: Plan, traces: Sequence[Trace]) -> Iterator[_Measured]:
    """Use the plan at every call it could start from, unless an earlier use already made that call."""
    count = 0
    program = Program(plan)
    for trace in traces:
        done: set[int] = set()
        for event in trace.events:
            if event.position in done or not event.ok:
                continue
            given = next((arguments for _, arguments in starts(plan, trace, event)), None)
            if given is None:
                continue
            count += 1
            if count > MAX_USES:
                return
            made = _made(program, trace, event, given)
            covered = {
                at
                for at in range(event.position, event.end)
                if canonical([trace.events[at].tool, trace.events[at].arguments]) in made
            }
            turns = {trace.events[at].turn for at in covered}
            whole = sum(trace.turns[turn] <= covered | done for turn in turns)
            needed = len({canonical([trace.events[at].tool, trace.events[at].arguments]) for at in covered})
            done |= covered
            yield _Measured(trace.task, context_before(trace, event), len(made), needed, max(whole - 1, 0))


def _made(program: Program, trace: Trace, event: Event, given: dict[str, JsonValue]) -> set[str]:
    known = answers_around(trace, event.position)
    made: set[str] = set()

    def call(tool: str, arguments: dict[str, JsonValue]) -> JsonValue:
        made.add(canonical([tool, arguments]))
        try:
            return known(tool, arguments)
        except Unrecorded:
            raise CallFailed(tool, "not recorded") from None

    with suppress(CompilerError):
        program.run(given, call)
    return made


def _shapes(plan: Plan, traces: Sequence[Trace]) -> list[str]:
    """Return the forms of the identifiers that the follow-ups are called with, the common ones, most common first."""
    wanted = {
        (node.tool, name)
        for node in plan.nodes
        for name, binding in node.arguments.items()
        if isinstance(binding, FromResult)
    }
    tools = {tool for tool, _ in wanted}
    forms: Counter[str] = Counter()
    total = 0
    for trace in traces:
        for event in trace.events:
            if event.tool in tools and event.ok:
                for name, value in event.arguments.items():
                    if (event.tool, name) in wanted and isinstance(value, str):
                        total += 1
                        if form := shape(value):
                            forms[form] += 1
    common = [form for form, count in forms.items() if count >= COMMON_SHAPE * total]
    return sorted(common, key=lambda form: (-forms[form], form))


def shape(value: str) -> str:
    """Return the form of an identifier as a regular expression, or nothing if it holds no digit or is no one word."""
    if not _TOKEN.fullmatch(value) or not any(c.isdigit() for c in value) or len(value) > 40:
        return ""
    parts = []
    for match in re.finditer(r"[A-Z0-9]+|[a-z]+|.", value):
        text = match.group()
        if text[0].islower():
            parts.append("[a-z]+")
        elif text[0].isalnum():
            parts.append(f"[A-Z0-9]{{{len(text)}}}")
        else:
            parts.append(re.escape(text))
    return "".join(parts)
