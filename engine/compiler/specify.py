"""The requirement of a proposal: all that a person needs to decide, and that `write` needs to write."""

from __future__ import annotations

from instar.engine.compiler.acceptance import diverse, pseudonymised
from instar.engine.compiler.cases import cases_for
from instar.engine.compiler.emit import input_schema, output_schema
from instar.engine.compiler.errors import Unspecifiable
from instar.engine.compiler.folds import fold_plans
from instar.engine.compiler.identity import identified
from instar.engine.compiler.lessons import clusters
from instar.engine.compiler.need import need_of
from instar.engine.compiler.objections import objections
from instar.engine.compiler.phrases import Language, phrases
from instar.engine.compiler.requirement import Requirement
from instar.engine.compiler.settings import MiningSettings
from instar.engine.documents import AgentText, Pattern, Prd, Proposal, Window

EVIDENCE = 60
"""Evidence pages a requirement cites at most."""


def specify(proposal: Proposal, window: Window, mining: MiningSettings, language: Language = "en") -> Prd:
    """Write the requirement. Deterministic: the same proposal and window give the same page.

    What the agent will read stays in English, whatever the language of the page.

    Raises:
        Unspecifiable: the proposal has no plan, or no recorded use of it can be replayed in this window.
    """
    if proposal.plan is None:
        raise Unspecifiable(proposal.skill, "the proposal carries no plan")
    plan = proposal.plan
    sessions = [session for session in window.sessions if session.project == proposal.project]
    pattern = Pattern(
        id=proposal.id,
        title=proposal.title,
        project=proposal.project,
        plan=plan,
        support=proposal.support,
        evidence=proposal.evidence,
        turns_saved=proposal.expected_turns_saved / max(proposal.support.calls, 1),
    )
    chosen = diverse(cases_for(plan, sessions, mining.effects))
    acceptance = pseudonymised(plan, [found.case for found in chosen], sessions, salt=proposal.id)
    if not acceptance:
        raise Unspecifiable(proposal.skill, "no recorded use of the plan can be replayed in full")
    need = need_of(pattern, sessions)
    text = Requirement(pattern, need, sessions, phrases(language))
    against = proposal.against
    if language != "en":
        against = objections(pattern, need, clusters(sessions), phrases(language))
    cited = [*proposal.evidence, *(page for found in chosen for page in found.evidence)]
    prd = Prd(
        id="",
        proposal=proposal.id,
        skill=proposal.skill,
        title=proposal.title,
        purpose=text.purpose(),
        when_to_use=text.when_to_use(),
        when_not_to_use=text.when_not_to_use(),
        input_schema=input_schema(plan),
        output_schema=output_schema(plan),
        tools=text.tools(),
        acceptance=acceptance,
        expected_benefit=text.benefit(),
        risks=text.risks(against),
        open_questions=text.questions(chosen),
        evidence=list(dict.fromkeys(cited))[:EVIDENCE],
        memories=proposal.memories,
        plan=plan,
        folds=fold_plans(pattern, sessions, mining),
        support=proposal.support,
        confidence=round(need.share, 4),
        language=language,
        for_agent=None if language == "en" else _for_agent(pattern, text),
    )
    return identified(prd, "prd")


def _for_agent(pattern: Pattern, text: Requirement) -> AgentText:
    english = Requirement(pattern, text.need, text.sessions, phrases("en"))
    return AgentText(
        purpose=english.purpose(),
        when_to_use=english.when_to_use(),
        when_not_to_use=english.when_not_to_use(),
        tools={need.name: need.why for need in english.tools()},
    )
