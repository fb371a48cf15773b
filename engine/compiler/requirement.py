"""The sentences of one requirement, in one language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from instar.engine.compiler.cases import TaskCase
from instar.engine.compiler.effects import effect_of
from instar.engine.compiler.need import Need
from instar.engine.compiler.phrases import Phrases
from instar.engine.compiler.plans import axes_of
from instar.engine.compiler.reach import reach_of
from instar.engine.compiler.requests import topics
from instar.engine.compiler.wording import spoken, subjects, ways_in
from instar.engine.documents import Pattern, ToolNeed
from instar.engine.session import Session, ToolSchema

SITUATION = 148
"""Characters of a situation with which "Use when ….", as a description, stays within what strict hosts show."""
FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a requirement is about; every method gives what one of its sections says."""

    pattern: Pattern
    need: Need
    sessions: Sequence[Session]
    said: Phrases

    def purpose(self) -> str:
        """What the skill does, and what that saves."""
        tools = list(dict.fromkeys(node.tool for node in self.pattern.plan.nodes))
        return self.said.purpose.format(
            things=self.said.listed(self._things()), tools=self.said.listed(tools), turns=self.pattern.turns_saved
        )

    def when_to_use(self) -> list[str]:
        """The situation first, in the words of those who asked; then whether it may fire on its own."""
        said, plan = self.said, self.pattern.plan
        things = self._things()
        words = topics([session for session in self.sessions if session.page_id in self._shown()])
        ways = ways_in(plan)
        full = said.alternative.join(said.the.format(name=said.listed(way)) for way in ways)
        compact = " / ".join(said.comma.join(way) for way in ways)
        needed = said.listed(things[1:] or things)
        # Hosts show little of a description: fewer words, then terser ones, rather than a sentence cut short.
        situations = [
            said.request.format(
                about=said.about.format(words=", ".join(words[:count])) if words else "",
                inputs=inputs or said.nothing,
                needed=wanted,
            )
            for inputs, wanted in ((full, said.the.format(name=needed)), (compact, needed))
            for count in range(len(words), min(len(words), FEWEST_WORDS) - 1, -1)
        ]
        found = [next((text for text in situations if len(text) <= SITUATION), situations[-1])]
        axes = axes_of(plan)
        found += [said.several.format(tool=node.tool) for node in plan.nodes if axes[node.name]]
        rule = plan.firing
        if rule is not None and rule.fire:
            fires = said.fires.format(
                uses=rule.uses, tasks=rule.tasks, needed=rule.needed_share, kept=rule.kept_share
            )
            found.append(fires)
        return found

    def when_not_to_use(self) -> list[str]:
        """The exceptions, the measured ones of the firing rule among them."""
        said, plan = self.said, self.pattern.plan
        things = self._things()
        axes = axes_of(plan)
        loops = [node.tool for node in plan.nodes if axes[node.name]]
        rule = plan.firing
        found = [said.only_first.format(thing=things[0], tool=plan.nodes[0].tool)] if len(things) > 1 else []
        known = said.named_one if rule is not None and rule.unless_named else said.known_one
        found += [known.format(tool=tool) for tool in dict.fromkeys(loops)]
        if rule is not None and rule.unless_called:
            found.append(said.called_before.format(tools=said.listed(rule.unless_called)))
        if rule is not None and not rule.fire:
            found.append(said.offered)
        return [*found, said.stale]

    def tools(self) -> list[ToolNeed]:
        """Every tool once, why it is needed, and its schema as it was offered to the agent."""
        schemas: dict[str, ToolSchema] = {}
        for session in self.sessions:
            for schema in session.tools:
                schemas.setdefault(schema.name, schema)
        axes = axes_of(self.pattern.plan)
        needs: dict[str, ToolNeed] = {}
        for node in self.pattern.plan.nodes:
            known = schemas.get(node.tool)
            often = self.said.each_item if axes[node.name] else self.said.once
            if node.optional and not axes[node.name]:
                often = self.said.at_most_once
            why = self.said.gives.format(
                thing=spoken(node.name), often=often, sessions=node.support.sessions, tasks=node.support.tasks
            )
            needs.setdefault(
                node.tool,
                ToolNeed(
                    name=node.tool,
                    why=why,
                    effect=effect_of(node.tool, known),
                    parameters=known.parameters if known else {},
                    reach=reach_of(node.tool, self.sessions),
                ),
            )
        return list(needs.values())

    def benefit(self) -> str:
        """What is expected to be saved, with the uncertainty of how often it is needed."""
        low, high = self.need.interval
        return self.said.benefit.format(
            turns=self.pattern.turns_saved * self.pattern.support.calls,
            uses=self.pattern.support.calls,
            per_use=self.pattern.turns_saved,
            opportunities=self.need.opportunities,
            tool=self.pattern.plan.nodes[0].tool,
            needed=self.need.needed,
            share=self.need.share,
            low=low,
            high=high,
        )

    def risks(self, against: Sequence[str]) -> list[str]:
        """What speaks against it, and what lies in its nature."""
        risks = list(against)
        if any(axes_of(self.pattern.plan).values()):
            risks.append(self.said.many_calls)
        writes = [need.name for need in self.tools() if need.effect == "write"]
        if writes:
            risks.append(self.said.may_change.format(tools=self.said.listed(writes)))
        return [*risks, self.said.passed_on]

    def questions(self, chosen: Sequence[TaskCase]) -> list[str]:
        """What the evidence leaves open."""
        low, high = self.need.interval
        found = [self.said.ask_every_time] if low < 0.5 < high else []
        if all(item.case.raises is None for item in chosen):
            found.append(self.said.ask_first_error)
        if not any(session.tools for session in self.sessions):
            found.append(self.said.ask_schemas)
        return found

    def _things(self) -> list[str]:
        return subjects(self.pattern.plan) or [self.pattern.title]

    def _shown(self) -> set[str]:
        """The sessions whose later calls are the evidence of the pattern."""
        nodes = self.pattern.plan.nodes[1:] or self.pattern.plan.nodes
        return {page.rsplit(".", 1)[0] for node in nodes for page in node.evidence}
