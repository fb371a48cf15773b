"""What a reviewer asked to change, as far as it can be done without a model: leave out, rename, say when to use.

A reviewer's comment is an instruction about the draft by someone who may decide about it, so it is followed; yet only
in these few forms. What has no such form is written into the requirement as an open question, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from instar.engine.compiler.plans import references
from instar.engine.compiler.wording import spoken
from instar.engine.documents import Prd, Proposal
from instar.engine.plan import Binding, FromEither, FromParameter, FromResult, Plan, PlanNode
from instar.skills.manifest import NAME_REGEX

HINT = (
    "This engine can: “leave out TOOL”, “rename to NAME”, “use when …”, “do not use when …”; one sentence for each. "
    "The rest stays in the requirement as an open question."
)
"""What a reviewer may ask for, in one line."""

_LEAVE_OUT = re.compile(
    r"(?i)(?:please\s+)?(?:leave\s+out|drop|remove|omit|skip|without|(?:do\s+not|don't)\s+call)\s+(.+)"
)
_RENAME = re.compile(
    r"(?i)(?:please\s+)?(?:rename|call|name)\s+(?:(?:it|this|the\s+skill)\s+)?(?:(?:to|as)\s+)?([\w -]{1,64})"
)
_NOT_WHEN = re.compile(
    r"(?i)(?:do\s+not|don't|never)\s+use\s+(?:it\s+|this\s+)?((?:when|if|for|on|after|before)\b.+)"
)
_WHEN = re.compile(r"(?i)(?:only\s+)?use\s+(?:it\s+|this\s+)?(?:only\s+)?((?:when|if|for|on|after|before)\b.+)")


@dataclass(slots=True)
class Wishes:
    """What was understood of the comments, and what was not."""

    leave_out: list[str] = field(default_factory=list)
    name: str = ""
    when: list[str] = field(default_factory=list)
    when_not: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    @property
    def understood(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.leave_out or self.name or self.when or self.when_not)


def wishes(comments: Sequence[str], plan: Plan) -> Wishes:
    """Read the comments of reviewers, one sentence or line at a time."""
    found = Wishes()
    for comment in comments:
        for sentence in re.split(r"(?<=[.!?;])\s+|\n+", comment):
            said = sentence.strip().rstrip(".!?; ")
            if said:
                _read(said, plan, found)
    return found


def changed(proposal: Proposal, wanted: Wishes) -> Proposal | None:
    """The proposal with another name and without what was to be left out; None when nothing would remain."""
    plan = proposal.plan
    for tool in wanted.leave_out:
        plan = None if plan is None else without(plan, tool)
    if plan is None:
        return None
    return proposal.model_copy(update={"plan": plan, "skill": wanted.name or proposal.skill})


def answered(prd: Prd, wanted: Wishes) -> Prd:
    """The requirement with what reviewers said about its use, and with what is left for a person to do."""
    return prd.model_copy(
        update={
            "when_to_use": [*prd.when_to_use, *wanted.when],
            "when_not_to_use": [*prd.when_not_to_use, *wanted.when_not],
            "open_questions": [*prd.open_questions, *(f"A reviewer also asked: {said}" for said in wanted.open)],
        }
    )


def without(plan: Plan, tool: str) -> Plan | None:
    """The plan without the calls of a tool and without what only they make possible; None when nothing remains.

    A measured firing rule goes too: it was measured on another plan.
    """
    gone = {node.name for node in plan.nodes if node.tool == tool}
    kept: list[PlanNode] = []
    for node in plan.nodes:
        arguments = {name: _reduced(binding, gone) for name, binding in node.arguments.items()}
        if node.name in gone or None in arguments.values():
            gone.add(node.name)
        else:
            left = {name: binding for name, binding in arguments.items() if binding is not None}
            kept.append(node.model_copy(update={"arguments": left}))
    required = [node for node in kept if not node.optional]
    if not required or len(kept) < 2:
        return None
    used = {node.switch for node in kept}
    loops = False
    for node in kept:
        for binding in node.arguments.values():
            for option in references(binding):
                if isinstance(option, FromParameter):
                    used.add(option.name)
                loops = loops or any(str(step).startswith("*") for step in getattr(option, "path", ()))
    limit = plan.limit if loops else ""
    parameters = [parameter for parameter in plan.parameters if parameter.name in {*used, limit}]
    return plan.model_copy(update={"nodes": kept, "parameters": parameters, "limit": limit, "firing": None})


def _reduced(binding: Binding, gone: set[str]) -> Binding | None:
    """The binding without what comes from nodes that are gone; None when nothing else gives the argument."""
    options = references(binding)
    left = [option for option in options if not (isinstance(option, FromResult) and option.node in gone)]
    if len(left) == len(options):
        return binding
    if not left:
        return None
    if len(left) == 1:
        return left[0]
    return FromEither(options=[option for option in left if isinstance(option, FromParameter | FromResult)])


def _read(said: str, plan: Plan, found: Wishes) -> None:
    if rule := _NOT_WHEN.fullmatch(said):
        found.when_not.append(_sentence(rule[1]))
    elif rule := _LEAVE_OUT.fullmatch(said):
        tools = [
            tool for name in re.split(r",|\band\b", rule[1]) if name.strip() for tool in _tools(name, plan) or [""]
        ]
        if "" in tools or not tools:
            found.open.append(said)
        else:
            found.leave_out += [tool for tool in tools if tool not in found.leave_out]
    elif rule := _WHEN.fullmatch(said):
        found.when.append(_sentence(rule[1]))
    elif (rule := _RENAME.fullmatch(said)) and (name := _name(rule[1])):
        found.name = name
    else:
        found.open.append(said)


def _tools(said: str, plan: Plan) -> list[str]:
    """The tools of a plan that words name: by the tool, or by what its result is called."""
    wanted = _plain(re.sub(r"(?i)^\s*(?:the|all|any|calls?\s+(?:of|to))\s+|\s+(?:calls?|steps?|tool)\s*$", "", said))
    return list(
        dict.fromkeys(
            node.tool
            for node in plan.nodes
            if wanted in {_plain(node.tool), _plain(node.name), _plain(spoken(node.name))}
        )
    )


def _plain(text: str) -> str:
    return re.sub(r"[\W_]+", " ", text.casefold()).strip().removesuffix("s")


def _name(text: str) -> str:
    name = re.sub(r"[\W_]+", "-", text.casefold()).strip("-")
    return name if NAME_REGEX.fullmatch(name) and len(name) <= 64 else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
